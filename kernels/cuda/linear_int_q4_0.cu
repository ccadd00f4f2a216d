// The linears of Q4_0; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q4_0, q4_0)
