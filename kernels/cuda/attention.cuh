// Attention over the paged cache by mma.sync m16n8k16, in two forms that give a row the same bits: attention_decode.cu (a block
// has one row, KV head and chunk of keys) and attention_prefill.cu (a block walks the chunks for up to 128 rows).
//
// A row here is one query head of one token; 16 of them are operand A of the mma. What is done for a row, whatever its company:
//
//	Keys lie in chunks of 256 and tiles of 64 absolute positions.
//	A tile: s = q·k, 16 values of a head at a time in ascending order. q is split into two halves, hi = round(q) and
//	lo = round(q - hi), which are multiplied hi first into one float32 sum. Keys that the row does not see get -inf.
//	m is the largest s of the chunk's tiles so far; p = 2^(s·c - m·c), c = scale·log2(e) (Milakov and Gimelshein, arXiv 1805.02867).
//	p·v is summed from 0 over the tile, 16 keys at a time, p split as q is. Then acc = acc·2^((m' - m)·c) + p·v, m' being m before.
//	A chunk starts with m = -inf; chunks are merged in ascending order by `merge`.
//
// Only a row's own maximum enters, and a tile that it does not see changes nothing: m stays, 2^0 = 1, and 0 is added. So it does not
// matter whether such a tile is skipped or computed for other rows. Keys outside of what the block's rows see are read as zeros,
// because 0·v must be 0.
//
// ex2.approx has a relative error of 2^-22 (PTX ISA, ex2). p is kept times 2^kLift: f16 then holds hi + lo of p to 2^-30.
//
// Shared memory holds keys, values and queries in panels: rows of 128 bytes, whose 16-byte pieces c lie at c ^ (row & 7), so that the
// eight rows of an 8×8 matrix for ldmatrix are in different banks.
#pragma once
#include <stdint.h>

typedef uint32_t u32;

constexpr int kTile = 64, kTiles = 4, kChunk = kTile * kTiles;
constexpr int kPanel = kTile * 128; // bytes of a panel of keys or values
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLift = 6.0f;
constexpr float kNone = -INFINITY;

// Attention is what both forms take; see kernel.AttentionCall.
struct Attention {
	const float* q;
	float* out;
	int ldq, ldout;
	const uint8_t* cache;
	int64_t blockBytes;
	const int* tables;
	int maxBlocks;
	int blockShift; // log2 of the tokens of a block
	int group;      // query heads of a KV head
	int dim;        // values of a head
	int width;      // values of a head in the cache: dim to the next multiple of 16
	int window;     // 0: all
	float scale;    // of raw scores: to units of log2 or, with a soft cap, to those of the cap; times the unit of stored keys
	float softcap;  // 0: off
};

__device__ __forceinline__ float ex2(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

__device__ __forceinline__ float reciprocal(float x) { // within 1 ulp
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

// ratio is 2^(from - to), and 0 where nothing was seen before: from = -inf.
__device__ __forceinline__ float ratio(float from, float to) {
	float y = ex2(__fsub_rn(from, to));
	return from == kNone ? 0.0f : y;
}

// rescale is what the sum of a chunk so far is multiplied by when the largest score goes from `from` to `to`.
__device__ __forceinline__ float rescale(float from, float to, float c) {
	float y = ex2(__fmul_rn(__fsub_rn(from, to), c));
	return from == kNone ? 0.0f : y;
}

// merge says how the state (m, l, acc) of the chunks before and that of the next one are added: by the factors a and b. m is in
// units of log2.
__device__ __forceinline__ void merge(float& m, float& l, float chunkM, float chunkL, float& a, float& b) {
	float top = fmaxf(m, chunkM);
	a = ratio(m, top);
	b = ratio(chunkM, top);
	m = top;
	l = __fmaf_rn(l, a, __fmul_rn(chunkL, b));
}

__device__ __forceinline__ float merged(float acc, float a, float chunk, float b) { return __fmaf_rn(acc, a, __fmul_rn(chunk, b)); }

// result divides by the sum of weights. Adding 0 makes -0, which depends on the tiles computed in vain, +0.
__device__ __forceinline__ float result(float acc, float inverse) { return __fadd_rn(__fmul_rn(acc, inverse), 0.0f); }

// capped is cap·tanh(x), x = s·scale/cap, within 2^-22·cap.
__device__ __forceinline__ float capped(float x, float cap) {
	float e = ex2(__fmul_rn(x, 2.0f * kLog2e));
	return __fmul_rn(cap, __fmaf_rn(-2.0f, reciprocal(__fadd_rn(e, 1.0f)), 1.0f));
}

// cp.async copies 16 bytes, of which the first n come from memory and the rest is zero.
__device__ __forceinline__ void copy16(u32 to, const void* from, int n) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
}
// copy16At copies to a constant distance from an address.
template <int OFFSET>
__device__ __forceinline__ void copy16At(u32 to, const void* from) {
	asm volatile("cp.async.cg.shared.global [%0 + %2], [%1], 16;" ::"r"(to), "l"(from), "n"(OFFSET) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ldmatrix reads four 8×8 matrices at a constant distance from where the lanes say.
template <int OFFSET>
__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4 + %5];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at), "n"(OFFSET) : "memory");
}
template <int OFFSET>
__device__ __forceinline__ void ldmatrixTransposed(u32 (&r)[4], u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4 + %5];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at), "n"(OFFSET) : "memory");
}
// tile16 is where a lane finds, from the beginning of a panel, its row of a 16×16 tile of 16-bit values, as four matrices: two of
// rows 0 … 7 and 8 … 15, then two of the next eight columns. Step i of 16 columns is at tile16 ^ 32·i.
__device__ __forceinline__ u32 tile16(int lane) { return (lane & 15) * 128 + (((lane >> 4) ^ (lane & 7)) << 4); }
__device__ __forceinline__ u32 permute(u32 a, u32 b, u32 selector) {
	u32 d;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
	return d;
}
__device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }

