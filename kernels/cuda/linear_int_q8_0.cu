// The linears of Q8_0; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q8_0, q8_0)
