// Linears with bf16 and f16 weights. linear_float.cuh says how they compute; kernel/linear_float.go lays out W and chooses.
#include "linear_float_row.cuh"
#include "linear_float_tiers.cuh"
#include "post_norm.cuh"

#define LINEAR(NAME, TYPE)                                                                                                     \
	extern "C" __global__ void __launch_bounds__(256) NAME##_convert(const float* x, int ldx, const float* norm, float eps,        \
		int rows, int k, int blocks, u32 flags, uint4* operand, float* unscale) {                                                 \
		Linear c = {};                                                                                                            \
		c.x = x, c.ldx = ldx, c.norm = norm, c.eps = eps, c.rows = rows, c.k = k, c.blocks = blocks, c.flags = flags;             \
		convert<TYPE, 32>(c, operand, unscale);                                                                                   \
	}                                                                                                                            \
	ONE_ROW(NAME##_one_row_1, TYPE, 1)                                                                                           \
	ONE_ROW(NAME##_one_row_2, TYPE, 2)                                                                                           \
	DIRECT(NAME##_direct_1, TYPE, 1)                                                                                             \
	DIRECT(NAME##_direct_2, TYPE, 2)                                                                                             \
	SKINNY(NAME##_skinny_2, TYPE, 2)                                                                                             \
	SKINNY(NAME##_skinny_4, TYPE, 4)                                                                                             \
	SKINNY(NAME##_skinny_8, TYPE, 8)                                                                                             \
	extern "C" __global__ void __launch_bounds__(256) NAME##_gemm(const uint4* w, const uint4* operand, const float* unscale,      \
		float* y, int ldy, const float* bias, int rows, int out, int tiles, int blocks, int seg, u32 flags) {                     \
		Linear c = {};                                                                                                            \
		c.w = w, c.operand = operand, c.unscale = unscale, c.y = y, c.ldy = ldy, c.bias = bias, c.rows = rows, c.out = out;       \
		c.tiles = tiles, c.blocks = blocks, c.seg = seg, c.flags = flags;                                                         \
		gemm<Dense<TYPE>>(c);                                                                                                     \
	}

#define ONE_ROW(NAME, TYPE, NT)                                                                                                \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(const uint4* w, const float* x, const float* norm, float eps, float* y, \
		const float* bias, int k, int out, int tiles, int blocks, int seg, u32 flags, POST_NORM) {                                \
		Linear c = {};                                                                                                            \
		c.w = w, c.x = x, c.norm = norm, c.eps = eps, c.y = y, c.bias = bias, c.rows = 1, c.k = k;                                \
		c.out = out, c.tiles = tiles, c.blocks = blocks, c.seg = seg, c.flags = flags;                                            \
		one_row<Dense<TYPE>, NT>(c);                                                                                              \
		post_norm(MAKE_POST_NORM, y, 0, 1, out);                                                                                  \
	}

#define DIRECT(NAME, TYPE, NT)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(const uint4* w, const float* x, int ldx, const float* norm, float eps,  \
		float* y, int ldy, const float* bias, int rows, int k, int out, int tiles, int blocks, int seg, u32 flags, POST_NORM) {   \
		Linear c = {};                                                                                                            \
		c.w = w, c.x = x, c.ldx = ldx, c.norm = norm, c.eps = eps, c.y = y, c.ldy = ldy, c.bias = bias, c.rows = rows, c.k = k;   \
		c.out = out, c.tiles = tiles, c.blocks = blocks, c.seg = seg, c.flags = flags;                                            \
		direct<Dense<TYPE>, NT>(c);                                                                                               \
		post_norm(MAKE_POST_NORM, y, ldy, rows, out);                                                                             \
	}

#define SKINNY(NAME, TYPE, NB)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(const uint4* w, const uint4* operand, const float* unscale,             \
		float* y, int ldy, const float* bias, int rows, int out, int tiles, int blocks, int seg, u32 flags, int across) {         \
		Linear c = {};                                                                                                            \
		c.w = w, c.operand = operand, c.unscale = unscale, c.y = y, c.ldy = ldy, c.bias = bias, c.rows = rows, c.out = out;       \
		c.tiles = tiles, c.blocks = blocks, c.seg = seg, c.flags = flags;                                                         \
		skinny<Dense<TYPE>, NB, 2>(c, across);                                                                                       \
	}

LINEAR(linear_bf16, BF16)
LINEAR(linear_f16, F16)