struct F16Operand {
	static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	}
	// start is mma with sums of 0.
	static __device__ __forceinline__ void start(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
	}
	// split rounds two values and their rests; x is the lower half.
	static __device__ __forceinline__ void split(float x, float y, u32& hi, u32& lo) {
		float a, b;
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(hi) : "f"(y), "f"(x));
		asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(a), "=f"(b) : "r"(hi));
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(lo) : "f"(__fsub_rn(y, b)), "f"(__fsub_rn(x, a)));
	}
};

struct BF16Operand {
	static __device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	}
	// start is mma with sums of 0.
	static __device__ __forceinline__ void start(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
	}
	static __device__ __forceinline__ void split(float x, float y, u32& hi, u32& lo) {
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(hi) : "f"(y), "f"(x));
		float a = __uint_as_float(hi << 16), b = __uint_as_float(hi & 0xffff0000u);
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(lo) : "f"(__fsub_rn(y, b)), "f"(__fsub_rn(x, a)));
	}
};

// Wide types are operands as they lie in the cache. A panel has 64 values of a head, four steps of 16.
template <class Op>
struct Wide : Op {
	static constexpr int kBytes = 2;
	static constexpr int kPanelSteps = 4; // of 16 values in a panel
	static constexpr bool kScales = false;
	static constexpr float kUnit = 1.0f; // what an operand of 1 stands for; of keys it is part of Attention::scale

	// slot is the place of the pair of values p = 0 … 31 among the 64 of a panel of queries.
	static __device__ __forceinline__ int slot(int p) { return p; }

	// keyPlace and valuePlace are what a lane adds to the address of a panel; score and value take the sum ^ kStep·step.
	static constexpr int kStep = 32;
	static __device__ __forceinline__ u32 keyPlace(int lane) {
		return ((lane & 7) + (lane >> 4 << 3)) * 128 + ((((lane >> 3) & 1) ^ (lane & 7)) << 4);
	}
	static __device__ __forceinline__ u32 valuePlace(int lane) { return tile16(lane); }

	// score adds a step of keys: s[n] are the scores of keys 8n … 8n+7.
	static __device__ __forceinline__ void score(float (&s)[8][4], const u32 (&hi)[4], const u32 (&lo)[4], u32 at) {
		scoreKeys<0>(s, hi, lo, at);
		scoreKeys<1>(s, hi, lo, at);
		scoreKeys<2>(s, hi, lo, at);
		scoreKeys<3>(s, hi, lo, at);
	}
	template <int G>
	static __device__ __forceinline__ void scoreKeys(float (&s)[8][4], const u32 (&hi)[4], const u32 (&lo)[4], u32 at) {
		u32 b[4];
		ldmatrix<G * 16 * 128>(b, at);
		Op::mma(s[2 * G], hi, b[0], b[1]);
		Op::mma(s[2 * G + 1], hi, b[2], b[3]);
		Op::mma(s[2 * G], lo, b[0], b[1]);
		Op::mma(s[2 * G + 1], lo, b[2], b[3]);
	}

