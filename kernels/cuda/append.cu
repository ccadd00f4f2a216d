// What happens to queries, keys and values between the linears and attention: RMS norm of each head, rotation, and the write of keys
// and values to the paged cache in its type. A warp takes one head of one row.
#include <stdint.h>

namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
	for (int i = 16; i > 0; i >>= 1) x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, i));
	return x;
}
__device__ __forceinline__ float warpMax(float x) {
#pragma unroll
	for (int i = 16; i > 0; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
	return x;
}

// Head is one head of one row in shared memory; lane i has values i, i+32, …
struct Head {
	float* x;
	int dim, lane;

	// norm: x / sqrt(mean(x²) + eps) · w.
	__device__ __forceinline__ void norm(const float* w, float eps) const {
		float sum = 0;
#pragma unroll 1
		for (int i = lane; i < dim; i += 32) sum = __fmaf_rn(x[i], x[i], sum);
		float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(warpSum(sum), (float)dim), eps)));
#pragma unroll 1
		for (int i = lane; i < dim; i += 32) x[i] = __fmul_rn(__fmul_rn(x[i], inverse), w[i]);
		__syncwarp();
	}

	// rotate turns pair i of the first n values, (i, i + n/2) or (2i, 2i + 1), by the angle whose cos and sin are at table[i].
	__device__ __forceinline__ void rotate(const float2* table, int n, bool neox) const {
		int half = n / 2;
#pragma unroll 1
		for (int i = lane; i < half; i += 32) {
			float2 turn = table[i];
			float2 v = neox ? make_float2(x[i], x[half + i]) : *(float2*)(x + 2 * i);
			float a = __fmaf_rn(v.x, turn.x, -__fmul_rn(v.y, turn.y)), b = __fmaf_rn(v.x, turn.y, __fmul_rn(v.y, turn.x));
			if (neox) {
				x[i] = a;
				x[half + i] = b;
			} else {
				*(float2*)(x + 2 * i) = make_float2(a, b);
			}
		}
		__syncwarp();
	}
};

// clamp bounds a number by the largest finite one of a type: an infinite value would make 0·v no number for rows that do not see it.
__device__ __forceinline__ float clamp(float x, float largest) { return fabsf(x) > largest ? copysignf(largest, x) : x; }

struct F32 {
	static constexpr int kBytes = 4;
	static constexpr bool kScales = false;
	static __device__ __forceinline__ void put(uint8_t* to, float x) { *(float*)to = clamp(x, 3.4028234663852886e38f); }
};
struct F16 {
	static constexpr int kBytes = 2;
	static constexpr bool kScales = false;
	static __device__ __forceinline__ void put(uint8_t* to, float x) {
		asm volatile("{.reg .b16 h; cvt.rn.f16.f32 h, %1; st.global.b16 [%0], h;}" ::"l"(to), "f"(clamp(x, 65504.0f)) : "memory");
	}
};
struct BF16 {
	static constexpr int kBytes = 2;
	static constexpr bool kScales = false;
	static __device__ __forceinline__ void put(uint8_t* to, float x) {
		asm volatile("{.reg .b16 h; cvt.rn.bf16.f32 h, %1; st.global.b16 [%0], h;}" ::"l"(to), "f"(clamp(x, 3.3895313892515355e38f)) : "memory");
	}
};
// FP8 is e4m3: sign, 4 bits of exponent with bias 7, 3 of mantissa; 448 is the largest, 0x7f is no number (OCP 8-bit floating point
// specification, revision 1.0). Rounds to nearest, ties to even.
struct FP8 {
	static constexpr int kBytes = 1;
	static constexpr bool kScales = false;
	static __device__ __forceinline__ void put(uint8_t* to, float x) {
		float y = fabsf(clamp(x, 448.0f));
		uint32_t bits = __float_as_uint(y);
		uint32_t normal = ((bits + 0x7ffffu + (bits >> 20 & 1)) >> 20) - (120 << 3);
		uint32_t code = y < 0.015625f ? (uint32_t)__float2int_rn(y * 512.0f) : normal; // below 2^-6: multiples of 2^-9
		if (x != x) code = 0x7f;
		*to = (uint8_t)(code | (__float_as_uint(x) >> 24 & 0x80));
	}
};

// Place is where a token's row of keys (or values) of one KV head lies in the cache.
struct Place {
	uint8_t* row;
	float* scale; // int8
};

template <class T>
__device__ __forceinline__ void store(const Head& h, int width, Place to) {
#pragma unroll 1
	for (int i = h.lane; i < width; i += 32) T::put(to.row + i * T::kBytes, i < h.dim ? h.x[i] : 0.0f);
}

