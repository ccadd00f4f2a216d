// Weights of the types with blocks of 32 in one launch; see int_mixed.cuh. linear_int.go numbers the types as here.
#include "int_mixed.cuh"

INT_MIXED(int_gemv1_mixed_32, true, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0)
INT_MIXED(int_gemv_mixed_32, false, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0)
