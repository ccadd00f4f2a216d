// Attention for tiles of rows of one sequence: a block takes up to 128 rows (query heads of one KV head, of neighbouring tokens) and
// walks the keys that they see (Dao, FlashAttention-2, arXiv 2307.08691). attention.cuh says what is computed.
//
// The rows of a tile are numbered token by token, the heads of a token together: row r is head r % group of token r / group. A warp
// takes 16 of them and up to 16·kSteps values of a head; where a head has more, neighbouring warps share the rows, each computes all
// scores and sums its part of the values.
//
// One tile of keys and one of values lie in shared memory: while scores are computed the values come, and the other way round.
#include "attention.cuh"

namespace {

constexpr int kSteps = 8; // of 16 values of a head, for a warp

// Layout of dynamic shared memory, in bytes: queries (hi, then lo), keys, values, scales of two tiles, then
// a factor and a position for each row.
struct Layout {
	int rows, queryPanels, panels;
	__device__ __forceinline__ int query() const { return queryPanels * rows * 128; } // of hi, and of lo
	__device__ __forceinline__ int keys() const { return 2 * query(); }
	__device__ __forceinline__ int values() const { return keys() + panels * kPanel; }
	__device__ __forceinline__ int scales() const { return values() + panels * kPanel; }
	__device__ __forceinline__ int factors() const { return scales() + 2 * 2 * kTile * 4; }
};

// Loader copies tiles, all threads of the block together.
template <class T>
struct Loader {
	Pages pages;
	Span span;
	int panels;
	const uint8_t* fallback;

	// blocks finds where the 16 keys from base + 16·(lane & 3) lie.
	__device__ __forceinline__ const uint8_t* blocks(int base) const {
		int key = base + 16 * (threadIdx.x & 3);
		return key < span.to && key + 16 > span.from ? pages.block(key) : fallback;
	}
	__device__ __forceinline__ const uint8_t* of(const uint8_t* block, int group) const {
		return (const uint8_t*)__shfl_sync(0xffffffffu, (unsigned long long)block, group);
	}
	// copy starts the copy of keys, or of values, which lie at an offset of pages.valueBytes.
	__device__ __forceinline__ void copy(u32 to, const uint8_t* block, int base, int offset) const {
		int piece = threadIdx.x & 7;
#pragma unroll 1
		for (int r = threadIdx.x >> 3; r < kTile; r += blockDim.x >> 3) {
			const uint8_t* from = of(block, r >> 4) + (pages.row(base + (r & 48)) + (r & 15)) * pages.rowBytes + offset;
			int key = base + r, n = key >= span.from && key < span.to ? 16 : 0;
			u32 slot = to + r * 128 + ((piece ^ (r & 7)) << 4);
#pragma unroll 1
			for (int at = piece * 16; at < pages.rowBytes; at += 128, slot += kPanel) copy16(slot, from + at, n);
		}
	}
	// copyScales starts the copy of the scales of 64 keys, then of 64 values.
	__device__ __forceinline__ void copyScales(u32 to, const uint8_t* block, int base) const {
		int i = threadIdx.x & 15, first = base + 4 * i;
		const uint8_t* from = of(block, i >> 2) + 2 * pages.valueBytes + 4 * pages.row(first);
		int n = first + 4 > span.from ? min(max(span.to - first, 0), 4) : 0;
		if (threadIdx.x < 32) copy16(to + threadIdx.x * 16, from + (threadIdx.x < 16 ? 0 : 4 << pages.shift), 4 * n);
	}
};

// Rows says which rows a warp, or a block, has: [first, end) of the tile, at positions [firstPos, lastPos].
struct Rows {
	int first, end, firstPos, lastPos;
	__device__ __forceinline__ Rows(int first, int count, int4 tile, int group) : first(first) {
		end = min(first + count, tile.y * group);
		firstPos = tile.w + first / group;
		lastPos = tile.w + (end - 1) / group;
	}
};

// loadQueries brings the block's rows to shared memory, and zeros for rows past the end.
template <class T>
__device__ __forceinline__ void loadQueries(const Attention& a, const Layout& at, const Rows& rows, int4 tile, int kvHead, u32 memory,
	float* factors, int* positions) {
	int lane = threadIdx.x & 31;
#pragma unroll 1
	for (int r = threadIdx.x >> 5; r < at.rows; r += blockDim.x >> 5) {
		u32 hi = memory + r * 128, lo = hi + at.query();
		int row = rows.first + r;
		float factor = 0;
		if (row < rows.end) {
			int token = row / a.group, head = kvHead * a.group + row - token * a.group;
			const float* q = a.q + (int64_t)(tile.x + token) * a.ldq + head * a.dim;
			factor = __fmul_rn(a.scale, storeQuery<T>(a, q, hi, lo, r, at.rows * 128, lane));
		} else {
#pragma unroll 1
			for (int p = 0; p < at.queryPanels; p++, hi += at.rows * 128, lo += at.rows * 128) {
				asm volatile("st.shared.b32 [%0], %1;" ::"r"(hi + lane * 4), "r"(0) : "memory");
				asm volatile("st.shared.b32 [%0], %1;" ::"r"(lo + lane * 4), "r"(0) : "memory");
			}
		}
		if (lane == 0) {
			factors[r] = factor;
			positions[r] = tile.w + min(row, rows.end - 1) / a.group;
		}
	}
}

// State is what a thread knows of rows g and g+8: of the chunk, and of the chunks before it.
struct State {
	float m[2], l[2], acc[kSteps][2][4];
	float totalM[2], totalL[2], total[kSteps][2][4];

