// The linears whose operands are bf16 or f16: y = x·Wᵀ by mma.sync m16n8k16 with float32 sums. The tiers are in
// linear_float_row.cuh and linear_float_tiers.cuh; linear_float.cu and linear_packed.cu instantiate them.
//
// Operand A is W: a tile has 16 outputs, and one mma takes 16 of K. Operand B is x: a tile has 8 rows (tokens).
//
// x. A float32 value is split: hi = round(x), lo = round(x - hi); both are multiplied, hi first, into the same sum. For f16, x is
// first scaled by a power of two of its row, so that |x| ≤ 2^14; the sum is scaled back at the end. "Fast" drops lo.
//
// K. It is padded to blocks of W::K (32, or 64). Within 16 values, lane t of a quad has k = 4t … 4t+3, as its slots 2t, 2t+1,
// 2t+8, 2t+9 of the mma: the order of k inside an mma is ours to choose, since W is laid out to match, and this one makes x one
// 16-byte load. K is cut into segments of seg blocks, by the shape of W only. A segment's sum starts at 0; the result is
// ((0 + s0) + s1) + …. Every tier does this, so a row has the same bits in all of them:
//
//	one_row one row, where K is a multiple of four: as direct, with nothing done for rows that are not there.
//	direct  up to 8 rows. A warp has one segment of NT tiles. It reads W once from memory, 16 bytes a lane, and x as float32, norms,
//	        scales and splits it on the way. The segments' sums meet in shared memory.
//	skinny  up to 8·NB rows: the same with NB tiles of x, which `convert` has brought into operand order.
//	gemm    any number of rows: 128 outputs × 64 rows a block, W and x through a ring of cp.async stages. Both lie in fragment order,
//	        so a fragment is one 16-byte shared load a lane without bank conflicts, and neither ldmatrix nor a swizzle is needed.
//
// Operand order of x: [tile of 8 rows][block of 32 of K][hi, lo][lane] 16 bytes: the lane's registers for the first 16 of K, then for
// the second. In fast mode lo is absent.
#pragma once
#include "activation.cuh"

typedef unsigned int u32;

enum : u32 { kFast = 1, kResidual = 2, kSilu = 4, kGelu = 8, kGated = kSilu | kGelu };

// Linear is a call; see kernel.LinearCall. All pointers are to device memory.
struct Linear {
	const uint4* w;
	const uint4* scales;   // of packed weights: see linear_packed.cuh
	const float* x;        // (rows, ldx): direct, convert
	const float* norm;     // (k) or null: direct, convert
	const uint4* operand;  // x in operand order: skinny, gemm
	const float* unscale;  // (rows): what the sum is multiplied by: skinny, gemm of f16
	float* y;              // (rows, ldy)
	const float* bias;     // or null
	int rows, k, ldx, ldy;
	int out;     // columns of y: half of the outputs where gated
	int tiles;   // of 16 outputs; where gated, gate and up alternate
	int blocks;  // of W::K
	int seg;     // blocks of a segment
	int group;   // of packed weights: 2^group runs of 32 of K share a scale
	int groups;  // of a row
	const unsigned short* zeros;
	float eps;
	u32 flags;
};

constexpr int kPartRow = 20;              // floats from one column (row of x) to the next, so that the lanes' stores meet no bank twice
constexpr int kPartTile = 8 * kPartRow;   // a 16 × 8 tile of sums

struct BF16 {
	static constexpr bool kScaled = false;
	// split rounds two values to bf16 and their rest again; a is the lower half.
	static __device__ __forceinline__ void split(float a, float b, u32& hi, u32& lo) {
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(hi) : "f"(b), "f"(a));
		float ra = __fsub_rn(a, __uint_as_float(hi << 16)), rb = __fsub_rn(b, __uint_as_float(hi & 0xffff0000u));
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(lo) : "f"(rb), "f"(ra));
	}
	static __device__ __forceinline__ void mma(float (&c)[4], const uint4& a, u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
	}
};

struct F16 {
	static constexpr bool kScaled = true;
	// widen makes both halves float32.
	static __device__ __forceinline__ void widen(u32 v, float& lower, float& upper) {
		asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(lower), "=f"(upper) : "r"(v));
	}
	static __device__ __forceinline__ void split(float a, float b, u32& hi, u32& lo) {
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(hi) : "f"(b), "f"(a));
		float ha, hb;
		widen(hi, ha, hb);
		float ra = __fsub_rn(a, ha), rb = __fsub_rn(b, hb);
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(lo) : "f"(rb), "f"(ra));
	}
	static __device__ __forceinline__ void mma(float (&c)[4], const uint4& a, u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
	}
};