struct INT8 {
	static constexpr int kBytes = 1;
	static constexpr bool kScales = true;
};
// int8 is x/scale to nearest, scale being the largest |x| of the head divided by 127.
template <>
__device__ __forceinline__ void store<INT8>(const Head& h, int width, Place to) {
	float top = 0;
#pragma unroll 1
	for (int i = h.lane; i < h.dim; i += 32) top = fmaxf(top, fabsf(clamp(h.x[i], 1e30f)));
	top = warpMax(top);
	float scale = __fdiv_rn(top, 127.0f), inverse = top > 0 ? __fdiv_rn(127.0f, top) : 0.0f;
	if (top < 1e-30f) scale = inverse = 0;
#pragma unroll 1
	for (int i = h.lane; i < width; i += 32) {
		int v = i < h.dim ? __float2int_rn(__fmul_rn(clamp(h.x[i], 1e30f), inverse)) : 0;
		to.row[i] = (uint8_t)(int8_t)min(max(v, -127), 127);
	}
	if (h.lane == 0) *to.scale = scale;
}

struct Append {
	float *q, *k, *v;
	int ldq, ldk, ldv;
	const int *pos, *seq, *tables;
	int maxBlocks, blockShift;
	uint8_t* cache;
	int64_t blockBytes;
	int heads, kvHeads, dim, width;
	const float *qNorm, *kNorm;
	float eps;
	const float2 *qTable, *kTable;
	int qTurn, kTurn; // rotated values of a head; 0: none
	int neox;         // bit 0: of q, bit 1: of k
};

template <class T>
__device__ __forceinline__ Place place(const Append& a, int row, int pos, int kvHead, bool values) {
	int size = 1 << a.blockShift, at = pos & (size - 1), rowBytes = a.width * T::kBytes;
		int64_t headBytes = 2 * (int64_t)size * rowBytes + (T::kScales ? 8 * size : 0);
	uint8_t* head = a.cache + a.tables[(int64_t)a.seq[row] * a.maxBlocks + (pos >> a.blockShift)] * a.blockBytes + kvHead * headBytes;
	Place p;
	p.row = head + ((values ? size : 0) + at) * rowBytes;
	p.scale = (float*)(head + 2 * (int64_t)size * rowBytes) + (values ? size : 0) + at;
	return p;
}

// append: block (x, y) has heads 4x … 4x+3 of row y, counted through queries, keys, values. A padding row writes nothing.
template <class T>
__device__ __forceinline__ void append(const Append& a) {
	extern __shared__ float memory[];
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = blockIdx.y, index = blockIdx.x * kWarps + warp;
	int pos = a.pos[row];
	if (pos < 0 || index >= a.heads + 2 * a.kvHeads) return;
	Head h = {memory + warp * a.dim, a.dim, lane};
	bool query = index < a.heads, values = index >= a.heads + a.kvHeads;
	int head = query ? index : values ? index - a.heads - a.kvHeads : index - a.heads;
	const float* norm = query ? a.qNorm : values ? nullptr : a.kNorm;
	int turn = query ? a.qTurn : values ? 0 : a.kTurn;
	if (query && !norm && !turn) return;
	float* x = query ? a.q + (int64_t)row * a.ldq : values ? a.v + (int64_t)row * a.ldv : a.k + (int64_t)row * a.ldk;
	x += head * a.dim;
#pragma unroll 1
	for (int i = lane; i < a.dim; i += 32) h.x[i] = x[i];
	__syncwarp();
	if (norm) h.norm(norm, a.eps);
	if (turn) h.rotate((query ? a.qTable : a.kTable) + (int64_t)pos * (turn / 2), turn, a.neox >> (query ? 0 : 1) & 1);
	if (!query) {
		store<T>(h, a.width, place<T>(a, row, pos, head, values));
		return;
	}
#pragma unroll 1
	for (int i = lane; i < a.dim; i += 32) x[i] = h.x[i];
}

} // namespace

#define APPEND(NAME, T)                                                                                                              \
	extern "C" __global__ void __launch_bounds__(kThreads) NAME(float* q, int ldq, float* k, int ldk, float* v, int ldv,             \
		const int* pos, const int* seq, const int* tables, int maxBlocks, int blockShift, uint8_t* cache, int64_t blockBytes,        \
		int heads, int kvHeads, int dim, int width, const float* qNorm, const float* kNorm, float eps, const float2* qTable,         \
		int qTurn, const float2* kTable, int kTurn, int neox) {                                                                      \
		Append a = {q, k, v, ldq, ldk, ldv, pos, seq, tables, maxBlocks, blockShift, cache, blockBytes, heads, kvHeads, dim, width,  \
			qNorm, kNorm, eps, qTable, kTable, qTurn, kTurn, neox};                                                                  \
		append<T>(a);                                                                                                                \
	}

APPEND(append_f32, F32)
APPEND(append_f16, F16)
APPEND(append_bf16, BF16)
APPEND(append_fp8, FP8)
APPEND(append_int8, INT8)