	// value is p·v for a step of values. Lane 4g+t has row g (and g+8) of value column(u, e, t) of the 16 as d[u][e] (and d[u][e+2]).
	static __device__ __forceinline__ void value(float (&d)[2][4], const u32 (&hi)[4][4], const u32 (&lo)[4][4], u32 at) {
		valueKeys<0>(d, hi[0], lo[0], at);
		valueKeys<1>(d, hi[1], lo[1], at);
		valueKeys<2>(d, hi[2], lo[2], at);
		valueKeys<3>(d, hi[3], lo[3], at);
	}
	// valueKeys adds keys 16·K …
	template <int K>
	static __device__ __forceinline__ void valueKeys(float (&d)[2][4], const u32 (&hi)[4], const u32 (&lo)[4], u32 at) {
		u32 b[4];
		ldmatrixTransposed<K * 16 * 128>(b, at);
		if (K == 0) {
			Op::start(d[0], hi, b[0], b[1]);
			Op::start(d[1], hi, b[2], b[3]);
		} else {
			Op::mma(d[0], hi, b[0], b[1]);
			Op::mma(d[1], hi, b[2], b[3]);
		}
		Op::mma(d[0], lo, b[0], b[1]);
		Op::mma(d[1], lo, b[2], b[3]);
	}
	static __device__ __forceinline__ int column(int u, int e, int t) { return 8 * u + 2 * t + e; }
};

// Narrow types hold a value in a byte, which is brought to f16 on the way from shared memory. A panel has 128 values, eight steps.
// ldmatrix moves pairs of bytes: a lane gets values 4t … 4t+3 of a key, of which the mma takes 4t, 4t+2, 4t+1, 4t+3 as its slots 2t,
// 2t+1, 2t+8, 2t+9; the queries are laid out to match. Of values it gets two neighbours for two keys, so one mma has the even and one
// the odd columns.
template <class Code>
struct Narrow : F16Operand {
	static constexpr int kBytes = 1;
	static constexpr int kPanelSteps = 8;
	static constexpr bool kScales = Code::kScales;
	static constexpr float kUnit = Code::kUnit;

	static __device__ __forceinline__ int slot(int p) { return (p & ~7) | (p & 6) >> 1 | (p & 1) << 2; }

	static constexpr int kStep = 16;
	static __device__ __forceinline__ u32 keyPlace(int lane) { return lane * 128 + ((lane & 7) << 4); }
	static __device__ __forceinline__ u32 valuePlace(int lane) { return keyPlace(lane); }

	static __device__ __forceinline__ void score(float (&s)[8][4], const u32 (&hi)[4], const u32 (&lo)[4], u32 at) {
		u32 r[2][4];
		ldmatrix<0>(r[0], at);
		ldmatrix<32 * 128>(r[1], at);
#pragma unroll
		for (int n = 0; n < 8; n++) {
			u32 even, odd;
			Code::widen(r[n >> 2][n & 3], even, odd);
			mma(s[n], hi, even, odd);
			mma(s[n], lo, even, odd);
		}
	}

	static __device__ __forceinline__ void value(float (&d)[2][4], const u32 (&hi)[4][4], const u32 (&lo)[4][4], u32 at) {
		u32 r[2][4];
		ldmatrixTransposed<0>(r[0], at);
		ldmatrixTransposed<32 * 128>(r[1], at);
#pragma unroll
		for (int k = 0; k < 4; k++) {
			u32 even[2], odd[2];
			Code::widen(r[k >> 1][2 * k & 2], even[0], odd[0]);
			Code::widen(r[k >> 1][(2 * k & 2) + 1], even[1], odd[1]);
			if (k == 0) {
				start(d[0], hi[0], even[0], even[1]);
				start(d[1], hi[0], odd[0], odd[1]);
			} else {
				mma(d[0], hi[k], even[0], even[1]);
				mma(d[1], hi[k], odd[0], odd[1]);
			}
			mma(d[0], lo[k], even[0], even[1]);
			mma(d[1], lo[k], odd[0], odd[1]);
		}
	}
	static __device__ __forceinline__ int column(int u, int e, int t) { return 4 * t + 2 * e + u; }
};

