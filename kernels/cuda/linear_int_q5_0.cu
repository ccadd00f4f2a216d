// The linears of Q5_0; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q5_0, q5_0, true, 1)
INT_GEMV(Q5_0, q5_0, false, )
INT_TILE(Q5_0, q5_0, 1)
INT_TILE(Q5_0, q5_0, 2)
INT_TILE(Q5_0, q5_0, 4)
INT_TILE(Q5_0, q5_0, 8)
