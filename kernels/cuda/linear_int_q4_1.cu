// The linears of Q4_1; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q4_1, q4_1, true, 1)
INT_GEMV(Q4_1, q4_1, false, )
INT_TILE(Q4_1, q4_1, 1)
INT_TILE(Q4_1, q4_1, 2)
INT_TILE(Q4_1, q4_1, 4)
INT_TILE(Q4_1, q4_1, 8)