// widen makes f16 of bytes 0 and 2, and of bytes 1 and 3.
struct E4M3 { // sign, 4 bits of exponent with bias 7, 3 of mantissa: as f16, which has bias 15, it is 2^-8 of its value
	static constexpr bool kScales = false;
	static constexpr float kUnit = 256.0f;
	// pick is (x & 0x80008000) | y.
	static __device__ __forceinline__ u32 pick(u32 x, u32 y) {
		u32 d;
		asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(x), "n"(0x80008000), "r"(y));
		return d;
	}
	static __device__ __forceinline__ void widen(u32 x, u32& even, u32& odd) {
		even = pick(x << 8, (x << 7) & 0x3f803f80u);
		odd = pick(x, (x >> 1) & 0x3f803f80u);
	}
};
struct Int8 { // 0x6400 | (v + 128) is 1024 + 128 + v, exactly
	static constexpr bool kScales = true;
	static constexpr float kUnit = 1.0f;
	static __device__ __forceinline__ u32 unbias(u32 x) {
		u32 d;
		asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(0x64806480u));
		return d;
	}
	static __device__ __forceinline__ void widen(u32 x, u32& even, u32& odd) {
		x ^= 0x80808080u;
		even = unbias(permute(x, 0x64646464u, 0x4240));
		odd = unbias(permute(x, 0x64646464u, 0x4341));
	}
};

typedef Wide<F16Operand> F16;
typedef Wide<BF16Operand> BF16;
typedef Narrow<E4M3> FP8;
typedef Narrow<Int8> INT8;

// Span is what the rows of a block or warp see: keys [from, to).
struct Span {
	int from, to;
	static __device__ __forceinline__ Span of(const Attention& a, int first, int last) {
		Span s;
		s.from = a.window > 0 ? max(0, first - a.window + 1) : 0;
		s.to = last + 1;
		return s;
	}
	__device__ __forceinline__ int firstTile() const { return from / kTile; }
	__device__ __forceinline__ int lastTile() const { return (to - 1) / kTile; }
};

// Pages finds keys and values of one sequence and KV head.
struct Pages {
	const uint8_t* head; // of block 0
	const int* table;
	int64_t blockBytes;
	int shift, rowBytes, valueBytes; // the last: from keys to values

	__device__ __forceinline__ Pages(const Attention& a, int sequence, int kvHead, int bytes, bool scales) {
		shift = a.blockShift;
		rowBytes = a.width * bytes;
		valueBytes = rowBytes << shift;
		int64_t headBytes = 2 * (int64_t)valueBytes + (scales ? 8 << shift : 0);
		head = a.cache + kvHead * headBytes;
		table = a.tables + (int64_t)sequence * a.maxBlocks;
		blockBytes = a.blockBytes;
	}
	// block is the block of a key: rows of keys, then of values, then, in some types, a float32 scale for each key and each value.
	__device__ __forceinline__ const uint8_t* block(int key) const { return head + table[key >> shift] * blockBytes; }
	__device__ __forceinline__ int row(int key) const { return key & ((1 << shift) - 1); }
};

