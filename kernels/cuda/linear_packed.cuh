// Weights of 4 and 8 bits with a scale for a group of K, multiplied as f16: the integers less their zero point, and the numbers of
// e4m3, are exact in f16, so that a group's sum is as near to exact as float32 sums are; the scale multiplies that sum, in float32.
//
// U4 and U8 are unsigned integers q with w = (q - zero)·scale: scales f16, [tile][group][g] pairs of outputs g and g+8 (g = 0 … 7),
// zeros bytes likewise. F8 is e4m3 with float32 scales, [tile][group][g] pairs, or one for a tile (kTileScale).
#pragma once
#include "linear_float.cuh"

enum : u32 { kTileScale = 16 };

// half2 arithmetic on registers of two f16.
__device__ __forceinline__ u32 sub2(u32 a, u32 b) {
	u32 d;
	asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
	return d;
}
__device__ __forceinline__ u32 fma2(u32 a, u32 b, u32 c) {
	u32 d;
	asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
	return d;
}
// select_or is (a & b) | c. The constants are the instruction's own, not registers that something must fill.
template <u32 b, u32 c>
__device__ __forceinline__ u32 select_or(u32 a) {
	u32 d;
	asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(d) : "r"(a), "n"(b), "n"(c));
	return d;
}
// bytes picks bytes of a, which are 0 … 3, and of the constant b.
template <u32 b, u32 selector>
__device__ __forceinline__ u32 bytes(u32 a) {
	u32 d;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "n"(b), "n"(selector));
	return d;
}
constexpr u32 kMantissa = 0x64006400u; // of two f16: 1024, to which the lower bits add

// IntPlace is where a lane finds a tile of weights of V uint4 and R runs of 32 of K a block, its scales and zero points.
template <int V, int R>
struct IntPlace {
	static constexpr int kRuns = R;
	const uint4* w;
	const u32* scales;
	const unsigned short* zeros;

	IntPlace() = default;
	__device__ __forceinline__ IntPlace(const Linear& c, int tile, int lane) : w(c.w + ((u32)(tile * c.blocks) * V + lane)) {
		u32 at = (u32)(tile * c.groups) * 8 + lane / 4;
		scales = reinterpret_cast<const u32*>(c.scales) + at;
		zeros = c.zeros + at;
	}
};

// IntScale holds the scales and zero points of outputs g and g+8 for N runs of 32 of K, or one of all runs of a block.
template <int N>
struct IntScale {
	u32 scale[N];
	unsigned short zero[N];

	template <class Place>
	__device__ __forceinline__ void load_scale(const Linear& c, const Place& place, int b) {
#pragma unroll
		for (int p = 0; p < N; p++) {
			int at = (b * Place::kRuns + p >> c.group) * 8;
			scale[p] = __ldg(place.scales + at);
			zero[p] = __ldg(place.zeros + at);
		}
	}
	__device__ __forceinline__ void fold(int p, const float (&sum)[4], float (&to)[4]) const {
		float g, h;
		F16::widen(scale[p % N], g, h);
		to[0] = fmaf(sum[0], g, to[0]);
		to[1] = fmaf(sum[1], g, to[1]);
		to[2] = fmaf(sum[2], h, to[2]);
		to[3] = fmaf(sum[3], h, to[3]);
	}
};

// U4: [tile][block of 64 of K][lane] 16 bytes: word s is for the 16 values from 16·s. Its nibbles n0 … n7 are the halves of the
// registers of operand A: (n0, n4), (n1, n5), (n2, n6), (n3, n7), as masks of 0x000f000f and shifts take them out. A nibble q in the
// mantissa of 1024 makes the f16 1024 + q, one in the bits above 1024 + 16·q. N is 1 where groups are whole blocks.
template <int N>
struct U4 : IntScale<N> {
	typedef F16 T;
	static constexpr int K = 64, kVectors = 32, kStages = 2;
	static constexpr bool kGrouped = true, kFine = N > 1;

	uint4 v;

