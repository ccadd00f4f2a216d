// The linears of Q2_K; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q2_K, q2_k)