// storeQuery multiplies a row by a power of two that brings its largest value into [2^10, 2^11), splits it and returns what undoes
// the multiplication. All lanes of a warp call it; values from a.dim to a.width are zeros. hi and lo are the addresses of the row in
// the first panel. bf16 needs no power, but it does not mind.
template <class T>
__device__ __forceinline__ float storeQuery(const Attention& a, const float* q, u32 hi, u32 lo, int row, u32 panelBytes, int lane) {
	float top = 0;
#pragma unroll 1
	for (int d = 2 * lane; d < a.dim; d += 64) {
		float2 v = *(const float2*)(q + d);
		top = fmaxf(top, fmaxf(fabsf(v.x), fabsf(v.y)));
	}
#pragma unroll
	for (int i = 16; i > 0; i >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
	int exponent = max((int)(__float_as_uint(top) >> 23), 64);
	float up = __uint_as_float((264 - exponent) << 23);
	int slot = T::slot(lane);
	u32 place = ((slot >> 2 ^ (row & 7)) << 4) + (slot & 3) * 4;
#pragma unroll 1
	for (int d = 2 * lane; d - 2 * lane < a.width; d += 64, hi += panelBytes, lo += panelBytes) {
		float2 v = make_float2(0, 0);
		if (d < a.dim) v = *(const float2*)(q + d);
		if (T::kBytes == 1) { // pairs two apart
			float other = __shfl_xor_sync(0xffffffffu, lane & 1 ? v.x : v.y, 1);
			if (lane & 1) v.x = other;
			else v.y = other;
		}
		u32 h, l;
		T::split(__fmul_rn(v.x, up), __fmul_rn(v.y, up), h, l);
		asm volatile("st.shared.b32 [%0], %1;" ::"r"(hi + place), "r"(h) : "memory");
		asm volatile("st.shared.b32 [%0], %1;" ::"r"(lo + place), "r"(l) : "memory");
	}
	return __uint_as_float((exponent - 10) << 23);
}

// unit says what a row's scores are in: the exponent of a weight is score · unit, in units of log2. factor is a.scale times what
// storeQuery returned.
__device__ __forceinline__ float unit(const Attention& a, float factor) { return a.softcap > 0 ? kLog2e : factor; }

// quad reduces over the four lanes that share a row.
__device__ __forceinline__ float quadMax(float x) {
	x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quadSum(float x) {
	x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// prepare scales, caps and masks the scores of the tile that begins at key `base` and finds the largest of rows g and g+8. pos are
// their positions, factor as for unit; masked says that not all keys of the tile are seen by all rows of the warp. scales are those
// of the tile's keys.
template <class T>
__device__ __forceinline__ void prepare(float (&s)[8][4], const Attention& a, const float (&factor)[2], const int (&pos)[2], int base,
	bool masked, const float* scales, int t, float (&top)[2]) {
	if (T::kScales) {
#pragma unroll
		for (int n = 0; n < 8; n++) {
			float2 k = *(const float2*)(scales + 8 * n + 2 * t);
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] = __fmul_rn(s[n][e], e & 1 ? k.y : k.x);
		}
	}
	if (a.softcap > 0) {
#pragma unroll
		for (int n = 0; n < 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] = capped(__fmul_rn(s[n][e], factor[e >> 1]), a.softcap);
	}
	if (masked) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int from = a.window > 0 ? pos[h] - a.window + 1 : 0;
#pragma unroll
			for (int n = 0; n < 8; n++)
#pragma unroll
				for (int e = 0; e < 2; e++) {
					int key = base + 8 * n + 2 * t + e;
					if (key > pos[h] || key < from) s[n][2 * h + e] = kNone;
				}
		}
	}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float m = kNone;
#pragma unroll
		for (int n = 0; n < 8; n++) m = fmaxf(m, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
		top[h] = quadMax(m);
	}
}

// weigh turns scores in units c into weights against the maxima m, splits them into operands and gives their sums. scales are those
// of the tile's values.
template <class T>
__device__ __forceinline__ void weigh(float (&s)[8][4], const float (&c)[2], const float (&m)[2], const float* scales, int t,
	u32 (&hi)[4][4], u32 (&lo)[4][4], float (&sum)[2]) {
	float off[2];
#pragma unroll
	for (int h = 0; h < 2; h++) {
		off[h] = m[h] == kNone ? 0.0f : __fmaf_rn(-m[h], c[h], kLift);
		sum[h] = 0;
	}
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[n][e] = ex2(__fmaf_rn(s[n][e], c[e >> 1], off[e >> 1]));
			sum[e >> 1] = __fadd_rn(sum[e >> 1], s[n][e]);
		}
		if (T::kScales) {
			float2 v = *(const float2*)(scales + 8 * n + 2 * t);
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] = __fmul_rn(s[n][e], e & 1 ? v.y : v.x);
		}
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int reg = (n & 1) * 2 + h;
			T::split(s[n][2 * h], s[n][2 * h + 1], hi[n >> 1][reg], lo[n >> 1][reg]);
		}
	}
#pragma unroll
	for (int h = 0; h < 2; h++) sum[h] = quadSum(sum[h]);
}

// scoreSteps adds `steps` steps of 16 values to the scores: query is the address of a panel of queries plus tile16, lo is how far the
// lower halves are behind, keys is where the first step's keys are.
template <class T>
__device__ __forceinline__ void scoreSteps(float (&s)[8][4], u32 query, u32 lo, u32 keys, int steps) {
#pragma unroll 1
	for (int i = 0; i < steps; i++) {
		u32 qHi[4], qLo[4], q = query ^ (i * 32);
		ldmatrix<0>(qHi, q);
		ldmatrix<0>(qLo, q + lo);
		T::score(s, qHi, qLo, keys ^ (i * T::kStep));
	}
}

// opaque keeps the compiler from computing x anew wherever it is used.
__device__ __forceinline__ u32 opaque(u32 x) {
	asm volatile("" : "+r"(x));
	return x;
}
