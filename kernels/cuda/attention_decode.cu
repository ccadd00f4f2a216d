// Attention for one row a sequence: a block takes one row, up to kRows heads of one KV head and every gridDim.x-th chunk of keys
// that the row sees; its four warps take the four tiles of a chunk. attention.cuh says what is computed.
//
// A warp streams its 64 keys, then its 64 values, panel by panel through two slots of shared memory of its own, so that one panel is
// always on its way. Between keys and values the warps exchange the maxima of their tiles: a tile is weighed against the largest
// score of the tiles up to it, as if one warp had walked them. The warps' sums p·v meet in shared memory and are added in order.
//
// Where the row has one chunk, that is the result. Otherwise each chunk's state goes to scratch memory, and the block that finishes
// last (a ticket from an atomic counter) merges them in order and sets the counter to 0 for the next launch.
#include "attention.cuh"

namespace {

constexpr int kWarps = kTiles, kThreads = 32 * kWarps;
constexpr int kRows = 16;  // heads of a block at most
constexpr int kSlots = 2;  // panels of a warp

// Decode is where things lie. Dynamic shared memory: ring, stats, then queries, whose place the tiles' sums take later.
struct Decode {
	const int* pos;
	const int* seq;
	int heads; // query heads of a block
	int parts; // blocks that share a KV head
	unsigned* tickets;
	float2* states; // (rows, heads of the model, maxChunks): m in units of log2, l
	float* sums;    // (rows, heads of the model, maxChunks, width)
	int maxChunks;
};

struct Stats { // a multiple of 128 bytes
	float top[kTiles][kRows], sum[kTiles][kRows]; // of each tile: the largest score, the weights' sum
	float factor[kRows];
	float keyScales[kWarps][kTile], valueScales[kWarps][kTile];
	int ticket, unused[15];
};
static_assert(sizeof(Stats) % 128 == 0, "queries follow, in panels");

// Tile is what a warp knows of its 64 keys.
template <class T>
struct Tile {
	const uint8_t* block; // lane i: that of keys base + 16·(i & 3) …
	int base, panels, lane;
	Span span;
	u32 ring;

	__device__ __forceinline__ Tile(const Attention& a, const Pages& p, Span s, int chunk, int warp, int lane, u32 ring)
		: base(chunk * kChunk + warp * kTile), panels((p.rowBytes + 127) / 128), lane(lane), span(s), ring(ring) {
		int key = base + 16 * (lane & 3);
		block = key < s.to && key + 16 > s.from ? p.block(key) : a.cache;
	}
	// seen says whether the row sees any key of the tile.
	__device__ __forceinline__ bool seen() const { return base < span.to && base + kTile > span.from; }

	__device__ __forceinline__ const uint8_t* blockOf(int group) const {
		return (const uint8_t*)__shfl_sync(0xffffffffu, (unsigned long long)block, group);
	}

