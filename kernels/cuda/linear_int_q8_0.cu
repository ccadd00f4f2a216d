// The linears of Q8_0; see int_linear.cuh.
#include "int_gemv.cuh"
#include "int_tile.cuh"

INT_GEMV(Q8_0, q8_0, true, 1)
INT_GEMV(Q8_0, q8_0, false, )
INT_TILE(Q8_0, q8_0, 1)
INT_TILE(Q8_0, q8_0, 2)
INT_TILE(Q8_0, q8_0, 4)
INT_TILE(Q8_0, q8_0, 8)
