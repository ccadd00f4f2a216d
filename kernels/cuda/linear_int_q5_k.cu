// The linears of Q5_K; see int_linear.cuh.
#include "int_linear.cuh"

INT_LINEAR(Q5_K, q5_k)
