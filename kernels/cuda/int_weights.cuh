// How the types of weights lie in device memory and become operand A of the integer mma; written by linear_int_pack.go.
//
// A blob is 16 rows of W by one block of the type (32 or 256 of K), with the bits of the file in another order. Lane l holds of the
// fragment of a K block (32 of K) registers a0 … a3: row l/4 and 4·(l%4) … +3 of the lower 16 of K; row 8+l/4; both for the upper 16.
// "A pair" below is rows r and r+8 (r = l/4), which is what a lane has to scale.
//
//	type  K blocks  blob, in order
//	Q8_0  1   lane: 4 words; pairs: d d
//	Q4_0  1   lane: 2 words, byte j of word i: a_i (low), a_{i+2} (high nibble); pairs: d d
//	Q4_1  1   lane: as Q4_0; pairs: d d m m
//	Q5_0  1   lane: as Q4_0; lane: 16 bits, bit 4·p+i is the fifth of byte j of a_i, p = 0, 2, 1, 3 for j = 0 … 3; pairs: d d
//	Q5_1  1   lane: as Q5_0; pairs: d d m m
//	Q4_K  8   pairs: d d m m; for each K block 24 bits of a pair, scales (6 bits) of both rows, minima of both: pairs: 8 × the lower 16,
//	          pairs: 8 × the upper 8; 8 × lane: as Q4_0
//	Q5_K  8   as Q4_K; 4 × lane: a word, bit 8·j+4·(b%2)+i of word b/2 is the fifth of byte j of a_i of K block b
//	Q6_K  8   pairs: d d; 8 × pairs: scale+128 of the halves of row r, of r+8; 8 × lane: as Q4_0;
//	          8 × lane: a word, bits 8·j+2·i, +1 are the upper bits of byte j of a_i
//	Q2_K  8   pairs: d d m m; 8 × pairs: scale | minimum << 4 of the halves of r, of r+8; 8 × lane: a word as the last of Q6_K
//
// Each type gives kBlocks (K blocks of a blob), kBytes, kFold and kOffset (see int_quantize.cuh), a Head, what a lane keeps of a blob
// (Slim: less, where registers are few), and a Frag, what it needs of a K block: load makes one, multiply adds its products with 8 rows
// of x to a lane's four sums.
// kChunk is the number of blobs copied at a time.
#pragma once
#include "int_quantize.cuh"

// Meta is the scales of two rows of x for a K block and what is folded: f[0], f[1], and where halves are folded f[2], f[3] of the upper.
struct Meta {
	float d[2];
	float f[4];
};

// halves makes two floats of a word's two binary16.
__device__ __forceinline__ void halves(float (&f)[2], u32 v) {
	asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(f[0]), "=f"(f[1]) : "r"(v));
}

// mma32 and mma16 are exact sums of 32 and 16 products, from kMagicBits.
__device__ __forceinline__ void mma32(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		: "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagicBits));
}

__device__ __forceinline__ void mma16(int (&d)[4], u32 a0, u32 a1, u32 b) {
	asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
		: "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a0), "r"(a1), "r"(b), "r"(kMagicBits));
}

// exact is the integer in a sum, less what `from` is above kMagic.
__device__ __forceinline__ float exact(int sum, float from) { return __fsub_rn(__int_as_float(sum), from); }

template <class T>
__device__ __forceinline__ const T& at(const u8* p) { return *reinterpret_cast<const T*>(p); }

// nibbles fills a fragment from two words.
__device__ __forceinline__ void nibbles(u32 (&a)[4], const uint2& w) {
	a[0] = w.x & 0x0f0f0f0f;
	a[1] = w.y & 0x0f0f0f0f;
	a[2] = w.x >> 4 & 0x0f0f0f0f;
	a[3] = w.y >> 4 & 0x0f0f0f0f;
}

// Each multiply takes Columns of a lane's two columns; the sums of a column left out are not touched.

// OffsetFrag: levels less a constant.
template <int Offset>
struct OffsetFrag {
	u32 a[4];
	float d[2];

	// acc += sum · (d · d of x)
	template <int Columns>
	__device__ __forceinline__ void multiply(float (&acc)[4], u32 b0, u32 b1, const Meta& m) const {
		int s[4];
		mma32(s, a, b0, b1);
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (i % 2 < Columns) acc[i] = fmaf(exact(s[i], Offset ? m.f[i % 2] : kMagic), __fmul_rn(d[i / 2], m.d[i % 2]), acc[i]);
	}
};