	// issue starts the copy of step i: panels of keys, then of values, 128 bytes of each row. A step past the end is an empty group.
	__device__ __forceinline__ void issue(const Pages& p, int i) const {
		if (i < 2 * panels) {
			bool values = i >= panels;
			int piece = lane & 7, row = lane >> 3, at = (values ? i - panels : i) * 128 + piece * 16;
			u32 slot = ring + (i & (kSlots - 1)) * kPanel + row * 128;
			u32 even = slot + ((piece ^ row) << 4), odd = slot + ((piece ^ (row + 4)) << 4);
			int offset = row * p.rowBytes + at + (values ? p.valueBytes : 0);
#pragma unroll 1
			for (int g = 0; g < 4; g++) {
				const uint8_t* from = blockOf(g) + p.row(base + 16 * g) * p.rowBytes + offset;
				int key = base + 16 * g + row;
#pragma unroll
				for (int r = 0; r < 4; r++, key += 4)
					if (at < p.rowBytes)
						copy16((r & 1 ? odd : even) + (4 * g + r) * 512, from + 4 * r * p.rowBytes, key >= span.from && key < span.to ? 16 : 0);
			}
		}
		commit();
	}
	// issueScales adds the scales of keys and values to the group of step 0.
	__device__ __forceinline__ void issueScales(const Pages& p, float* keys, float* values) const {
		int i = lane & 15, first = base + 4 * i;
		int n = first + 4 > span.from ? min(max(span.to - first, 0), 4) : 0;
		const uint8_t* from = blockOf(i >> 2) + 2 * p.valueBytes + 4 * (p.row(first) + (lane < 16 ? 0 : 1 << p.shift));
		copy16(shared((lane < 16 ? keys : values) + 4 * i), from, 4 * n);
	}
};

// scoreTile: s are the raw scores of the warp's tile.
template <class T>
__device__ __forceinline__ void scoreTile(float (&s)[8][4], const Attention& a, const Pages& pages, const Tile<T>& tile, u32 qHi, u32 qLo) {
#pragma unroll
	for (int n = 0; n < 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) s[n][e] = 0;
#pragma unroll 1
	for (int p = 0; p < tile.panels; p++) {
		wait<kSlots - 1>();
		__syncwarp();
		int steps = min(T::kPanelSteps, a.width / 16 - p * T::kPanelSteps);
		u32 k = tile.ring + (p & (kSlots - 1)) * kPanel;
#pragma unroll 1
		for (int i = 0; i < steps; i++) {
			u32 hi[4], lo[4];
			u32 panel = (p * T::kPanelSteps + i) / 4 * (kRows * 128);
			loadQuery(hi, qHi + panel, i & 3, tile.lane);
			loadQuery(lo, qLo + panel, i & 3, tile.lane);
			T::score(s, hi, lo, k, i, tile.lane);
		}
		__syncwarp();
		tile.issue(pages, p + kSlots);
	}
}

// sumTile writes p·v of the warp's tile, rows of `stride` floats.
template <class T>
__device__ __forceinline__ void sumTile(float* to, int stride, int rows, const Attention& a, const Pages& pages, const Tile<T>& tile,
	const u32 (&hi)[4][4], const u32 (&lo)[4][4]) {
	int g = tile.lane >> 2, t = tile.lane & 3;
#pragma unroll 1
	for (int p = 0; p < tile.panels; p++) {
		wait<kSlots - 1>();
		__syncwarp();
		int steps = min(T::kPanelSteps, a.width / 16 - p * T::kPanelSteps), step = tile.panels + p;
		u32 v = tile.ring + (step & (kSlots - 1)) * kPanel;
#pragma unroll 1
		for (int j = 0; j < steps; j++) {
			float d[2][4] = {};
			T::value(d, hi, lo, v, j, tile.lane);
			float* row = to + g * stride + (p * T::kPanelSteps + j) * 16;
#pragma unroll
			for (int h = 0; h < 2; h++) {
				if (g + 8 * h >= rows) break;
				if (T::kBytes == 2) {
					*(float2*)(row + 8 * h * stride + T::column(0, 0, t)) = make_float2(d[0][2 * h], d[0][2 * h + 1]);
					*(float2*)(row + 8 * h * stride + T::column(1, 0, t)) = make_float2(d[1][2 * h], d[1][2 * h + 1]);
				} else {
					*(float4*)(row + 8 * h * stride + 4 * t) = make_float4(d[0][2 * h], d[1][2 * h], d[0][2 * h + 1], d[1][2 * h + 1]);
				}
			}
		}
		__syncwarp();
		tile.issue(pages, step + kSlots);
	}
}

// rowStride is the distance of rows of sums in floats. A warp writes 8 bytes a lane in 2-byte types and 16 in 1-byte types: rows then
// begin 8 or 16 banks apart.
template <class T>
__device__ __forceinline__ int rowStride(int width) {
	return T::kBytes == 2 ? width + 8 : width | 16;
}

// finish folds the tiles [first, last] of a chunk for one value of one head.
__device__ __forceinline__ float fold(const float* sums, int tileStride, const float (&alpha)[kTiles], int first, int last) {
	float acc = sums[first * tileStride];
#pragma unroll
	for (int k = 1; k < kTiles; k++)
		if (k > first && k <= last) acc = __fmaf_rn(acc, alpha[k], sums[k * tileStride]);
	return acc;
}

template <class T>
__device__ __forceinline__ void decode(Attention a, Decode d) {
	extern __shared__ __align__(128) uint8_t memory[];
	Stats& stats = *(Stats*)(memory + kWarps * kSlots * kPanel);
	uint8_t* queries = (uint8_t*)(&stats + 1);
	float* sums = (float*)queries;
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	int row = blockIdx.z, kvHead = blockIdx.y / d.parts, part = blockIdx.y % d.parts;
	int head0 = kvHead * a.group + part * d.heads, heads = min(d.heads, a.group - part * d.heads);
	int modelHeads = gridDim.y / d.parts * a.group;
	float* out = a.out + (int64_t)row * a.ldout + head0 * a.dim;
	int pos = d.pos[row];
	if (pos < 0) { // a padding row: what follows reads it
		if (blockIdx.x == 0)
#pragma unroll 1
			for (int i = threadIdx.x; i < heads * a.dim; i += kThreads) out[i] = 0;
		return;
	}
	Span span = Span::of(a, pos, pos);
	int firstChunk = span.from / kChunk, chunks = pos / kChunk + 1 - firstChunk;
	if (blockIdx.x >= chunks) return;
	Pages pages(a, d.seq[row], kvHead, T::kBytes, T::kScales);
	u32 qHi = shared(queries), qLo = qHi + (a.width + 63) / 64 * (kRows * 128);
	int stride = rowStride<T>(a.width);
	int64_t state0 = ((int64_t)row * modelHeads + head0) * d.maxChunks;

#pragma unroll 1
	for (int c = blockIdx.x; c < chunks; c += gridDim.x) {
		Tile<T> tile(a, pages, span, firstChunk + c, warp, lane, shared(memory) + warp * kSlots * kPanel);
		if (tile.seen()) {
			if (T::kScales) tile.issueScales(pages, stats.keyScales[warp], stats.valueScales[warp]);
#pragma unroll 1
			for (int i = 0; i < kSlots; i++) tile.issue(pages, i);
		}
		const float* q = a.q + (int64_t)row * a.ldq + head0 * a.dim;
		u32 panelBytes = kRows * 128;
#pragma unroll 1
		for (int h = warp; h < kRows; h += kWarps) {
			if (h < heads) {
				float unscale = storeQuery<T>(a, q + h * a.dim, qHi + h * 128, qLo + h * 128, h, panelBytes, lane);
				if (lane == 0) stats.factor[h] = __fmul_rn(a.scale, unscale);
			} else {
				if (lane == 0) stats.factor[h] = 0;
#pragma unroll 1
				for (u32 p = 0; p < (a.width + 63) / 64 * panelBytes; p += panelBytes) {
					asm volatile("st.shared.b32 [%0], %1;" ::"r"(qHi + p + h * 128 + lane * 4), "r"(0) : "memory");
					asm volatile("st.shared.b32 [%0], %1;" ::"r"(qLo + p + h * 128 + lane * 4), "r"(0) : "memory");
				}
			}
		}
		__syncthreads();

		float s[8][4], top[2];
		int g = lane >> 2, t = lane & 3, rowPos[2] = {pos, pos};
		float factor[2] = {stats.factor[g], stats.factor[g + 8]};
		top[0] = top[1] = kNone;
		if (tile.seen()) {
			scoreTile(s, a, pages, tile, qHi, qLo);
			bool masked = tile.base < span.from || tile.base + kTile > span.to;
			prepare<T>(s, a, factor, rowPos, tile.base, masked, stats.keyScales[warp], t, top);
		}
		if (t == 0) {
			stats.top[warp][g] = top[0];
			stats.top[warp][g + 8] = top[1];
		}
		__syncthreads(); // queries are read, too
		if (tile.seen()) {
			float m[2], sum[2], c[2] = {unit(a, factor[0]), unit(a, factor[1])};
#pragma unroll
			for (int h = 0; h < 2; h++) {
				m[h] = top[h];
#pragma unroll
				for (int k = 0; k < kTiles - 1; k++)
					if (k < warp) m[h] = fmaxf(m[h], stats.top[k][g + 8 * h]);
			}
			u32 hi[4][4], lo[4][4];
			weigh<T>(s, c, m, stats.valueScales[warp], t, hi, lo, sum);
			if (t == 0) {
				stats.sum[warp][g] = sum[0];
				stats.sum[warp][g + 8] = sum[1];
			}
			sumTile(sums + warp * heads * stride, stride, heads, a, pages, tile, hi, lo);
		}
		__syncthreads();

		int first = max(span.firstTile() - (firstChunk + c) * kTiles, 0), last = min(span.lastTile() - (firstChunk + c) * kTiles, kTiles - 1);
#pragma unroll 1
		for (int h = warp; h < heads; h += kWarps) {
			float inLog2 = unit(a, stats.factor[h]);
			float alpha[kTiles], m = stats.top[0][h], l = 0;
			l = first == 0 ? stats.sum[0][h] : 0;
			alpha[0] = 0;
#pragma unroll
			for (int k = 1; k < kTiles; k++) {
				float next = fmaxf(m, stats.top[k][h]);
				alpha[k] = rescale(m, next, inLog2);
				m = next;
				if (k >= first && k <= last) l = __fmaf_rn(l, alpha[k], stats.sum[k][h]);
			}
			int64_t state = state0 + (int64_t)h * d.maxChunks + c;
			float inverse = __fmul_rn(reciprocal(l), T::kUnit);
#pragma unroll 1
			for (int i = lane; i < a.width; i += 32) {
				float acc = fold(sums + h * stride + i, heads * stride, alpha, first, last);
				if (chunks > 1)
					d.sums[state * a.width + i] = acc;
				else if (i < a.dim)
					out[h * a.dim + i] = result(acc, inverse);
			}
			if (chunks > 1 && lane == 0) d.states[state] = make_float2(__fmul_rn(m, inLog2), l);
		}
		__syncthreads(); // the place of the sums is that of the queries
	}
	if (chunks == 1) return;

	__threadfence();
	__syncthreads();
	unsigned* ticket = d.tickets + (int64_t)row * gridDim.y + blockIdx.y;
	if (threadIdx.x == 0) {
		stats.ticket = atomicAdd(ticket, 1);
		__threadfence();
	}
	__syncthreads();
	if (stats.ticket != min(chunks, (int)gridDim.x) - 1) return;
	if (threadIdx.x == 0) *ticket = 0;
#pragma unroll 1
	for (int h = warp; h < heads; h += kWarps) {
		int64_t state = state0 + (int64_t)h * d.maxChunks;
#pragma unroll 1
		for (int i = lane; i < a.dim; i += 32) {
			float m = kNone, l = 0, acc = 0;
			const float* from = d.sums + state * a.width + i;
#pragma unroll 4
			for (int c = 0; c < chunks; c++) {
				float x, y;
				float2 chunk = __ldcg(d.states + state + c);
				merge(m, l, chunk.x, chunk.y, x, y);
				acc = merged(acc, x, __ldcg(from + (int64_t)c * a.width), y);
			}
			out[h * a.dim + i] = result(acc, __fmul_rn(reciprocal(l), T::kUnit));
		}
	}
}

} // namespace

#define DECODE(NAME, T)                                                                                                              \
	extern "C" __global__ void __launch_bounds__(kThreads) NAME(const float* q, int ldq, float* out, int ldout, const int* pos,      \
		const int* seq, const int* tables, int maxBlocks, int blockShift, const uint8_t* cache, int64_t blockBytes, int group,       \
		int dim, int width, int window, float scale, float softcap, int heads, int parts, unsigned* tickets, float2* states,         \
		float* sums, int maxChunks) {                                                                                                \
		Attention a = {q, out, ldq, ldout, cache, blockBytes, tables, maxBlocks, blockShift, group, dim, width, window, scale, softcap}; \
		Decode d = {pos, seq, heads, parts, tickets, states, sums, maxChunks};                                                       \
		decode<T>(a, d);                                                                                                             \
	}

DECODE(attention_decode_f16, F16)
DECODE(attention_decode_bf16, BF16)
DECODE(attention_decode_fp8, FP8)
DECODE(attention_decode_int8, INT8)
