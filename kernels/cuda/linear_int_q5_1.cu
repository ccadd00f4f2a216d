// The linears of Q5_1; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q5_1, q5_1)