// MinFrag: levels and a minimum: then acc += minimum · (d of x · Σq of x).
struct MinFrag {
	u32 a[4];
	float d[2], min[2];

	template <int Columns>
	__device__ __forceinline__ void multiply(float (&acc)[4], u32 b0, u32 b1, const Meta& m) const {
		int s[4];
		mma32(s, a, b0, b1);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i % 2 >= Columns) continue;
			acc[i] = fmaf(exact(s[i], kMagic), __fmul_rn(d[i / 2], m.d[i % 2]), acc[i]);
			acc[i] = fmaf(min[i / 2], m.f[i % 2], acc[i]);
		}
	}
};

// NoHead is the head of a type whose blob is one K block.
struct NoHead {
	NoHead() = default;
	__device__ __forceinline__ NoHead(const u8*, int) {}
};

struct Q8_0 {
	static constexpr int kBlocks = 1, kBytes = 544, kFold = kFoldOffset, kOffset = 0, kChunk = 2;
	typedef NoHead Head, Slim;
	typedef OffsetFrag<kOffset> Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head&, const u8* blob, int, int lane) {
		uint4 w = at<uint4>(blob + lane * 16);
		u32 d = at<u32>(blob + 512 + lane / 4 * 4);
		f.a[0] = w.x, f.a[1] = w.y, f.a[2] = w.z, f.a[3] = w.w;
		halves(f.d, d);
	}
};

struct Q4_0 {
	static constexpr int kBlocks = 1, kBytes = 288, kFold = kFoldOffset, kOffset = 8, kChunk = 4;
	typedef NoHead Head, Slim;
	typedef OffsetFrag<kOffset> Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head&, const u8* blob, int, int lane) {
		nibbles(f.a, at<uint2>(blob + lane * 8));
		u32 d = at<u32>(blob + 256 + lane / 4 * 4);
		halves(f.d, d);
	}
};

struct Q4_1 {
	static constexpr int kBlocks = 1, kBytes = 320, kFold = kFoldMin, kOffset = 0, kChunk = 4;
	typedef NoHead Head, Slim;
	typedef MinFrag Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head&, const u8* blob, int, int lane) {
		nibbles(f.a, at<uint2>(blob + lane * 8));
		uint2 d = at<uint2>(blob + 256 + lane / 4 * 8);
		halves(f.d, d.x);
		halves(f.min, d.y);
	}
};

// fifths adds the fifth bits of a fragment, from 16 bits of a lane.
__device__ __forceinline__ void fifths(u32 (&a)[4], u32 h) {
	h |= h << 12;
#pragma unroll
	for (int i = 0; i < 4; i++) a[i] |= h << (4 - i) & 0x10101010;
}

struct Q5_0 {
	static constexpr int kBlocks = 1, kBytes = 352, kFold = kFoldOffset, kOffset = 16, kChunk = 4;
	typedef NoHead Head, Slim;
	typedef OffsetFrag<kOffset> Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head&, const u8* blob, int, int lane) {
		nibbles(f.a, at<uint2>(blob + lane * 8));
		fifths(f.a, at<u16>(blob + 256 + lane * 2));
		u32 d = at<u32>(blob + 320 + lane / 4 * 4);
		halves(f.d, d);
	}
};

struct Q5_1 {
	static constexpr int kBlocks = 1, kBytes = 384, kFold = kFoldMin, kOffset = 0, kChunk = 4;
	typedef NoHead Head, Slim;
	typedef MinFrag Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head&, const u8* blob, int, int lane) {
		nibbles(f.a, at<uint2>(blob + lane * 8));
		fifths(f.a, at<u16>(blob + 256 + lane * 2));
		uint2 d = at<uint2>(blob + 320 + lane / 4 * 8);
		halves(f.d, d.x);
		halves(f.min, d.y);
	}
};

// Scales and minima of Q4_K and Q5_K are 6 bits, 24 bits of a K block for a pair. Bits i … i+5 of a word become the float 2^23 + v·2^i
// by setting the exponent above them; taking 2^23 off and multiplying by d·2^-i does not round: d has 11 bits.
template <u32 Mask>
__device__ __forceinline__ float field(u32 v) {
	float f;
	asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=f"(f) : "r"(v), "n"(Mask), "r"(0x4b000000)); // (a & b) | c
	return f;
}

