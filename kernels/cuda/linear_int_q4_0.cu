// The linears of Q4_0; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q4_0, q4_0, true, 1)
INT_GEMV(Q4_0, q4_0, false, )
INT_TILE(Q4_0, q4_0, 1)
INT_TILE(Q4_0, q4_0, 2)
INT_TILE(Q4_0, q4_0, 4)
INT_TILE(Q4_0, q4_0, 8)
