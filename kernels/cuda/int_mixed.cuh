// Several weights that share x but not their type, by a few rows, in one launch: a block has one of the weights, and does for it what
// gemv does. The types have blocks of one size, so that they have the same segments.
#pragma once
#include "int_gemv.cuh"

// A part is one of up to three weights: its type by number, and how many blocks it has. Absent ones have no blocks.
#define PART(I) const u8 *w##I, float *y##I, const float *bias##I, int ldy##I, int out##I, int strips##I, int stages##I, int type##I, int blocks##I
#define USE_PART(I) c.w = w##I, c.y = y##I, c.bias = bias##I, c.ldy = ldy##I, c.out = out##I, c.strips = strips##I, c.stages = stages##I, c.grid = blocks##I, type = type##I

template <bool One, class T, class... Others>
__device__ __forceinline__ void gemv_of(int type, const Linear& c) {
	if (type == 0) gemv<T, One>(c);
	else if constexpr (sizeof...(Others) > 0) gemv_of<One, Others...>(type - 1, c);
}

#define INT_MIXED(NAME, ONE, ...)                                                                                                      \
	extern "C" __global__ void __launch_bounds__(256, 2) NAME(const float* x, const float* norm, int rows, int ldx, int blobs,             \
		int segments, float eps, PART(0), PART(1), PART(2)) {                                                                          \
		Linear c = {};                                                                                                                 \
		c.x = x, c.norm = norm, c.rows = rows, c.ldx = ldx, c.blobs = blobs, c.segments = segments, c.eps = eps, c.block = blockIdx.x; \
		int type;                                                                                                                      \
		USE_PART(0);                                                                                                                   \
		if (c.block >= blocks0) {                                                                                                      \
			c.block -= blocks0;                                                                                                         \
			USE_PART(1);                                                                                                                \
			if (c.block >= blocks1) {                                                                                                   \
				c.block -= blocks1;                                                                                                     \
				USE_PART(2);                                                                                                            \
			}                                                                                                                           \
		}                                                                                                                              \
		gemv_of<ONE, __VA_ARGS__>(type, c);                                                                                            \
	}
