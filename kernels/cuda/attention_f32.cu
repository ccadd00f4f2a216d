// Attention over a float32 cache, by fused multiply-adds: for checking other caches against, not for speed. A block takes one row, up
// to kHeads heads of one KV head and, in the decode form, one chunk of keys at a time; in the prefill form, all of them. Both forms do
// the same for a row: scores of a chunk by eight lanes a key, weights against the chunk's largest score, p·v by four warps of which
// warp w takes keys w, w+4, …, their sums added in order; chunks are merged as attention.cuh says.
#include "attention.cuh"

namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kHeads = 8;

// Memory is dynamic shared memory.
struct Memory {
	float* scores; // (kHeads, kChunk), then weights
	float* query;  // (kHeads, width), zeros for heads that are not there
	float* parts;  // (kWarps, kHeads, width)
	float* total;  // (kHeads, width): prefill
	float* m;      // (kHeads): of the chunk, in units of log2; then of what is merged
	float* l;
	int* ticket;
	__device__ __forceinline__ Memory(uint8_t* p, int width) {
		scores = (float*)p;
		query = scores + kHeads * kChunk;
		parts = query + kHeads * width;
		total = parts + kWarps * kHeads * width;
		m = total + kHeads * width;
		l = m + 2 * kHeads;
		ticket = (int*)(l + 2 * kHeads);
	}
};

// Row is one row and the heads of it that a block has.
struct Row {
	int head0, heads, modelHeads, lane, warp;
	Span span;
	Pages pages;
	__device__ __forceinline__ Row(const Attention& a, int sequence, int pos, int maxHeads, int parts)
		: lane(threadIdx.x & 31), warp(threadIdx.x >> 5), span(Span::of(a, pos, pos)), pages(a, sequence, blockIdx.y / parts, 4, false) {
		int part = blockIdx.y % parts;
		head0 = blockIdx.y / parts * a.group + part * maxHeads;
		heads = min(maxHeads, a.group - part * maxHeads);
		modelHeads = gridDim.y / parts * a.group;
	}
	__device__ __forceinline__ int firstChunk() const { return span.from / kChunk; }
	__device__ __forceinline__ int chunks() const { return (span.to - 1) / kChunk + 1 - firstChunk(); }
	__device__ __forceinline__ const float* key(int k) const { return (const float*)(pages.block(k) + pages.row(k) * pages.rowBytes); }
	__device__ __forceinline__ const float* value(int k) const {
		return (const float*)(pages.block(k) + pages.valueBytes + pages.row(k) * pages.rowBytes);
	}
};

__device__ __forceinline__ void loadQuery(const Attention& a, const float* q, const Row& r, const Memory& mem) {
#pragma unroll 1
	for (int h = r.warp; h < kHeads; h += kWarps)
#pragma unroll 1
		for (int d = r.lane; d < a.width; d += 32) mem.query[h * a.width + d] = h < r.heads && d < a.dim ? q[h * a.dim + d] : 0;
}

// score: raw scores of keys [from, to) of the chunk that begins at base.
__device__ __forceinline__ void score(const Attention& a, const Row& r, const Memory& mem, int base, int from, int to) {
	int piece = r.lane & 7, group = threadIdx.x >> 3;
#pragma unroll 1
	for (int k0 = from; k0 < to; k0 += kThreads / 8) {
		int k = k0 + group;
		float acc[kHeads] = {};
		if (k < to) {
			const float* key = r.key(base + k);
#pragma unroll 1
			for (int d = 4 * piece; d < a.width; d += 32) {
				float4 x = *(const float4*)(key + d);
#pragma unroll
				for (int h = 0; h < kHeads; h++) {
					float4 q = *(const float4*)(mem.query + h * a.width + d);
					acc[h] = __fmaf_rn(q.w, x.w, __fmaf_rn(q.z, x.z, __fmaf_rn(q.y, x.y, __fmaf_rn(q.x, x.x, acc[h]))));
				}
			}
		}
#pragma unroll
		for (int h = 0; h < kHeads; h++) {
#pragma unroll
			for (int i = 4; i > 0; i >>= 1) acc[h] = __fadd_rn(acc[h], __shfl_xor_sync(0xffffffffu, acc[h], i));
			if (piece == h && k < to) mem.scores[h * kChunk + k] = acc[h];
		}
	}
}

