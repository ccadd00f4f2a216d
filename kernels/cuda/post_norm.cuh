// A norm of a linear's result, whole rows of it, that is added to the residual stream, in the launch of the linear: the last of its
// blocks to arrive does it, in the order of norm_add_row (residual.cu), so that both give the same bits.
#pragma once
#include "activation.cuh"

// PostNorm: sum += y / sqrt(mean(y²)+eps) · w, of the rows of y.
struct PostNorm {
	const float* w; // or null: there is none
	float* sum;     // (rows, ld)
	int ld;
	float eps;
	unsigned* counter; // zero before and after
};

// POST_NORM are a kernel's parameters for it, MAKE_POST_NORM joins them.
#define POST_NORM const float *post, float *sum, int ldsum, float post_eps, unsigned *counter
#define MAKE_POST_NORM (PostNorm{post, sum, ldsum, post_eps, counter})

constexpr int kPostRows = 8; // at most

// fresh4 is row4 of what other blocks have written: not from the first-level cache.
__device__ __forceinline__ float4 fresh4(const float* x, int k, int n) {
	float4 v = __ldcg(reinterpret_cast<const float4*>(x + k));
	if (k + 1 >= n) v.y = 0.0f;
	if (k + 2 >= n) v.z = 0.0f;
	if (k + 3 >= n) v.w = 0.0f;
	return v;
}

// post_norm ends a kernel of blocks along x that have written rows ≤ kPostRows of y, n values each; all threads call it.
__device__ __forceinline__ void post_norm(const PostNorm& p, const float* y, int ldy, int rows, int n) {
	if (!p.w) return;
	__shared__ float sums[8 * kPostRows];
	__shared__ bool last;
	int lane = threadIdx.x % 32;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) last = atomicInc(p.counter, gridDim.x - 1) == gridDim.x - 1; // back to 0 after the last
	__syncthreads();
	if (!last) return;
	__threadfence();
#pragma unroll 1
	for (int i = threadIdx.x / 32; i < 8 * rows; i += blockDim.x / 32) { // the work of eight warps a row
		const float* row = y + (size_t)(i / 8) * ldy;
		float s = 0.0f;
#pragma unroll 1
		for (int k = 4 * (i % 8 * 32 + lane); k < n; k += 4 * 256) { // as square_sum_256
			float4 v = fresh4(row, k, n);
			s = fmaf(v.x, v.x, s);
			s = fmaf(v.y, v.y, s);
			s = fmaf(v.z, v.z, s);
			s = fmaf(v.w, v.w, s);
		}
		s = warp_sum(s);
		if (lane == 0) sums[i] = s;
	}
	__syncthreads();
#pragma unroll 1
	for (int r = 0; r < rows; r++) {
		float inv = rms_inverse_256(sums + 8 * r, n, p.eps);
#pragma unroll 1
		for (int k = 4 * threadIdx.x; k < n; k += 4 * blockDim.x) {
			float4 v = fresh4(y + (size_t)r * ldy, k, n), f = load4(p.w, k, n, true);
			float* to = p.sum + (size_t)r * p.ld + k;
			if (k + 4 <= n) {
				float4 d = *reinterpret_cast<float4*>(to);
				d.x = __fadd_rn(d.x, rms_apply(v.x, inv, f.x));
				d.y = __fadd_rn(d.y, rms_apply(v.y, inv, f.y));
				d.z = __fadd_rn(d.z, rms_apply(v.z, inv, f.z));
				d.w = __fadd_rn(d.w, rms_apply(v.w, inv, f.w));
				*reinterpret_cast<float4*>(to) = d;
				continue;
			}
			to[0] = __fadd_rn(to[0], rms_apply(v.x, inv, f.x));
			if (k + 1 < n) to[1] = __fadd_rn(to[1], rms_apply(v.y, inv, f.y));
			if (k + 2 < n) to[2] = __fadd_rn(to[2], rms_apply(v.z, inv, f.z));
		}
	}
}
