// The linears of Q4_K; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q4_K, q4_k)
