// Linears with float32 weights: y = x·Wᵀ by FMA in ascending order of k. Lane n of a warp has output n of a tile of 32, and W lies as
// [tile][k/4][lane] 16 bytes. K is cut into segments of seg·32 values by the shape of W; warp s sums segment s from 0, and the
// result is ((0 + s0) + s1) + …. All row counts do the same: a block has R rows, and more rows are more blocks.
#include "post_norm.cuh"

typedef unsigned int u32;

enum : u32 { kResidual = 2, kSilu = 4, kGelu = 8, kGated = kSilu | kGelu }; // as in linear_float.cuh

// linear multiplies rows R·blockIdx.y … by NT tiles; NT is 2 where gated: gate and up alternate. fours is K/4, rounded up.
template <int R, int NT>
__device__ __forceinline__ void linear(const float4* __restrict__ w, const float* __restrict__ x, int ldx, const float* __restrict__ norm,
	float eps, float* y, int ldy, const float* __restrict__ bias, int rows, int k, int out, int tiles, int fours, int seg, u32 flags) {
	__shared__ float part[16 * NT * 256]; // [segment][tile][row % 8][32 outputs]
	__shared__ float red[16], inverse[8];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile0 = blockIdx.x * NT, row0 = blockIdx.y * R;
	int segments = (fours + 8 * seg - 1) / (8 * seg), from = warp * 8 * seg, to = min(from + 8 * seg, fours);
	rows -= row0;
	x += (size_t)row0 * ldx;
	if (R <= 8 && norm) {
		int groups = blockDim.x / 256, g = threadIdx.x / 256, t = threadIdx.x % 256;
		for (int first = 0; first < min(rows, R); first += groups) {
			bool live = first + g < rows;
			float s = warp_sum(live ? square_sum_256(x + (size_t)(first + g) * ldx, k, t) : 0.0f);
			if (lane == 0) red[warp] = s;
			__syncthreads();
			if (t == 0 && live) inverse[first + g] = rms_inverse_256(red + 8 * g, k, eps);
			__syncthreads();
		}
	}
	float sum[NT][R] = {};
	const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll(R < 16 ? 2 : 1)
	for (int q = from; q < to; q++) {
		float4 a[NT], n;
#pragma unroll
		for (int i = 0; i < NT; i++) a[i] = tile0 + i < tiles ? __ldg(w + ((size_t)(tile0 + i) * fours + q) * 32 + lane) : zero;
		if (R <= 8 && norm) n = load4(norm, 4 * q, k, true);
#pragma unroll
		for (int r = 0; r < R; r++) {
			float4 v = row4(x + (size_t)min(r, rows - 1) * ldx, 4 * q, k); // rows past the end are computed, but not written
			if (R <= 8 && norm) {
				float inv = inverse[min(r, rows - 1)];
				v = make_float4(rms_apply(v.x, inv, n.x), rms_apply(v.y, inv, n.y), rms_apply(v.z, inv, n.z), rms_apply(v.w, inv, n.w));
			}
#pragma unroll
			for (int i = 0; i < NT; i++) {
				sum[i][r] = fmaf(a[i].x, v.x, sum[i][r]);
				sum[i][r] = fmaf(a[i].y, v.y, sum[i][r]);
				sum[i][r] = fmaf(a[i].z, v.z, sum[i][r]);
				sum[i][r] = fmaf(a[i].w, v.w, sum[i][r]);
			}
		}
	}
	bool gated = NT == 2 && flags & kGated;
#pragma unroll 1
	for (int r0 = 0; r0 < min(R, rows); r0 += 8) {
#pragma unroll
		for (int r = 0; r < R; r++) { // registers have no index
			if (r / 8 * 8 != r0 || from >= to) continue;
#pragma unroll
			for (int i = 0; i < NT; i++) part[((warp * NT + i) * 8 + r % 8) * 32 + lane] = sum[i][r];
		}
		__syncthreads();
		for (int i = threadIdx.x; i < 256 * (gated ? 1 : NT); i += blockDim.x) {
			int tile = i / 256, r = r0 + i / 32 % 8, col = (gated ? tile0 / 2 : tile0 + tile) * 32 + lane;
			if (r >= rows || col >= out) continue;
			float v = 0.0f, up = 0.0f;
			for (int s = 0; s < segments; s++) {
				v += part[(s * NT + tile) * 256 + i % 256];
				if (gated) up += part[(s * NT + 1) * 256 + i % 256];
			}
			if (bias) v += bias[col];
			if (gated) {
				if (bias) up += bias[out + col];
				v = (flags & kSilu ? silu(v) : gelu_tanh(v)) * up;
			}
			float* to = y + (size_t)(row0 + r) * ldy + col;
			*to = flags & kResidual ? v + *to : v;
		}
		__syncthreads();
	}
}

#define LINEAR(NAME, R, NT)                                                                                                    \
	extern "C" __global__ void __launch_bounds__(512, 1) NAME(const float4* w, const float* x, int ldx, const float* norm, float eps, \
		float* y, int ldy, const float* bias, int rows, int k, int out, int tiles, int fours, int seg, u32 flags, POST_NORM) {    \
		linear<R, NT>(w, x, ldx, norm, eps, y, ldy, bias, rows, k, out, tiles, fours, seg, flags);                                \
		if (R <= kPostRows) post_norm(MAKE_POST_NORM, y, ldy, rows, out);                                                         \
	}

LINEAR(linear_f32_1_1, 1, 1)
LINEAR(linear_f32_1_2, 1, 2)
LINEAR(linear_f32_8_1, 8, 1)
LINEAR(linear_f32_8_2, 8, 2)
LINEAR(linear_f32_16_1, 16, 1)
LINEAR(linear_f32_16_2, 16, 2)

// linear_rows writes the norm of a row, or the row, for the linears that have no norm of their own; with order, value k is that of
// column order[k]. One block a row.
extern "C" __global__ void __launch_bounds__(256) linear_rows(const float* __restrict__ x, int ldx, const float* __restrict__ norm, float eps,
	const int* __restrict__ order, int k, float* __restrict__ y, int ldy) {
	__shared__ float red[8];
	int t = threadIdx.x;
	x += (size_t)blockIdx.x * ldx;
	y += (size_t)blockIdx.x * ldy;
	float inv = 1.0f;
	if (norm) {
		float s = warp_sum(square_sum_256(x, k, t));
		if (t % 32 == 0) red[t / 32] = s;
		__syncthreads();
		inv = rms_inverse_256(red, k, eps);
	}
	for (int i = t; i < (k + 3) / 4 * 4; i += 256) { // row4 reads whole fours
		float v = 0.0f;
		if (i < k) {
			int from = order ? order[i] : i;
			v = norm ? rms_apply(x[from], inv, norm[from]) : x[from];
		}
		y[i] = v;
	}
}
