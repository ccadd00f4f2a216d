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

// Layout of dynamic shared memory, in bytes: queries (hi, then lo), keys, values, scales of two tiles where the type has any, a factor
// and a position for each row, m and l of both rows of each thread, a Walk.
struct Layout {
	int rows, queryPanels, panels, scaleBytes;
	__device__ __forceinline__ int query() const { return queryPanels * rows * 128; } // of hi, and of lo
	__device__ __forceinline__ int keys() const { return 2 * query(); }
	__device__ __forceinline__ int values() const { return keys() + panels * kPanel; }
	__device__ __forceinline__ int scales() const { return values() + panels * kPanel; }
	__device__ __forceinline__ int factors() const { return scales() + scaleBytes; }
	__device__ __forceinline__ int totals() const { return factors() + 8 * rows; }
	__device__ __forceinline__ int walk() const { return totals() + 2 * 8 * blockDim.x; }
};

// The loop over tiles needs all registers for sums. So what it needs of the block now and then lies in shared memory, and is read
// there each time: these loads are not moved out of the loop.
struct Walk {
	const uint8_t* head; // as in Pages
	const int* table;
	int from, to; // Span
};
__device__ __forceinline__ int again(const int* p) {
	int x;
	asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(shared(p)) : "memory");
	return x;
}
template <class P>
__device__ __forceinline__ P* again(P* const* p) {
	P* x;
	asm volatile("ld.shared.b64 %0, [%1];" : "=l"(x) : "r"(shared(p)) : "memory");
	return x;
}
__device__ __forceinline__ u32 thread() {
	u32 t;
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
	return t;
}

// Loader copies tiles, all threads of the block together.
template <class T>
struct Loader {
	const Attention& a;
	const Walk* walk;

	// find says where the 16 keys from base + 16·(lane & 3) lie.
	__device__ __forceinline__ const uint8_t* find(int base) const {
		int key = base + 16 * (thread() & 3);
		if (key >= again(&walk->to) || key + 16 <= again(&walk->from)) return a.cache;
		return again(&walk->head) + again(&walk->table)[key >> a.blockShift] * a.blockBytes + rowOf(key) * a.width * T::kBytes;
	}
	__device__ __forceinline__ const uint8_t* of(const uint8_t* rows, int group) const {
		return (const uint8_t*)__shfl_sync(0xffffffffu, (unsigned long long)rows, group);
	}
	__device__ __forceinline__ int rowOf(int key) const { return key & ((1 << a.blockShift) - 1); }
	// copy starts the copy of keys, or of values, in passes of a block's threads, eight a row.
	__device__ __forceinline__ void copy(u32 to, const uint8_t* rows, int base, bool values) const {
		int tid = thread(), piece = tid & 7, row = tid >> 3, rowBytes = a.width * T::kBytes;
		int offset = (row & 15) * rowBytes + piece * 16 + (values ? rowBytes << a.blockShift : 0);
		int first = again(&walk->from) - base, end = again(&walk->to) - base;
		u32 slot = to + row * 128 + ((piece ^ (row & 7)) << 4);
#pragma unroll 1
		for (; row < kTile; row += blockDim.x >> 3, slot += blockDim.x * 16) {
			const uint8_t* from = of(rows, row >> 4) + offset;
			int n = row >= first && row < end ? 16 : 0;
			u32 panel = slot;
#pragma unroll 1
			for (int at = piece * 16; at < rowBytes; at += 128, from += 128, panel += kPanel) copy16(panel, from, n);
		}
	}
	// copyScales starts the copy of the scales of 64 keys, then of 64 values.
	__device__ __forceinline__ void copyScales(u32 to, const uint8_t* rows, int base) const {
		int tid = thread(), i = tid & 15, first = base + 4 * i;
		const uint8_t* block = of(rows, i >> 2) - rowOf(first & ~15) * a.width;
		const uint8_t* from = block + 2 * (a.width << a.blockShift) + 4 * rowOf(first);
		int n = first + 4 > again(&walk->from) ? min(max(again(&walk->to) - first, 0), 4) : 0;
		if (tid < 32) copy16(to + tid * 16, from + (tid < 16 ? 0 : 4 << a.blockShift), 4 * n);
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
	float* factors) {
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
			((int*)factors)[at.rows + r] = tile.w + min(row, rows.end - 1) / a.group;
		}
	}
}

