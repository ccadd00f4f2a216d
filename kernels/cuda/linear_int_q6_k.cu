// The linears of Q6_K; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q6_K, q6_k, true, 1)
INT_GEMV(Q6_K, q6_k, false, )
INT_TILE(Q6_K, q6_k, 1)
INT_TILE(Q6_K, q6_k, 2)
INT_TILE(Q6_K, q6_k, 4)
INT_TILE(Q6_K, q6_k, 8)
