// Brings x into the operand form of the integer linears; see int_quantize.cuh.
#include "int_quantize.cuh"

// A block of 256 threads makes one row; rows up to a multiple of 8 are zero. x (rows, ldx) is normed by norm (k), if given.
extern "C" __global__ void __launch_bounds__(256) int_quantize(const float* __restrict__ x, const float* __restrict__ norm,
	u8* __restrict__ operand, int rows, int ldx, int blocks, int fold, int offset, float eps) {
	__shared__ float sums[8];
	int r = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	bool row = r < rows;
	x += (size_t)r * ldx;
	float inv = 1.0f;
	if (norm && row) {
		float s = warp_sum(square_sum_256(x, blocks * 32, threadIdx.x));
		if (lane == 0) sums[warp] = s;
		__syncthreads();
		inv = rms_inverse_256(sums, blocks * 32, eps);
	}
	int bytes = group_bytes(fold);
	operand += (size_t)(r / 8) * blocks * bytes;
	for (int b0 = warp * 4; b0 < blocks; b0 += 32) {
		int b = b0 + lane / 8;
		bool live = b < blocks;
		float4 v = live && row ? normed(x, norm, inv, b * 32 + lane % 8 * 4) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
		quantize4(v, group_act(operand + (size_t)b * bytes, r % 8, fold), fold, offset, lane, live);
	}
}
