// The linears of Q5_K; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q5_K, q5_k, true, 1)
INT_GEMV(Q5_K, q5_k, false, )
INT_TILE(Q5_K, q5_k, 1)
INT_TILE(Q5_K, q5_k, 2)
INT_TILE(Q5_K, q5_k, 4)
INT_TILE(Q5_K, q5_k, 8)
