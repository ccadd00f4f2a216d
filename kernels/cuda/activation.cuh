// Functions that several kernels fuse: activations of gated layers, and the root mean square norm of a row in an order of sums
// that does not depend on who computes it, so that a fused norm has the same bits as a separate one.
#pragma once

// silu is x·sigmoid(x) within 4 ulp: expf 1 ulp (CUDA programming guide, mathematical functions), a sum and a division of half an
// ulp each. For x far below 0 it is -0.
__device__ __forceinline__ float silu(float x) {
	return __fdiv_rn(x, 1.0f + expf(-x));
}

// gelu_tanh is 0.5·x·(1 + tanh(u)), u = sqrt(2/pi)·(x + 0.044715·x³), written as x·sigmoid(2u), which is the same number without
// the difference of near equals for x < 0. The rounding of u enters exp: within (6 + 4·|u|) ulp.
__device__ __forceinline__ float gelu_tanh(float x) {
	float u2 = 1.5957691216057308f * fmaf(0.044715f * x * x, x, x);
	return __fdiv_rn(x, 1.0f + expf(-u2));
}

// load4 reads x[k], …, x[k+3], and 0 from n on. vec says that x is aligned to 16 bytes; k is a multiple of 4.
__device__ __forceinline__ float4 load4(const float* __restrict__ x, int k, int n, bool vec) {
	if (vec && k + 4 <= n) return *reinterpret_cast<const float4*>(x + k);
	float4 v;
	v.x = k < n ? x[k] : 0.0f;
	v.y = k + 1 < n ? x[k + 1] : 0.0f;
	v.z = k + 2 < n ? x[k + 2] : 0.0f;
	v.w = k + 3 < n ? x[k + 3] : 0.0f;
	return v;
}

// row4 is load4 for a row of a matrix (kernel.Mat), k < n: what lies between the row's end and the next multiple of four is memory too,
// so that one load serves; its values count as 0.
__device__ __forceinline__ float4 row4(const float* __restrict__ x, int k, int n) {
	float4 v = *reinterpret_cast<const float4*>(x + k);
	if (k + 1 >= n) v.y = 0.0f;
	if (k + 2 >= n) v.z = 0.0f;
	if (k + 3 >= n) v.w = 0.0f;
	return v;
}

// warp_sum adds the 32 lanes' values in a fixed order; every lane has the sum.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
	for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
	return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
	for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
	return v;
}

// The norm of a row of n values is computed by 256 threads, t = 0 … 255: each sums the squares of its groups of four, each warp
// sums its lanes, and the eight warps' sums are added in order:
//
//	float s = warp_sum(square_sum_256(x, n, t));
//	if (t % 32 == 0) sums[t / 32] = s;
//	__syncthreads();
//	float inv = rms_inverse_256(sums, n, eps);
//	y = rms_apply(x, inv, w);
__device__ __forceinline__ float square_sum_256(const float* __restrict__ x, int n, int t) {
	float s = 0.0f;
	for (int k = 4 * t; k < n; k += 4 * 256) {
		float4 v = row4(x, k, n);
		s = fmaf(v.x, v.x, s);
		s = fmaf(v.y, v.y, s);
		s = fmaf(v.z, v.z, s);
		s = fmaf(v.w, v.w, s);
	}
	return s;
}

// rms_inverse_256 is 1/sqrt(mean(x²) + eps) from the sums of eight warps.
__device__ __forceinline__ float rms_inverse_256(const float* sums, int n, float eps) {
	float s = sums[0];
#pragma unroll
	for (int i = 1; i < 8; i++) s = __fadd_rn(s, sums[i]);
	return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(s, (float)n), eps)));
}

// rms_apply rounds both products, so that nothing that follows can fuse with them.
__device__ __forceinline__ float rms_apply(float x, float inv, float w) {
	return __fmul_rn(__fmul_rn(x, inv), w);
}
