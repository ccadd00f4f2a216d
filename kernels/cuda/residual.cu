// What stands between a linear and the residual stream where the architecture has a norm there, and rotations of heads that
// attention does not take.
#include <cstdint>

#include "activation.cuh"

// dst += x / sqrt(mean(x²)+eps) · w over whole rows. Grid (rows), 256 threads.
extern "C" __global__ void __launch_bounds__(256) norm_add_row(const float* __restrict__ x, int x_stride, float* __restrict__ dst, int dst_stride,
                                                               const float* __restrict__ w, int width, float eps) {
	__shared__ float sums[8];
	int t = threadIdx.x;
	x += (int64_t)blockIdx.x * x_stride;
	dst += (int64_t)blockIdx.x * dst_stride;
	float s = warp_sum(square_sum_256(x, width, t));
	if (t % 32 == 0) sums[t / 32] = s;
	__syncthreads();
	float inv = rms_inverse_256(sums, width, eps);
	for (int k = 4 * t; k < width; k += 4 * 256) {
		if (k + 4 <= width) {
			float4 v = *reinterpret_cast<const float4*>(x + k), f = *reinterpret_cast<const float4*>(w + k);
			float4 d = *reinterpret_cast<float4*>(dst + k);
			d.x = __fadd_rn(d.x, rms_apply(v.x, inv, f.x));
			d.y = __fadd_rn(d.y, rms_apply(v.y, inv, f.y));
			d.z = __fadd_rn(d.z, rms_apply(v.z, inv, f.z));
			d.w = __fadd_rn(d.w, rms_apply(v.w, inv, f.w));
			*reinterpret_cast<float4*>(dst + k) = d;
			continue;
		}
		for (int i = k; i < width; i++) dst[i] = __fadd_rn(dst[i], rms_apply(x[i], inv, w[i]));
	}
}

// Rotates heads of x in place, each thread one pair: grid (⌈heads·half/256⌉, rows), 256 threads. Pair i of a head is (i, i+half),
// or without neox (2i, 2i+1), half = dim/2. table holds cos, sin of position p and pair i at 2·(p·half + i). A row at position -1
// is padding.
extern "C" __global__ void __launch_bounds__(256) rope_rows(float* __restrict__ x, int stride, const int32_t* __restrict__ pos,
                                                            const float2* __restrict__ table, int heads, int head_dim, int half, int neox) {
	int i = blockIdx.x * 256 + threadIdx.x;
	int p = pos[blockIdx.y];
	if (i >= heads * half || p < 0) return;
	int head = i / half, pair = i % half;
	float* h = x + (int64_t)blockIdx.y * stride + head * head_dim;
	float2 turn = table[(int64_t)p * half + pair];
	int a = neox ? pair : 2 * pair, b = neox ? pair + half : 2 * pair + 1;
	float u = h[a], v = h[b];
	h[a] = fmaf(u, turn.x, -__fmul_rn(v, turn.y));
	h[b] = fmaf(u, turn.y, __fmul_rn(v, turn.x));
}
