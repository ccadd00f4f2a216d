// The linears of Q5_1; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q5_1, q5_1, true, 1)
INT_GEMV(Q5_1, q5_1, false, )
INT_TILE(Q5_1, q5_1, 1)
INT_TILE(Q5_1, q5_1, 2)
INT_TILE(Q5_1, q5_1, 4)
INT_TILE(Q5_1, q5_1, 8)
