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
	const uint8_t* rows; // lane i: where the keys from base + 16·(i & 3) lie
	int base, panels, lane;
	Span span;
	u32 ring;

	__device__ __forceinline__ Tile(const Attention& a, const Pages& p, Span s, int chunk, int warp, int lane, u32 ring)
		: base(chunk * kChunk + warp * kTile), panels((p.rowBytes + 127) / 128), lane(lane), span(s), ring(ring) {
		int key = base + 16 * (lane & 3);
		rows = key < s.to && key + 16 > s.from ? p.block(key) + p.row(key) * p.rowBytes : a.cache;
	}
	// seen says whether the row sees any key of the tile.
	__device__ __forceinline__ bool seen() const { return base < span.to && base + kTile > span.from; }

	__device__ __forceinline__ const uint8_t* rowsOf(int group) const {
		return (const uint8_t*)__shfl_sync(0xffffffffu, (unsigned long long)rows, group);
	}

	// issue starts the copy of step i: panels of keys, then of values, 128 bytes of each row. A step past the end is an empty group.
	__device__ __forceinline__ void issue(const Pages& p, int i) const {
		if (i < 2 * panels) {
			bool values = i >= panels, whole = base >= span.from && base + kTile <= span.to;
			int piece = lane & 7, row = lane >> 3, at = (values ? i - panels : i) * 128 + piece * 16;
			u32 slot = ring + (i & (kSlots - 1)) * kPanel + row * 128;
			u32 even = slot + ((piece ^ row) << 4), odd = slot + ((piece ^ (row + 4)) << 4);
			int offset = row * p.rowBytes + at + (values ? p.valueBytes : 0);
			int64_t step = 4 * p.rowBytes;
#pragma unroll 1
			for (int g = 0; g < 4; g++, even += 2048, odd += 2048) {
				const uint8_t* from = rowsOf(g) + offset;
				if (at >= p.rowBytes) continue;
				if (whole) {
					copy16At<0>(even, from);
					copy16At<512>(odd, from += step);
					copy16At<1024>(even, from += step);
					copy16At<1536>(odd, from += step);
				} else {
#pragma unroll 1
					for (int r = 0, key = base + 16 * g + row; r < 4; r++, key += 4, from += step)
						copy16((r & 1 ? odd : even) + r * 512, from, key >= span.from && key < span.to ? 16 : 0);
				}
			}
		}
		commit();
	}
	// issueScales adds the scales of keys and values to the group of step 0.
	__device__ __forceinline__ void issueScales(const Pages& p, float* keys, float* values) const {
		int i = lane & 15, first = base + 4 * i;
		int n = first + 4 > span.from ? min(max(span.to - first, 0), 4) : 0;
		const uint8_t* block = rowsOf(i >> 2) - p.row(first & ~15) * p.rowBytes;
		const uint8_t* from = block + 2 * p.valueBytes + 4 * (p.row(first) + (lane < 16 ? 0 : 1 << p.shift));
		copy16(shared((lane < 16 ? keys : values) + 4 * i), from, 4 * n);
	}
};

// loadQueries brings the block's heads to shared memory, and zeros for the rows that are not there.
template <class T>
__device__ __forceinline__ void loadQueries(const Attention& a, const float* q, int heads, u32 hi, u32 lo, Stats& stats) {
	int lane = threadIdx.x & 31;
#pragma unroll 1
	for (int h = threadIdx.x >> 5; h < kRows; h += kWarps) {
		float factor = 0;
		if (h < heads) {
			factor = __fmul_rn(a.scale, storeQuery<T>(a, q + h * a.dim, hi + h * 128, lo + h * 128, h, kRows * 128, lane));
		} else {
#pragma unroll 1
			for (u32 at = hi + h * 128 + lane * 4; at < lo; at += kRows * 128) {
				asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(0) : "memory");
				asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + lo - hi), "r"(0) : "memory");
			}
		}
		if (lane == 0) stats.factor[h] = factor;
	}
}

// scoreTile: s are the raw scores of the warp's tile.
template <class T>
__device__ __forceinline__ void scoreTile(float (&s)[8][4], const Attention& a, const Pages& pages, const Tile<T>& tile, u32 qHi, u32 qLo) {
#pragma unroll
	for (int n = 0; n < 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) s[n][e] = 0;
	constexpr int kShare = T::kPanelSteps / 4; // panels of queries to one of keys
	u32 query = qHi + tile16(tile.lane), keys = tile.ring + T::keyPlace(tile.lane);
	int steps = a.width / 16;
#pragma unroll 1
	for (int p = 0; p < tile.panels; p++) {
		wait<kSlots - 1>();
		__syncwarp();
		u32 k = keys + (p & (kSlots - 1)) * kPanel;
#pragma unroll
		for (int i = 0; i < kShare; i++, steps -= 4, query += kRows * 128)
			if (steps > 0) scoreSteps<T>(s, query, qLo - qHi, k ^ (i * 4 * T::kStep), min(steps, 4));
		__syncwarp();
		tile.issue(pages, p + kSlots);
	}
}

