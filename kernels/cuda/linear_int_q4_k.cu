// The linears of Q4_K; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q4_K, q4_k, true, 1)
INT_GEMV(Q4_K, q4_k, false, )
INT_TILE(Q4_K, q4_k, 1)
INT_TILE(Q4_K, q4_k, 2)
INT_TILE(Q4_K, q4_k, 4)
INT_TILE(Q4_K, q4_k, 8)
