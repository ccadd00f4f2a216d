// Activations of the integer linears: x is rounded to int8 with one float32 scale for every 32 values (a K block), with the rounding
// of kernels/cpu: d = max|x|/127, q = round to even of x·(127/max|x|), and d = 0, q = 0 where max|x| < 1e-30.
//
// Beside q and d a K block holds what a kind of weight folds into its sums (Fold below), so that the multiplying loops need not know
// the offset of a weight's levels.
//
// Byte 8i+j of a K block is value 4i+j for j < 4 and 16+4i+j-4 for the others (i = 0 … 3): the eight bytes that lane i of a quad holds
// as operand B of mma m16n8k32 are one 64-bit word, the first four of the lower 16 of K.
#pragma once
#include "activation.cuh"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// kMagic is 1.5·2^23 and kMagicBits its bits: an int sum s, |s| < 2^22, that starts at kMagicBits is the float kMagic + s, so that
// one exact subtraction converts it, and takes the offset of the levels, offset·Σq, with it.
constexpr float kMagic = 12582912.0f;
constexpr int kMagicBits = 0x4b400000;

enum Fold : int {
	kFoldOffset = 0, // kMagic + offset·Σq
	kFoldMin = 1,    // d·Σq: what the weights' minima are multiplied by
	kFoldHalves = 2, // as kFoldOffset, for each half of the K block
	kFoldSums = 3,   // Σq of each half
};

// Act is where a K block of a row goes: q as 32 bytes, the scale, and what is folded (of halves: the second is `half` floats on).
struct Act {
	u8* q;
	float* d;
	float* fold;
	int half;
};

// A group of the operand form in device memory is 8 rows: [K block][q: 8 × 32 bytes][quad lane 0 … 3: d of rows 2i, 2i+1, then the
// folds of both]; where halves are folded: [quad lane: d, d] [quad lane: folds of the first half of both, of the second of both].
__host__ __device__ constexpr int group_bytes(int fold) { return fold >= kFoldHalves ? 352 : 320; }

__device__ __forceinline__ Act group_act(u8* group, int row, int fold) {
	float* meta = reinterpret_cast<float*>(group + 256) + row % 2;
	if (fold < kFoldHalves) return {group + row * 32, meta + row / 2 * 4, meta + row / 2 * 4 + 2, 0};
	return {group + row * 32, meta + row / 2 * 2, meta + 8 + row / 2 * 4, 2};
}

__device__ __forceinline__ float eight_max(float v) {
#pragma unroll
	for (int d = 4; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
	return v;
}

// pack4 takes the low bytes of four words.
__device__ __forceinline__ u32 pack4(u32 a, u32 b, u32 c, u32 d) {
	return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// by127 and of127 are m/127 and 127/m, correctly rounded, for m of 1e-30 … the largest float: with the reciprocal (of 127, correctly
// rounded; of m/128, so that it is a normal number, after one Newton step) the quotient's remainder is exact and corrects it.
__device__ __forceinline__ float by127(float m) {
	constexpr float r = 1.0f / 127.0f;
	float q = __fmul_rn(m, r);
	return fmaf(fmaf(-127.0f, q, m), r, q);
}

__device__ __forceinline__ float of127(float m) {
	constexpr float a = 127.0f / 128.0f;
	float b = __fmul_rn(m, 1.0f / 128.0f), r;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
	r = fmaf(fmaf(-b, r, 1.0f), r, r);
	float q = __fmul_rn(a, r);
	q = fmaf(fmaf(-b, q, a), r, q);
	return fmaf(fmaf(-b, q, a), r, q);
}

// quantize4 rounds four values of a K block, of which lanes 8j … 8j+7 hold one each, in order; all 32 lanes call it. A lane that is not
// live stores nothing.
__device__ __forceinline__ void quantize4(float4 v, const Act& to, int fold, int offset, int lane, bool live) {
	float m = eight_max(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
	bool zero = m < 1e-30f;
	float d = zero ? 0.0f : by127(m), inv = zero ? 0.0f : of127(m);
	u32 q = pack4(__float_as_uint(__fadd_rn(__fmul_rn(v.x, inv), kMagic)), __float_as_uint(__fadd_rn(__fmul_rn(v.y, inv), kMagic)),
		__float_as_uint(__fadd_rn(__fmul_rn(v.z, inv), kMagic)), __float_as_uint(__fadd_rn(__fmul_rn(v.w, inv), kMagic)));
	int sum = __dp4a((int)q, 0x01010101, 0), i = lane % 8;
	sum += __shfl_xor_sync(0xffffffffu, sum, 1);
	sum += __shfl_xor_sync(0xffffffffu, sum, 2);
	int both = sum + __shfl_xor_sync(0xffffffffu, sum, 4);
	if (!live) return;
	*reinterpret_cast<u32*>(to.q + i % 4 * 8 + i / 4 * 4) = q;
	if (fold >= kFoldHalves) {
		if (i == 0) *to.d = d;
		if (i % 4 == 0) to.fold[i / 4 * to.half] = fold == kFoldSums ? (float)sum : __fadd_rn(kMagic, (float)(offset * sum));
	} else if (i == 0) {
		*to.d = d;
		*to.fold = fold == kFoldMin ? __fmul_rn(d, (float)both) : __fadd_rn(kMagic, (float)(offset * both));
	}
}

// normed reads four values of a row, normed if norm is given.
__device__ __forceinline__ float4 normed(const float* __restrict__ x, const float* __restrict__ norm, float inv, int at) {
	float4 v = *reinterpret_cast<const float4*>(x + at);
	if (norm) {
		float4 w = *reinterpret_cast<const float4*>(norm + at);
		v = make_float4(rms_apply(v.x, inv, w.x), rms_apply(v.y, inv, w.y), rms_apply(v.z, inv, w.z), rms_apply(v.w, inv, w.w));
	}
	return v;
}
