// The linears of Q6_K; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q6_K, q6_k)