// sumTile writes p·v of the warp's tile, rows of `stride` floats.
template <class T>
__device__ __forceinline__ void sumTile(float* to, int stride, int rows, const Attention& a, const Pages& pages, const Tile<T>& tile,
	const u32 (&hi)[4][4], const u32 (&lo)[4][4]) {
	int g = tile.lane >> 2, t = tile.lane & 3;
	float* row = to + g * stride + T::column(0, 0, t);
	u32 values = tile.ring + T::valuePlace(tile.lane);
#pragma unroll 1
	for (int p = 0; p < tile.panels; p++) {
		wait<kSlots - 1>();
		__syncwarp();
		int steps = min(T::kPanelSteps, a.width / 16 - p * T::kPanelSteps), step = tile.panels + p;
		u32 v = values + (step & (kSlots - 1)) * kPanel;
#pragma unroll 1
		for (int j = 0; j < steps; j++, row += 16) {
			float d[2][4];
			T::value(d, hi, lo, v ^ (j * T::kStep));
#pragma unroll
			for (int h = 0; h < 2; h++) {
				if (g + 8 * h >= rows) continue;
				float* x = row + 8 * h * stride;
				if (T::kBytes == 2) {
					*(float2*)x = make_float2(d[0][2 * h], d[0][2 * h + 1]);
					*(float2*)(x + 8) = make_float2(d[1][2 * h], d[1][2 * h + 1]);
				} else {
					*(float4*)x = make_float4(d[0][2 * h], d[1][2 * h], d[0][2 * h + 1], d[1][2 * h + 1]);
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

// Block is where a block's work is.
struct Block {
	int row, kvHead, head0, heads, modelHeads, pos, firstChunk, chunks, lane, warp;
	Span span;
	int64_t state; // of its first head
	float* out;

	__device__ __forceinline__ Block(const Attention& a, const Decode& d) : lane(threadIdx.x & 31), warp(threadIdx.x >> 5) {
		row = blockIdx.z;
		kvHead = blockIdx.y / d.parts;
		int part = blockIdx.y - kvHead * d.parts;
		head0 = kvHead * a.group + part * d.heads;
		heads = min(d.heads, a.group - part * d.heads);
		modelHeads = gridDim.y / d.parts * a.group;
		pos = d.pos[row];
		span = Span::of(a, pos, pos);
		firstChunk = span.from / kChunk;
		chunks = pos / kChunk + 1 - firstChunk;
		state = ((int64_t)row * modelHeads + head0) * d.maxChunks;
		out = a.out + (int64_t)row * a.ldout + head0 * a.dim;
	}
};

// attendTile is what a warp does for its tile of a chunk: scores, weights, sums.
template <class T>
__device__ __forceinline__ void attendTile(const Attention& a, const Pages& pages, const Tile<T>& tile, const Block& b, u32 qHi, u32 qLo,
	Stats& stats, float* sums) {
	float s[8][4], top[2] = {kNone, kNone};
	int g = b.lane >> 2, t = b.lane & 3, pos[2] = {b.pos, b.pos};
	float factor[2] = {stats.factor[g], stats.factor[g + 8]};
	bool seen = tile.seen();
	if (seen) {
		scoreTile(s, a, pages, tile, qHi, qLo);
		bool masked = tile.base < b.span.from || tile.base + kTile > b.span.to;
		prepare<T>(s, a, factor, pos, tile.base, masked, stats.keyScales[b.warp], t, top);
	}
	if (t == 0) {
		stats.top[b.warp][g] = top[0];
		stats.top[b.warp][g + 8] = top[1];
	}
	__syncthreads(); // queries are read, too
	if (!seen) return;
	float sum[2], c[2] = {unit(a, factor[0]), unit(a, factor[1])};
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int k = 0; k < kTiles - 1; k++)
			if (k < b.warp) top[h] = fmaxf(top[h], stats.top[k][g + 8 * h]);
	u32 hi[4][4], lo[4][4];
	weigh<T>(s, c, top, stats.valueScales[b.warp], t, hi, lo, sum);
	if (t == 0) {
		stats.sum[b.warp][g] = sum[0];
		stats.sum[b.warp][g + 8] = sum[1];
	}
	int stride = rowStride<T>(a.width);
	sumTile(sums + b.warp * b.heads * stride, stride, b.heads, a, pages, tile, hi, lo);
}

// endChunk folds the tiles of chunk c of the row. One chunk is the result; several go to scratch memory.
template <class T>
__device__ __forceinline__ void endChunk(const Attention& a, const Decode& d, const Block& b, int c, const Stats& stats, const float* sums) {
	int tile0 = (b.firstChunk + c) * kTiles, first = max(b.span.firstTile() - tile0, 0), last = min(b.span.lastTile() - tile0, kTiles - 1);
	int stride = rowStride<T>(a.width);
#pragma unroll 1
	for (int h = b.warp; h < b.heads; h += kWarps) {
		float inLog2 = unit(a, stats.factor[h]), alpha[kTiles], m = stats.top[0][h], l = first == 0 ? stats.sum[0][h] : 0.0f;
#pragma unroll
		for (int k = 1; k < kTiles; k++) {
			float next = fmaxf(m, stats.top[k][h]);
			alpha[k] = rescale(m, next, inLog2);
			m = next;
			if (k >= first && k <= last) l = __fmaf_rn(l, alpha[k], stats.sum[k][h]);
		}
		int64_t state = b.state + (int64_t)h * d.maxChunks + c;
		float inverse = __fmul_rn(reciprocal(l), T::kUnit);
#pragma unroll 1
		for (int i = b.lane; i < a.width; i += 32) {
			const float* x = sums + h * stride + i;
			float acc = x[first * b.heads * stride];
#pragma unroll
			for (int k = 1; k < kTiles; k++)
				if (k > first && k <= last) acc = __fmaf_rn(acc, alpha[k], x[k * b.heads * stride]);
			if (b.chunks > 1)
				d.sums[state * a.width + i] = acc;
			else if (i < a.dim)
				b.out[h * a.dim + i] = result(acc, inverse);
		}
		if (b.chunks > 1 && b.lane == 0) d.states[state] = make_float2(__fmul_rn(m, inLog2), l);
	}
}

// mergeChunks makes the result in the block that finishes last.
template <class T>
__device__ __forceinline__ void mergeChunks(const Attention& a, const Decode& d, const Block& b, Stats& stats) {
	__threadfence();
	__syncthreads();
	unsigned* ticket = d.tickets + (int64_t)b.row * gridDim.y + blockIdx.y;
	if (threadIdx.x == 0) {
		stats.ticket = atomicAdd(ticket, 1);
		__threadfence();
	}
	__syncthreads();
	if (stats.ticket != min(b.chunks, (int)gridDim.x) - 1) return;
	if (threadIdx.x == 0) *ticket = 0;
#pragma unroll 1
	for (int h = b.warp; h < b.heads; h += kWarps) {
		int64_t state = b.state + (int64_t)h * d.maxChunks;
#pragma unroll 1
		for (int i = b.lane; i < a.dim; i += 32) {
			float m = kNone, l = 0, acc = 0;
			const float* from = d.sums + state * a.width + i;
#pragma unroll 4
			for (int c = 0; c < b.chunks; c++) {
				float x, y;
				float2 chunk = __ldcg(d.states + state + c);
				merge(m, l, chunk.x, chunk.y, x, y);
				acc = merged(acc, x, __ldcg(from + (int64_t)c * a.width), y);
			}
			b.out[h * a.dim + i] = result(acc, __fmul_rn(reciprocal(l), T::kUnit));
		}
	}
}

template <class T>
__device__ __forceinline__ void decode(const Attention& a, const Decode& d) {
	extern __shared__ __align__(128) uint8_t memory[];
	Stats& stats = *(Stats*)(memory + kWarps * kSlots * kPanel);
	float* sums = (float*)(&stats + 1);
	u32 qHi = shared(sums), qLo = qHi + (a.width + 63) / 64 * (kRows * 128);
	Block b(a, d);
	if (b.pos < 0) { // a padding row: what follows reads it
		if (blockIdx.x == 0)
#pragma unroll 1
			for (int i = threadIdx.x; i < b.heads * a.dim; i += kThreads) b.out[i] = 0;
		return;
	}
	if ((int)blockIdx.x >= b.chunks) return;
	Pages pages(a, d.seq[b.row], b.kvHead, T::kBytes, T::kScales);
#pragma unroll 1
	for (int c = blockIdx.x; c < b.chunks; c += gridDim.x) {
		Tile<T> tile(a, pages, b.span, b.firstChunk + c, b.warp, b.lane, shared(memory) + b.warp * kSlots * kPanel);
		if (tile.seen()) {
			if (T::kScales) tile.issueScales(pages, stats.keyScales[b.warp], stats.valueScales[b.warp]);
#pragma unroll 1
			for (int i = 0; i < kSlots; i++) tile.issue(pages, i);
		}
		loadQueries<T>(a, a.q + (int64_t)b.row * a.ldq + b.head0 * a.dim, b.heads, qHi, qLo, stats);
		__syncthreads();
		attendTile<T>(a, pages, tile, b, qHi, qLo, stats, sums);
		__syncthreads();
		endChunk<T>(a, d, b, c, stats, sums);
		__syncthreads(); // the place of the sums is that of the queries
	}
	if (b.chunks > 1) mergeChunks<T>(a, d, b, stats);
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