	__device__ __forceinline__ void clearChunk() {
#pragma unroll
		for (int h = 0; h < 2; h++) m[h] = kNone, l[h] = 0;
#pragma unroll
		for (int j = 0; j < kSteps; j++)
#pragma unroll
			for (int e = 0; e < 8; e++) acc[j][e >> 2][e & 3] = 0;
	}
	__device__ __forceinline__ void clear() {
		clearChunk();
#pragma unroll
		for (int h = 0; h < 2; h++) totalM[h] = kNone, totalL[h] = 0;
#pragma unroll
		for (int j = 0; j < kSteps; j++)
#pragma unroll
			for (int e = 0; e < 8; e++) total[j][e >> 2][e & 3] = 0;
	}
	// endChunk merges the chunk; c are the units of its scores.
	__device__ __forceinline__ void endChunk(const float (&c)[2]) {
		float a[2], b[2];
#pragma unroll
		for (int h = 0; h < 2; h++) merge(totalM[h], totalL[h], __fmul_rn(m[h], c[h]), l[h], a[h], b[h]);
#pragma unroll
		for (int j = 0; j < kSteps; j++)
#pragma unroll
			for (int e = 0; e < 8; e++) {
				int h = e >> 1 & 1;
				total[j][e >> 2][e & 3] = merged(total[j][e >> 2][e & 3], a[h], acc[j][e >> 2][e & 3], b[h]);
			}
		clearChunk();
	}
};

// The compiler would take such stores apart.
__device__ __forceinline__ void store2(float* to, float x, float y) {
	asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store4(float* to, float x, float y, float z, float w) {
	asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

template <class T>
__device__ __forceinline__ void prefill(Attention a, const int4* tiles, int share) {
	extern __shared__ __align__(128) uint8_t memory[];
	int4 tile = tiles[blockIdx.z];
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
	Layout at = {int(blockDim.x >> 5) / share * 16, (a.width + 63) / 64, (a.width * T::kBytes + 127) / 128};
	if (blockIdx.x * at.rows >= tile.y * a.group) return;
	Rows block(blockIdx.x * at.rows, at.rows, tile, a.group), rows(block.first + warp / share * 16, 16, tile, a.group);
	int step0 = warp % share * kSteps, steps = min(kSteps, a.width / 16 - step0), row0 = warp / share * 16;
	bool active = rows.first < rows.end;
	Span mine = Span::of(a, rows.firstPos, rows.lastPos);
	Loader<T> loader = {Pages(a, tile.z, blockIdx.y, T::kBytes, T::kScales), Span::of(a, block.firstPos, block.lastPos), at.panels, a.cache};
	u32 base0 = shared(memory), keys = base0 + at.keys(), values = base0 + at.values();
	float* scales = (float*)(memory + at.scales());
	float* factors = (float*)(memory + at.factors());
	int* positions = (int*)(factors + at.rows);

	int last = loader.span.lastTile(), k = loader.span.firstTile();
	const uint8_t* here = loader.blocks(k * kTile);
	loader.copy(keys, here, k * kTile, 0);
	if (T::kScales) loader.copyScales(shared(scales + (k & 1) * 2 * kTile), here, k * kTile);
	commit();
	loadQueries<T>(a, at, block, tile, blockIdx.y, base0, factors, positions);
	State state;
	state.clear();

#pragma unroll 1
	for (; k <= last; k++) {
		loader.copy(values, here, k * kTile, loader.pages.valueBytes);
		commit();
		wait<1>();
		__syncthreads(); // keys are there, and queries
		bool seen = active && k >= mine.firstTile() && k <= mine.lastTile();
		float s[8][4], top[2], c[2];
		float* scale = scales + (k & 1) * 2 * kTile;
		if (seen) {
#pragma unroll
			for (int i = 0; i < 32; i++) s[i >> 2][i & 3] = 0;
#pragma unroll 1
			for (int i = 0; i < a.width / 16; i++) {
				u32 hi[4], lo[4], panel = base0 + (i / 4 * at.rows + row0) * 128;
				loadQuery(hi, panel, i & 3, lane);
				loadQuery(lo, panel + at.query(), i & 3, lane);
				T::score(s, hi, lo, keys + i / T::kPanelSteps * kPanel, i % T::kPanelSteps, lane);
			}
			int base = k * kTile;
			bool masked = base + kTile > rows.firstPos + 1 || (a.window > 0 && base < rows.lastPos - a.window + 1);
			float factor[2] = {factors[row0 + g], factors[row0 + g + 8]};
			int pos[2] = {positions[row0 + g], positions[row0 + g + 8]};
			prepare<T>(s, a, factor, pos, base, masked, scale, t, top);
		}
		__syncthreads(); // keys are read
		if (k < last) {
			here = loader.blocks((k + 1) * kTile);
			loader.copy(keys, here, (k + 1) * kTile, 0);
			if (T::kScales) loader.copyScales(shared(scales + (k + 1 & 1) * 2 * kTile), here, (k + 1) * kTile);
		}
		commit();
		u32 hi[4][4], lo[4][4];
		float alpha[2];
#pragma unroll
		for (int h = 0; h < 2; h++) c[h] = unit(a, factors[row0 + g + 8 * h]);
		if (seen) {
			float sum[2];
#pragma unroll
			for (int h = 0; h < 2; h++) {
				float m = fmaxf(state.m[h], top[h]);
				alpha[h] = rescale(state.m[h], m, c[h]);
				state.m[h] = m;
			}
			weigh<T>(s, c, state.m, scale + kTile, t, hi, lo, sum);
#pragma unroll
			for (int h = 0; h < 2; h++) state.l[h] = __fmaf_rn(state.l[h], alpha[h], sum[h]);
		}
		wait<1>();
		__syncthreads(); // values are there
		if (seen) {
#pragma unroll
			for (int j = 0; j < kSteps; j++) {
				if (j < steps) {
					float d[2][4] = {};
					int step = step0 + j;
					T::value(d, hi, lo, values + step / T::kPanelSteps * kPanel, step % T::kPanelSteps, lane);
#pragma unroll
					for (int e = 0; e < 8; e++)
						state.acc[j][e >> 2][e & 3] = __fmaf_rn(state.acc[j][e >> 2][e & 3], alpha[e >> 1 & 1], d[e >> 2][e & 3]);
				}
			}
		}
		if (active && (k % kTiles == kTiles - 1 || k == last)) state.endChunk(c);
		__syncthreads(); // values are read
	}

#pragma unroll
	for (int h = 0; h < 2; h++) {
		int row = rows.first + g + 8 * h;
		if (row >= rows.end) continue;
		int token = row / a.group, head = blockIdx.y * a.group + row - token * a.group;
		float* out = a.out + (int64_t)(tile.x + token) * a.ldout + head * a.dim;
		float inverse = __fmul_rn(reciprocal(state.totalL[h]), T::kUnit);
#pragma unroll
		for (int j = 0; j < kSteps; j++) {
			int d = (step0 + j) * 16;
			float y[2][2];
#pragma unroll
			for (int e = 0; e < 4; e++) y[e >> 1][e & 1] = result(state.total[j][e >> 1][2 * h + (e & 1)], inverse);
			if (T::kBytes == 2) {
				if (d + 2 * t < a.dim) store2(out + d + 2 * t, y[0][0], y[0][1]);
				if (d + 8 + 2 * t < a.dim) store2(out + d + 8 + 2 * t, y[1][0], y[1][1]);
			} else if (d + 4 * t < a.dim) {
				store4(out + d + 4 * t, y[0][0], y[1][0], y[0][1], y[1][1]);
			}
		}
	}
}

} // namespace

#define PREFILL(NAME, T)                                                                                                             \
	extern "C" __global__ void __launch_bounds__(256, 1) NAME(const float* q, int ldq, float* out, int ldout, const int4* tiles,     \
		const int* tables, int maxBlocks, int blockShift, const uint8_t* cache, int64_t blockBytes, int group, int dim, int width,   \
		int window, float scale, float softcap, int share) {                                                                         \
		Attention a = {q, out, ldq, ldout, cache, blockBytes, tables, maxBlocks, blockShift, group, dim, width, window, scale, softcap}; \
		prefill<T>(a, tiles, share);                                                                                          \
	}

PREFILL(attention_prefill_f16, F16)
PREFILL(attention_prefill_bf16, BF16)
PREFILL(attention_prefill_fp8, FP8)
PREFILL(attention_prefill_int8, INT8)