	typedef IntPlace<kVectors, 2> Place;
	__device__ __forceinline__ void load(const Place& at, int b) { v = __ldg(at.w + (size_t)b * kVectors); }
	__device__ __forceinline__ void load_shared(const uint4* p, int lane) { v = p[lane]; }
	__device__ __forceinline__ void fragments(int p, uint4 (&a)[2]) const {
		u32 z = this->zero[p % N];
		u32 lower = bytes<0x64646464u, 0x4040>(z);          // 1024 + zero of g
		u32 upper = bytes<0, 0x4141>(z) << 4 | 0xd400d400u; // -(64 + zero of g+8): ulp of 64 … 128 in f16 is 1/16
		const u32 sixteenth = 0x2c002c00u;
#pragma unroll
		for (int s = 0; s < 2; s++) {
			u32 q = p == 0 ? (s == 0 ? v.x : v.y) : (s == 0 ? v.z : v.w), r = q >> 8;
			a[s].x = sub2(select_or<0x000f000fu, kMantissa>(q), lower);
			a[s].y = fma2(select_or<0x00f000f0u, kMantissa>(q), sixteenth, upper);
			a[s].z = sub2(select_or<0x000f000fu, kMantissa>(r), lower);
			a[s].w = fma2(select_or<0x00f000f0u, kMantissa>(r), sixteenth, upper);
		}
	}
};

// U8: [tile][block of 32 of K][lane] 16 bytes: words 2s and 2s+1 are for the 16 values from 16·s. The bytes of a word are halves of two
// registers of operand A: (b0, b2), (b1, b3).
struct U8 : IntScale<1> {
	typedef F16 T;
	static constexpr int K = 32, kVectors = 32, kStages = 4;
	static constexpr bool kGrouped = true, kFine = false;

	uint4 v;

	typedef IntPlace<kVectors, 1> Place;
	__device__ __forceinline__ void load(const Place& at, int b) { v = __ldg(at.w + (size_t)b * kVectors); }
	__device__ __forceinline__ void load_shared(const uint4* p, int lane) { v = p[lane]; }
	__device__ __forceinline__ void fragments(int, uint4 (&a)[2]) const {
		u32 z = zero[0], lower = bytes<0x64646464u, 0x4040>(z), upper = bytes<0x64646464u, 0x4141>(z); // 1024 + zero
#pragma unroll
		for (int s = 0; s < 2; s++) {
			u32 q = s ? v.z : v.x, r = s ? v.w : v.y;
			a[s].x = sub2(bytes<0x64646464u, 0x4240>(q), lower);
			a[s].y = sub2(bytes<0x64646464u, 0x4341>(q), upper);
			a[s].z = sub2(bytes<0x64646464u, 0x4240>(r), lower);
			a[s].w = sub2(bytes<0x64646464u, 0x4341>(r), upper);
		}
	}
};

// F8: laid out as U8. The bits of e4m3 moved into an f16 are the number times 2^-8, which the scales make up for.
struct F8 {
	typedef F16 T;
	static constexpr int K = 32, kVectors = 32, kStages = 4;
	static constexpr bool kGrouped = true, kFine = false;

	uint4 v;
	float2 scale;

	struct Place {
		const uint4* w;
		const float* scales;
		Place() = default;
		__device__ __forceinline__ Place(const Linear& c, int tile, int lane) : w(c.w + ((u32)(tile * c.blocks) * kVectors + lane)) {
			u32 at = tile * c.groups;
			scales = reinterpret_cast<const float*>(c.scales) + (c.flags & kTileScale ? at : at * 16 + lane / 4 * 2);
		}
	};
	__device__ __forceinline__ void load(const Place& at, int b) { v = __ldg(at.w + (size_t)b * kVectors); }
	__device__ __forceinline__ void load_shared(const uint4* p, int lane) { v = p[lane]; }
	__device__ __forceinline__ void load_scale(const Linear& c, const Place& place, int b) {
		if (c.flags & kTileScale) {
			scale.x = scale.y = __ldg(place.scales + (b >> c.group));
		} else {
			scale = __ldg(reinterpret_cast<const float2*>(place.scales + (b >> c.group) * 16));
		}
	}
	__device__ __forceinline__ void fold(int, const float (&sum)[4], float (&to)[4]) const {
		to[0] = fmaf(sum[0], scale.x, to[0]);
		to[1] = fmaf(sum[1], scale.x, to[1]);
		to[2] = fmaf(sum[2], scale.y, to[2]);
		to[3] = fmaf(sum[3], scale.y, to[3]);
	}
	static __device__ __forceinline__ u32 halves(u32 upper) { // of the upper bytes of both halves
		u32 d;
		asm("lop3.b32 %0, %1, 0x80008000, %2, 0xEA;" : "=r"(d) : "r"(upper), "r"(upper >> 1 & 0x3f803f80u));
		return d;
	}
	__device__ __forceinline__ void fragments(int, uint4 (&a)[2]) const {
		a[0] = make_uint4(halves(v.x << 8), halves(v.x), halves(v.y << 8), halves(v.y));
		a[1] = make_uint4(halves(v.z << 8), halves(v.z), halves(v.w << 8), halves(v.w));
	}
};
