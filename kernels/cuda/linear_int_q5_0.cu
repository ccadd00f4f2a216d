// The linears of Q5_0; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q5_0, q5_0)