// weigh turns scores into weights, and sets m and l of each head.
__device__ __forceinline__ void weigh(const Attention& a, const Row& r, const Memory& mem, int from, int to) {
	float c = unit(a, a.scale);
#pragma unroll 1
	for (int h = r.warp; h < r.heads; h += kWarps) {
		float* s = mem.scores + h * kChunk;
		float top = kNone, sum = 0;
#pragma unroll 1
		for (int k = from + r.lane; k < to; k += 32) {
			if (a.softcap > 0) s[k] = capped(__fmul_rn(s[k], a.scale), a.softcap);
			top = fmaxf(top, s[k]);
		}
#pragma unroll
		for (int i = 16; i > 0; i >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
#pragma unroll 1
		for (int k = from + r.lane; k < to; k += 32) {
			s[k] = ex2(__fmul_rn(__fsub_rn(s[k], top), c));
			sum = __fadd_rn(sum, s[k]);
		}
#pragma unroll
		for (int i = 16; i > 0; i >>= 1) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, i));
		if (r.lane == 0) {
			mem.m[h] = __fmul_rn(top, c);
			mem.l[h] = sum;
		}
	}
}

// sum: p·v of the warp's keys.
__device__ __forceinline__ void sum(const Attention& a, const Row& r, const Memory& mem, int base, int from, int to) {
#pragma unroll 1
	for (int d = 4 * r.lane; d < a.width; d += 128) {
		float acc[kHeads][4] = {};
#pragma unroll 2
		for (int k = from + r.warp; k < to; k += kWarps) {
			float4 v = *(const float4*)(r.value(base + k) + d);
#pragma unroll
			for (int h = 0; h < kHeads; h++) {
				if (h >= r.heads) break;
				float p = mem.scores[h * kChunk + k];
				acc[h][0] = __fmaf_rn(p, v.x, acc[h][0]);
				acc[h][1] = __fmaf_rn(p, v.y, acc[h][1]);
				acc[h][2] = __fmaf_rn(p, v.z, acc[h][2]);
				acc[h][3] = __fmaf_rn(p, v.w, acc[h][3]);
			}
		}
#pragma unroll
		for (int h = 0; h < kHeads; h++)
			*(float4*)(mem.parts + (r.warp * kHeads + h) * a.width + d) = make_float4(acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
	}
}

// chunk computes m, l and the parts of p·v of one chunk; a barrier stands before and after.
__device__ __forceinline__ void chunk(const Attention& a, const Row& r, const Memory& mem, int chunk) {
	int base = chunk * kChunk, from = max(r.span.from - base, 0), to = min(r.span.to - base, kChunk);
	score(a, r, mem, base, from, to);
	__syncthreads();
	weigh(a, r, mem, from, to);
	__syncthreads();
	sum(a, r, mem, base, from, to);
	__syncthreads();
}

__device__ __forceinline__ float chunkSum(const Attention& a, const Memory& mem, int h, int i) {
	float acc = mem.parts[h * a.width + i];
#pragma unroll
	for (int w = 1; w < kWarps; w++) acc = __fadd_rn(acc, mem.parts[(w * kHeads + h) * a.width + i]);
	return acc;
}

// finishLast merges the chunks of a row in the block that finishes last.
__device__ __forceinline__ void finishLast(const Attention& a, const Row& r, const Memory& mem, float* out, unsigned* tickets,
	const float2* states, const float* sums, int maxChunks, int row) {
	__threadfence();
	__syncthreads();
	unsigned* ticket = tickets + (int64_t)row * gridDim.y + blockIdx.y;
	if (threadIdx.x == 0) {
		*mem.ticket = atomicAdd(ticket, 1);
		__threadfence();
	}
	__syncthreads();
	if (*mem.ticket != min(r.chunks(), (int)gridDim.x) - 1) return;
	if (threadIdx.x == 0) *ticket = 0;
#pragma unroll 1
	for (int h = r.warp; h < r.heads; h += kWarps) {
		int64_t state = ((int64_t)row * r.modelHeads + r.head0 + h) * maxChunks;
#pragma unroll 1
		for (int i = r.lane; i < a.dim; i += 32) {
			float m = kNone, l = 0, acc = 0;
#pragma unroll 1
			for (int c = 0; c < r.chunks(); c++) {
				float x, y;
				float2 next = __ldcg(states + state + c);
				merge(m, l, next.x, next.y, x, y);
				acc = merged(acc, x, __ldcg(sums + (state + c) * a.width + i), y);
			}
			out[h * a.dim + i] = result(acc, reciprocal(l));
		}
	}
}

__device__ __forceinline__ void decode(const Attention& a, const int* positions, const int* sequences, int maxHeads, int parts,
	unsigned* tickets, float2* states, float* sums, int maxChunks) {
	extern __shared__ __align__(16) uint8_t memory[];
	Memory mem(memory, a.width);
	int row = blockIdx.z, pos = positions[row];
	Row r(a, sequences[row], max(pos, 0), maxHeads, parts);
	float* out = a.out + (int64_t)row * a.ldout + r.head0 * a.dim;
	if (pos < 0) { // a padding row: what follows reads it
		if (blockIdx.x == 0)
			for (int i = threadIdx.x; i < r.heads * a.dim; i += kThreads) out[i] = 0;
		return;
	}
	if (blockIdx.x >= r.chunks()) return;
	loadQuery(a, a.q + (int64_t)row * a.ldq + r.head0 * a.dim, r, mem);
	__syncthreads();
#pragma unroll 1
	for (int c = blockIdx.x; c < r.chunks(); c += gridDim.x) {
		chunk(a, r, mem, r.firstChunk() + c);
#pragma unroll 1
		for (int h = r.warp; h < r.heads; h += kWarps) {
			int64_t state = ((int64_t)row * r.modelHeads + r.head0 + h) * maxChunks + c;
#pragma unroll 1
			for (int i = r.lane; i < a.width; i += 32) {
				float acc = chunkSum(a, mem, h, i);
				if (r.chunks() > 1)
					sums[state * a.width + i] = acc;
				else if (i < a.dim)
					out[h * a.dim + i] = result(acc, reciprocal(mem.l[h]));
			}
			if (r.chunks() > 1 && r.lane == 0) states[state] = make_float2(mem.m[h], mem.l[h]);
		}
		__syncthreads();
	}
	if (r.chunks() > 1) finishLast(a, r, mem, out, tickets, states, sums, maxChunks, row);
}

__device__ __forceinline__ void prefill(const Attention& a, const int4* tiles, int maxHeads, int parts) {
	extern __shared__ __align__(16) uint8_t memory[];
	Memory mem(memory, a.width);
	int4 tile = tiles[blockIdx.z];
	if (blockIdx.x >= tile.y) return;
	int row = tile.x + blockIdx.x;
	Row r(a, tile.z, tile.w + blockIdx.x, maxHeads, parts);
	float* out = a.out + (int64_t)row * a.ldout + r.head0 * a.dim;
	float *totalM = mem.m + kHeads, *totalL = mem.l + kHeads;
	loadQuery(a, a.q + (int64_t)row * a.ldq + r.head0 * a.dim, r, mem);
	__syncthreads();
#pragma unroll 1
	for (int c = 0; c < r.chunks(); c++) {
		chunk(a, r, mem, r.firstChunk() + c);
#pragma unroll 1
		for (int h = r.warp; h < r.heads; h += kWarps) { // a head is always the same warp's
			float m = c == 0 ? kNone : totalM[h], l = c == 0 ? 0 : totalL[h], x, y;
			merge(m, l, mem.m[h], mem.l[h], x, y);
			__syncwarp();
			if (r.lane == 0) totalM[h] = m, totalL[h] = l;
#pragma unroll 1
			for (int i = r.lane; i < a.width; i += 32) {
				float* total = mem.total + h * a.width + i;
				*total = merged(c == 0 ? 0 : *total, x, chunkSum(a, mem, h, i), y);
				if (c == r.chunks() - 1 && i < a.dim) out[h * a.dim + i] = result(*total, reciprocal(l));
			}
		}
		__syncthreads();
	}
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads) attention_decode_f32(const float* q, int ldq, float* out, int ldout,
	const int* pos, const int* seq, const int* tables, int maxBlocks, int blockShift, const uint8_t* cache, int64_t blockBytes,
	int group, int dim, int width, int window, float scale, float softcap, int heads, int parts, unsigned* tickets, float2* states,
	float* sums, int maxChunks) {
	Attention a = {q, out, ldq, ldout, cache, blockBytes, tables, maxBlocks, blockShift, group, dim, width, window, scale, softcap};
	decode(a, pos, seq, heads, parts, tickets, states, sums, maxChunks);
}

extern "C" __global__ void __launch_bounds__(kThreads) attention_prefill_f32(const float* q, int ldq, float* out, int ldout,
	const int4* tiles, const int* tables, int maxBlocks, int blockShift, const uint8_t* cache, int64_t blockBytes, int group, int dim,
	int width, int window, float scale, float softcap, int heads, int parts) {
	Attention a = {q, out, ldq, ldout, cache, blockBytes, tables, maxBlocks, blockShift, group, dim, width, window, scale, softcap};
	prefill(a, tiles, heads, parts);
}
