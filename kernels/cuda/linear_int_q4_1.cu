// The linears of Q4_1; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q4_1, q4_1)