// row_scale is the power of two that brings a row whose largest magnitude is m below 2^14; inverse undoes it. Both are normal numbers.
__device__ __forceinline__ float row_scale(float m, float& inverse) {
	int e = min(126, 13 - ((int)(__float_as_uint(m) >> 23) - 127));
	inverse = __uint_as_float((u32)(127 - e) << 23);
	return __uint_as_float((u32)(127 + e) << 23);
}

// RowForm is what a row's values are multiplied by on their way to operand form.
struct RowForm {
	float inv, scale;
};

// row_form finds the RowForm of a row of n values, 0 where there is no row, by the first 256 threads of t (eight warps); the sums and
// largest magnitudes of the warps meet in red. All threads of the block call it; who calls it again with the same red waits between.
// The largest magnitude of a normed row is found before it is divided by the root of its mean square, in one pass. Fours says that n
// is a multiple of four.
template <class T, bool Fours>
__device__ __forceinline__ RowForm row_form(const Linear& c, const float* row, int t, int n, float4 (&red)[4], float& unscale) {
	RowForm f = {1.0f, 1.0f};
	unscale = 1.0f;
	if (!c.norm && !T::kScaled) return f;
	if (t < 256) {
		float s = 0.0f, m = 0.0f;
		if (t / 32 * 128 < n) {
#pragma unroll 1
			for (int k = 4 * t; k < n; k += 4 * 256) {
				float4 v = Fours ? *reinterpret_cast<const float4*>(row + k) : row4(row, k, n);
				if (c.norm) {
					s = fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, s)))); // as square_sum_256
					if (!T::kScaled) continue;
					float4 w = Fours ? *reinterpret_cast<const float4*>(c.norm + k) : load4(c.norm, k, n, true);
					v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
				}
				m = fmaxf(m, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
			}
			if (c.norm) s = warp_sum(s);
			if (T::kScaled) m = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(m))); // in the order of their bits
		}
		float* own = reinterpret_cast<float*>(red) + t / 32;
		if (t % 32 == 0) own[0] = s, own[8] = m;
	}
	__syncthreads();
	if (c.norm) {
		float sums[8] = {red[0].x, red[0].y, red[0].z, red[0].w, red[1].x, red[1].y, red[1].z, red[1].w};
		f.inv = rms_inverse_256(sums, c.k, c.eps);
	}
	if (T::kScaled) {
		float4 a = red[2], b = red[3];
		float m = fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)), fmaxf(fmaxf(b.x, b.y), fmaxf(b.z, b.w)));
		f.scale = row_scale(m * f.inv, unscale);
	}
	return f;
}

// to_operand norms, scales and splits four values into a lane's two registers of one mma.
template <class T>
__device__ __forceinline__ void to_operand(float4 v, float4 n, const RowForm& f, bool normed, u32 (&hi)[2], u32 (&lo)[2]) {
	if (normed) v = make_float4(rms_apply(v.x, f.inv, n.x), rms_apply(v.y, f.inv, n.y), rms_apply(v.z, f.inv, n.z), rms_apply(v.w, f.inv, n.w));
	if (T::kScaled) v = make_float4(__fmul_rn(v.x, f.scale), __fmul_rn(v.y, f.scale), __fmul_rn(v.z, f.scale), __fmul_rn(v.w, f.scale));
	T::split(v.x, v.y, hi[0], lo[0]);
	T::split(v.z, v.w, hi[1], lo[1]);
}

// convert brings x into operand order: one block of 256 threads a row; rows up to a multiple of 8 are zero.
template <class T, int K>
__device__ __forceinline__ void convert(const Linear& c, uint4* operand, float* unscale) {
	__shared__ float4 red[4];
	int r = blockIdx.x, t = threadIdx.x;
	bool live = r < c.rows;
	const float* row = c.x + (size_t)r * c.ldx;
	float back;
	RowForm f = row_form<T, false>(c, row, t, live ? c.k : 0, red, back);
	if (T::kScaled && t == 0) unscale[r] = back;
	int blocks = c.blocks * (K / 32), planes = c.flags & kFast ? 1 : 2;
	uint4* to = operand + (size_t)(r / 8) * blocks * planes * 32 + r % 8 * 4;
	for (int i = t; i < 4 * blocks; i += 256) { // block of 32 values, lane of the quad
		int k = i / 4 * 32 + i % 4 * 4;
		u32 h0[2], h1[2], l0[2], l1[2];
		float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
		float4 a = live && k < c.k ? row4(row, k, c.k) : zero, b = live && k + 16 < c.k ? row4(row, k + 16, c.k) : zero;
		float4 na = c.norm ? load4(c.norm, k, c.k, true) : zero, nb = c.norm ? load4(c.norm, k + 16, c.k, true) : zero;
		to_operand<T>(a, na, f, c.norm != nullptr, h0, l0);
		to_operand<T>(b, nb, f, c.norm != nullptr, h1, l1);
		uint4* at = to + (size_t)(i / 4) * planes * 32 + i % 4;
		at[0] = make_uint4(h0[0], h0[1], h1[0], h1[1]);
		if (planes == 2) at[32] = make_uint4(l0[0], l0[1], l1[0], l1[1]);
	}
}