// State is what a thread knows of rows g and g+8: of the chunk, and of the chunks before it.
struct State {
	float m[2], l[2], acc[kSteps][2][4], total[kSteps][2][4];

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
		for (int j = 0; j < kSteps; j++)
#pragma unroll
			for (int e = 0; e < 8; e++) total[j][e >> 2][e & 3] = 0;
	}
	// endChunk merges the chunk; c are the units of its scores, totals m and l of the chunks before, by lane.
	__device__ __forceinline__ void endChunk(const float (&c)[2], float2* totals) {
		float a[2], b[2];
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float2 t = totals[h * blockDim.x];
			merge(t.x, t.y, __fmul_rn(m[h], c[h]), l[h], a[h], b[h]);
			totals[h * blockDim.x] = t;
		}
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

// scoreTile: the scores of the warp's rows, masked, and their maxima. query and keys are addresses of panels plus the lane's place.
template <class T>
__device__ __forceinline__ void scoreTile(float (&s)[8][4], float (&top)[2], const Attention& a, const Layout& at, int row, int base,
	bool masked, u32 query, u32 keys, const float* scales, const float* factors) {
#pragma unroll
	for (int i = 0; i < 32; i++) s[i >> 2][i & 3] = 0;
	constexpr int kShare = T::kPanelSteps / 4; // panels of queries to one of keys
#pragma unroll 1
	for (int p = 0; p < at.queryPanels; p++) {
		u32 k = (keys + p / kShare * kPanel) ^ (p % kShare * 4 * T::kStep);
		scoreSteps<T>(s, query + p * at.rows * 128, at.query(), k, min(4, a.width / 16 - 4 * p));
	}
	float factor[2] = {factors[row], factors[row + 8]};
	const int* positions = (const int*)factors + at.rows;
	int pos[2] = {positions[row], positions[row + 8]};
	prepare<T>(s, a, factor, pos, base, masked, scales, threadIdx.x & 3, top);
}

// sumTile adds p·v to what the chunk has, multiplied by alpha. values is where the warp's first step of values is.
template <class T>
__device__ __forceinline__ void sumTile(State& state, const float (&alpha)[2], const u32 (&hi)[4][4], const u32 (&lo)[4][4], u32 values,
	int step0, int steps) {
#pragma unroll
	for (int j = 0; j < kSteps; j++) {
		if (j >= steps) continue;
		float d[2][4];
		int step = step0 + j;
		T::value(d, hi, lo, (values + step / T::kPanelSteps * kPanel) ^ (step % T::kPanelSteps * T::kStep));
#pragma unroll
		for (int e = 0; e < 8; e++)
			state.acc[j][e >> 2][e & 3] = __fmaf_rn(state.acc[j][e >> 2][e & 3], alpha[e >> 1 & 1], d[e >> 2][e & 3]);
	}
}

