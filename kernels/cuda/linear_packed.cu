// Linears with weights of AWQ, GPTQ and FP8 files. linear_float.cuh says how they compute, linear_packed.cuh how a weight becomes f16;
// kernel/linear_packed.go lays out W.
#include "linear_float_row.cuh"
#include "linear_float_tiers.cuh"
#include "linear_packed.cuh"

#define CALL                                                                                                                   \
	Linear c = {};                                                                                                               \
	c.w = w, c.scales = scales, c.zeros = zeros, c.y = y, c.ldy = ldy, c.bias = bias, c.rows = rows, c.out = out;                 \
	c.tiles = tiles, c.blocks = blocks, c.seg = seg, c.flags = flags, c.group = group, c.groups = groups;

#define WEIGHT const uint4 *w, const uint4 *scales, const unsigned short *zeros, int group, int groups

#define ONE_ROW(NAME, TYPE, NT)                                                                                                \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(WEIGHT, const float* x, const float* norm, float eps, float* y,         \
		const float* bias, int k, int out, int tiles, int blocks, int seg, u32 flags) {                                           \
		constexpr int ldy = 0, rows = 1;                                                                                          \
		CALL c.x = x, c.norm = norm, c.eps = eps, c.k = k;                                                                        \
		one_row<TYPE, NT>(c);                                                                                                     \
	}

#define DIRECT(NAME, TYPE, NT)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(WEIGHT, const float* x, int ldx, const float* norm, float eps,        \
		float* y, int ldy, const float* bias, int rows, int k, int out, int tiles, int blocks, int seg, u32 flags) {              \
		CALL c.x = x, c.ldx = ldx, c.norm = norm, c.eps = eps, c.k = k;                                                           \
		direct<TYPE, NT>(c);                                                                                                      \
	}

#define SKINNY(NAME, TYPE, NB)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(WEIGHT, const uint4* operand, const float* unscale,                  \
		float* y, int ldy, const float* bias, int rows, int out, int tiles, int blocks, int seg, u32 flags, int across) {         \
		CALL c.operand = operand, c.unscale = unscale;                                                                            \
		skinny<TYPE, NB, NB >= 4 ? 1 : 2>(c, across);                                                                             \
	}

#define LINEAR(NAME, TYPE)                                                                                                     \
	DIRECT(NAME##_direct_1, TYPE, 1)                                                                                             \
	DIRECT(NAME##_direct_2, TYPE, 2)                                                                                             \
	SKINNY(NAME##_skinny_2, TYPE, 2)                                                                                             \
	SKINNY(NAME##_skinny_4, TYPE, 4)                                                                                             \
	SKINNY(NAME##_skinny_8, TYPE, 8)                                                                                             \
	extern "C" __global__ void __launch_bounds__(256, 1) NAME##_gemm(WEIGHT, const uint4* operand, const float* unscale,           \
		float* y, int ldy, const float* bias, int rows, int out, int tiles, int blocks, int seg, u32 flags) {                     \
		CALL c.operand = operand, c.unscale = unscale;                                                                            \
		gemm<TYPE>(c);                                                                                                            \
	}

ONE_ROW(linear_u4_one_row_1, U4<1>, 1)
ONE_ROW(linear_u4_one_row_2, U4<1>, 2)
ONE_ROW(linear_u4_fine_one_row_1, U4<2>, 1) // groups of 32
ONE_ROW(linear_u4_fine_one_row_2, U4<2>, 2)
LINEAR(linear_u4, U4<2>)
ONE_ROW(linear_u8_one_row_1, U8, 1)
ONE_ROW(linear_u8_one_row_2, U8, 2)
LINEAR(linear_u8, U8)
ONE_ROW(linear_f8_one_row_1, F8, 1)
ONE_ROW(linear_f8_one_row_2, F8, 2)
LINEAR(linear_f8, F8)