// finish makes one value of y from the sums of its output (v), or of gate and up.
__device__ __forceinline__ void finish(const Linear& c, int row, int col, float v, float up) {
	float* y = c.y + (size_t)row * c.ldy + col;
	if (c.bias) v += c.bias[col];
	if (c.flags & kGated) {
		if (c.bias) up += c.bias[c.out + col];
		v = (c.flags & kSilu ? silu(v) : gelu_tanh(v)) * up;
	}
	if (c.flags & kResidual) v += *y;
	*y = v;
}

// store_part puts a lane's fragment of sums into a tile of shared memory: column r at r·kPartRow.
__device__ __forceinline__ void store_part(float* tile, const float (&s)[4], int lane) {
	float* p = tile + lane % 4 * 2 * kPartRow + lane / 4;
	p[0] = s[0];
	p[kPartRow] = s[1];
	p[8] = s[2];
	p[kPartRow + 8] = s[3];
}

__device__ __forceinline__ void clear(float (&s)[4]) {
	s[0] = s[1] = s[2] = s[3] = 0.0f;
}

// reduce adds the segments' sums of `width` tiles, in order, for rows row0 … row0+7 and finishes them.
// part is [segment][width tiles].
template <class T>
__device__ __forceinline__ void reduce(const Linear& c, const float* part, int segments, int width, int tile0, int row0, const float* unscale) {
	bool gated = c.flags & kGated;
	int step = gated ? 2 : 1;
	for (int i = threadIdx.x; i < width / step * 128; i += blockDim.x) {
		int q = i / 16, tile = q / 8 * step, r = (q % 8 >> 1) + (q & 1) * 4, n = i % 16;
		int col = (tile0 + tile) / step * 16 + n;
		if (row0 + r >= c.rows || col >= c.out) continue;
		const float* p = part + tile * kPartTile + r * kPartRow + n;
		float v = 0.0f, up = 0.0f;
		for (int s = 0; s < segments; s++) {
			v += p[s * width * kPartTile];
			if (gated) up += p[s * width * kPartTile + kPartTile];
		}
		if (T::kScaled) {
			float back = unscale[r];
			v = __fmul_rn(v, back);
			up = __fmul_rn(up, back);
		}
		finish(c, row0 + r, col, v, up);
	}
}

// Dense is W in bf16 or f16: [tile][block of 32 of K][first, second 16 of K][lane] 16 bytes, the registers of operand A.
template <class Type>
struct Dense {
	typedef Type T;
	static constexpr int K = 32;
	static constexpr int kVectors = 64;  // uint4 of a tile's block
	static constexpr int kStages = 3;
	static constexpr bool kGrouped = false; // groups of K have scales
	static constexpr bool kFine = false;    // which may end inside of a block

	uint4 v[2]; // what a lane loads of a block

	// Place is where a lane finds a tile.
	struct Place {
		const uint4* w;
		Place() = default;
		__device__ __forceinline__ Place(const Linear& c, int tile, int lane) : w(c.w + ((u32)(tile * c.blocks) * kVectors + lane)) {}
	};
	__device__ __forceinline__ void load(const Place& at, int b) {
		const uint4* p = at.w + (size_t)b * kVectors;
		v[0] = __ldg(p);
		v[1] = __ldg(p + 32);
	}
	__device__ __forceinline__ void load_shared(const uint4* p, int lane) {
		v[0] = p[lane];
		v[1] = p[lane + 32];
	}
	// fragments are operand A for the p-th 32 values of the block: the first 16, the second.
	__device__ __forceinline__ void fragments(int, uint4 (&a)[2]) const { a[0] = v[0], a[1] = v[1]; }
	// For packed weights: load_scale fetches a block's scales, fold multiplies the sums of a group, which ends with the p-th 32
	// values of the block, by theirs.
	__device__ __forceinline__ void load_scale(const Linear&, const Place&, int) {}
	__device__ __forceinline__ void fold(int, const float (&)[4], float (&)[4]) const {}
};

// ends tells whether a group or a segment ends with run q of 32 values of K; `to` is where the segment ends.
template <class W>
__device__ __forceinline__ bool ends(const Linear& c, int q, int to) {
	return W::kGrouped && (((q + 1) & ((1u << c.group) - 1)) == 0 || q + 1 == to);
}