// Pairs is d and the minima's scale of a pair, less the powers of two of their fields.
struct Pairs {
	float d[2], m[2];
	Pairs() = default;
	__device__ __forceinline__ Pairs(const u8* blob, int lane) {
		uint2 v = at<uint2>(blob + lane / 4 * 8);
		halves(d, v.x);
		halves(m, v.y);
		d[1] *= 0x1p-6f, m[0] *= -0x1p-12f, m[1] *= -0x1p-12f;
	}
};

// PairsSlim keeps no more than that; PairsHead all scales of a blob, b then being known.
struct PairsSlim : Pairs {
	PairsSlim() = default;
	__device__ __forceinline__ PairsSlim(const u8* blob, int lane) : Pairs(blob, lane) {}
	__device__ __forceinline__ void scales(MinFrag& f, const u8* blob, int b, int lane) const {
		u32 v = at<u16>(blob + 64 + lane / 4 * 16 + b * 2) | (u32)at<u8>(blob + 192 + lane / 4 * 8 + b) << 16;
		f.d[0] = __fmul_rn(d[0], __fsub_rn(field<0x3f>(v), 0x1p23f));
		f.d[1] = __fmul_rn(d[1], __fsub_rn(field<0xfc0>(v), 0x1p23f));
		f.min[0] = __fmul_rn(m[0], __fsub_rn(field<0x3f000>(v), 0x1p23f));
		f.min[1] = __fmul_rn(m[1], __fsub_rn(field<0x3f000>(v >> 6), 0x1p23f));
	}
};

struct PairsHead : Pairs {
	float dAway[2], mAway[2]; // 2^23 of d and m
	u32 low[4], high[2];      // 16 and 8 bits of each K block
	PairsHead() = default;
	__device__ __forceinline__ PairsHead(const u8* blob, int lane) : Pairs(blob, lane) {
#pragma unroll
		for (int i = 0; i < 2; i++) dAway[i] = d[i] * -0x1p23f, mAway[i] = m[i] * -0x1p23f;
		uint4 v = at<uint4>(blob + 64 + lane / 4 * 16);
		uint2 w = at<uint2>(blob + 192 + lane / 4 * 8);
		low[0] = v.x, low[1] = v.y, low[2] = v.z, low[3] = v.w;
		high[0] = w.x, high[1] = w.y;
	}
	__device__ __forceinline__ void scales(MinFrag& f, const u8*, int b, int) const {
		u32 v = __byte_perm(low[b / 2], high[b / 4], 0x7010 + b % 2 * 0x22 + (4 + b % 4) * 0x100);
		f.d[0] = fmaf(d[0], field<0x3f>(v), dAway[0]);
		f.d[1] = fmaf(d[1], field<0xfc0>(v), dAway[1]);
		f.min[0] = fmaf(m[0], field<0x3f000>(v), mAway[0]);
		f.min[1] = fmaf(m[1], field<0x3f000>(v >> 6), mAway[1]);
	}
};

struct Q4_K {
	static constexpr int kBlocks = 8, kBytes = 2304, kFold = kFoldMin, kOffset = 0, kChunk = 1;
	typedef PairsHead Head;
	typedef PairsSlim Slim;
	typedef MinFrag Frag;
	template <class H>
	static __device__ __forceinline__ void load(Frag& f, const H& h, const u8* blob, int b, int lane) {
		nibbles(f.a, at<uint2>(blob + 256 + b * 256 + lane * 8));
		h.scales(f, blob, b, lane);
	}
};

struct Q5_K {
	static constexpr int kBlocks = 8, kBytes = 2816, kFold = kFoldMin, kOffset = 0, kChunk = 1;
	typedef PairsHead Head;
	typedef PairsSlim Slim;
	typedef MinFrag Frag;
	template <class H>
	static __device__ __forceinline__ void load(Frag& f, const H& h, const u8* blob, int b, int lane) {
		nibbles(f.a, at<uint2>(blob + 256 + b * 256 + lane * 8));
		u32 high = at<u32>(blob + 2304 + b / 2 * 128 + lane * 4);
#pragma unroll
		for (int i = 0; i < 4; i++) f.a[i] |= (b % 2 ? high >> i : high << (4 - i)) & 0x10101010;
		h.scales(f, blob, b, lane);
	}
};

// HalvesFrag: levels less a constant with an integer scale for each half of a K block. All before the last step is exact: a half's sum
// is below 2^16, a scale at most 2^7, so their products' sum is at most 2^24.
struct HalvesFrag {
	u32 a[4];
	float d[2], lower[2], upper[2]; // scales of the halves

