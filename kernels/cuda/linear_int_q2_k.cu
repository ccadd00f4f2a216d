// The linears of Q2_K; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q2_K, q2_k, true, 1)
INT_GEMV(Q2_K, q2_k, false, )
INT_TILE(Q2_K, q2_k, 1)
INT_TILE(Q2_K, q2_k, 2)
INT_TILE(Q2_K, q2_k, 4)
INT_TILE(Q2_K, q2_k, 8)
