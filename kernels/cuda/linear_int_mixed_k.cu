// Weights of the types with blocks of 256 in one launch; see int_mixed.cuh. linear_int.go numbers the types as here.
#include "int_mixed.cuh"

INT_MIXED(int_gemv1_mixed_k, true, Q2_K, Q4_K, Q5_K, Q6_K)
INT_MIXED(int_gemv_mixed_k, false, Q2_K, Q4_K, Q5_K, Q6_K)