// The compiler would take such stores apart.
__device__ __forceinline__ void store2(float* to, float x, float y) {
	asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store4(float* to, float x, float y, float z, float w) {
	asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// store writes the warp's results.
template <class T>
__device__ __forceinline__ void store(const State& state, const float2* totals, const Attention& a, const int4* tiles, int first, int step0) {
	int4 tile = __ldcg(tiles + blockIdx.z); // anew, as for Walk
	int g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int row = first + g + 8 * h;
		if (row >= tile.y * a.group) continue;
		int token = row / a.group, head = blockIdx.y * a.group + row - token * a.group;
		float* out = a.out + (int64_t)(tile.x + token) * a.ldout + head * a.dim;
		float inverse = __fmul_rn(reciprocal(totals[h * blockDim.x].y), T::kUnit);
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

template <class T>
__device__ __forceinline__ void prefill(const Attention& a, const int4* tiles, int share) {
	extern __shared__ __align__(128) uint8_t memory[];
	int4 tile = tiles[blockIdx.z];
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, t = lane & 3;
	Layout at = {int(blockDim.x >> 5) / share * 16, (a.width + 63) / 64, (a.width * T::kBytes + 127) / 128, T::kScales ? 2 * 2 * kTile * 4 : 0};
	if (blockIdx.x * at.rows >= tile.y * a.group) return;
	Rows block(blockIdx.x * at.rows, at.rows, tile, a.group);
	int step0 = warp % share * kSteps, row0 = warp / share * 16, row = row0 + (lane >> 2);
	u32 base0 = shared(memory), keys = base0 + at.keys(), values = base0 + at.values();
	u32 query = base0 + row0 * 128 + tile16(lane), myKeys = keys + T::keyPlace(lane), myValues = values + T::valuePlace(lane);
	float* scales = (float*)(memory + at.scales());
	float* factors = (float*)(memory + at.factors());
	const int* positions = (int*)factors + at.rows + row0;
	float2* totals = (float2*)(memory + at.totals()) + threadIdx.x;
	totals[0] = totals[blockDim.x] = make_float2(kNone, 0);
	Walk* walk = (Walk*)(memory + at.walk());
	Span span = Span::of(a, block.firstPos, block.lastPos);
	if (threadIdx.x == 0) {
		Pages pages(a, tile.z, blockIdx.y, T::kBytes, T::kScales);
		*walk = {pages.head, pages.table, span.from, span.to};
	}
	__syncthreads();

	Loader<T> loader = {a, walk};
	int last = span.lastTile(), k = span.firstTile();
	const uint8_t* here = loader.find(k * kTile);
	loader.copy(keys, here, k * kTile, false);
	if (T::kScales) loader.copyScales(shared(scales + (k & 1) * 2 * kTile), here, k * kTile);
	commit();
	loadQueries<T>(a, at, block, tile, blockIdx.y, base0, factors);
	bool active = block.first + row0 < block.end;
	State state;
	state.clear();

#pragma unroll 1
	for (; k <= last; k++) {
		loader.copy(values, here, k * kTile, true);
		commit();
		wait<1>();
		__syncthreads(); // keys are there, and queries
		int base = k * kTile, first = again(positions), end = again(positions + 15) + 1;
		bool seen = active && base < end && (a.window == 0 || base + kTile > first - a.window + 1);
		float s[8][4], top[2];
		float* scale = scales + (k & 1) * 2 * kTile;
		if (seen) {
			bool masked = base + kTile > first + 1 || (a.window > 0 && base < end - a.window);
			scoreTile<T>(s, top, a, at, row, base, masked, query, myKeys, scale, factors);
		}
		__syncthreads(); // keys are read
		if (k < last) {
			here = loader.find((k + 1) * kTile);
			loader.copy(keys, here, (k + 1) * kTile, false);
			if (T::kScales) loader.copyScales(shared(scales + (k + 1 & 1) * 2 * kTile), here, (k + 1) * kTile);
		}
		commit();
		u32 hi[4][4], lo[4][4];
		float alpha[2], c[2] = {unit(a, factors[row]), unit(a, factors[row + 8])};
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
		if (seen) sumTile<T>(state, alpha, hi, lo, myValues, step0, a.width / 16 - step0);
		if (active && (k % kTiles == kTiles - 1 || k == last)) state.endChunk(c, totals);
		__syncthreads(); // values are read
	}
	store<T>(state, totals, a, tiles, blockIdx.x * at.rows + row0, step0);
}

} // namespace

#define PREFILL(NAME, T)                                                                                                             \
	extern "C" __global__ void __launch_bounds__(256, 1) NAME(const float* q, int ldq, float* out, int ldout, const int4* tiles,     \
		const int* tables, int maxBlocks, int blockShift, const uint8_t* cache, int64_t blockBytes, int group, int dim, int width,   \
		int window, float scale, float softcap, int share) {                                                                         \
		Attention a = {q, out, ldq, ldout, cache, blockBytes, tables, maxBlocks, blockShift, group, dim, width, window, scale, softcap}; \
		prefill<T>(a, tiles, share);                                                                                                 \
	}

PREFILL(attention_prefill_f16, F16)
PREFILL(attention_prefill_bf16, BF16)
PREFILL(attention_prefill_fp8, FP8)
PREFILL(attention_prefill_int8, INT8)