	template <int Columns>
	__device__ __forceinline__ void multiply(float (&acc)[4], u32 b0, u32 b1, const Meta& m) const {
		int lo[4], hi[4];
		mma16(lo, a[0], a[1], b0);
		mma16(hi, a[2], a[3], b1);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i % 2 >= Columns) continue;
			float v = fmaf(exact(lo[i], m.f[i % 2]), lower[i / 2], __fmul_rn(exact(hi[i], m.f[2 + i % 2]), upper[i / 2]));
			acc[i] = fmaf(v, __fmul_rn(d[i / 2], m.d[i % 2]), acc[i]);
		}
	}
};

// byte_float is byte i of w as a float, less away.
__device__ __forceinline__ float byte_float(u32 w, int i, float away) {
	return __fsub_rn(__uint_as_float(__byte_perm(w, 0x4b000000, 0x7440 | i)), 8388608.0f + away);
}

// DHead is the head of the types with integer scales of halves.
struct DHead {
	float d[2];
	DHead() = default;
	__device__ __forceinline__ DHead(const u8* blob, int lane) {
		u32 v = at<u32>(blob + lane / 4 * 4);
		halves(d, v);
	}
};

struct Q6_K {
	static constexpr int kBlocks = 8, kBytes = 3360, kFold = kFoldHalves, kOffset = 32, kChunk = 1;
	typedef DHead Head, Slim;
	typedef HalvesFrag Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head& h, const u8* blob, int b, int lane) {
		nibbles(f.a, at<uint2>(blob + 288 + b * 256 + lane * 8));
		u32 high = at<u32>(blob + 2336 + b * 128 + lane * 4), s = at<u32>(blob + 32 + b * 32 + lane / 4 * 4);
		f.a[0] |= high << 4 & 0x30303030;
		f.a[1] |= high << 2 & 0x30303030;
		f.a[2] |= high & 0x30303030;
		f.a[3] |= high >> 2 & 0x30303030;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			f.d[i] = h.d[i];
			f.lower[i] = byte_float(s, 2 * i, 128);
			f.upper[i] = byte_float(s, 2 * i + 1, 128);
		}
	}
};

// Q2Frag: scales as HalvesFrag, and integer minima of the halves.
struct Q2Frag : HalvesFrag {
	float m[2], minLower[2], minUpper[2];

	template <int Columns>
	__device__ __forceinline__ void multiply(float (&acc)[4], u32 b0, u32 b1, const Meta& x) const {
		Meta plain = {{x.d[0], x.d[1]}, {kMagic, kMagic, kMagic, kMagic}};
		HalvesFrag::multiply<Columns>(acc, b0, b1, plain);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i % 2 >= Columns) continue;
			float v = fmaf(minUpper[i / 2], x.f[2 + i % 2], __fmul_rn(minLower[i / 2], x.f[i % 2]));
			acc[i] = fmaf(-v, __fmul_rn(m[i / 2], x.d[i % 2]), acc[i]);
		}
	}
};

struct Q2_K {
	static constexpr int kBlocks = 8, kBytes = 1344, kFold = kFoldSums, kOffset = 0, kChunk = 1;
	struct Head {
		float d[2], m[2];
		Head() = default;
		__device__ __forceinline__ Head(const u8* blob, int lane) {
			uint2 v = at<uint2>(blob + lane / 4 * 8);
			halves(d, v.x);
			halves(m, v.y);
		}
	};
	typedef Head Slim;
	typedef Q2Frag Frag;
	static __device__ __forceinline__ void load(Frag& f, const Head& h, const u8* blob, int b, int lane) {
		u32 w = at<u32>(blob + 320 + b * 128 + lane * 4), s = at<u32>(blob + 64 + b * 32 + lane / 4 * 4);
#pragma unroll
		for (int i = 0; i < 4; i++) f.a[i] = w >> (2 * i) & 0x03030303;
		u32 scales = s & 0x0f0f0f0f, minima = s >> 4 & 0x0f0f0f0f;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			f.d[i] = h.d[i], f.m[i] = h.m[i];
			f.lower[i] = byte_float(scales, 2 * i, 0);
			f.upper[i] = byte_float(scales, 2 * i + 1, 0);
			f.minLower[i] = byte_float(minima, 2 * i, 0);
			f.minUpper[i] = byte_float(minima, 2 * i + 1, 0);
		}
	}
};
