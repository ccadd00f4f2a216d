// The linears of GGUF's block types: y = x·Wᵀ with x in int8 (int_quantize.cuh) and W as int_weights.cuh says. Operand A of the mma is
// W, a strip of 16 rows; operand B is x, a group of 8 rows.
//
// K is cut into segments by the shape of W: segment i of n begins at blob i·blobs/n. Within a segment a sum starts at 0 and takes the
// K blocks in order; the result is ((0 + s0) + s1) + …. Both kernels do this, so that a row has the same bits in either:
//
//	gemv  a few rows, x as float32: it is normed and rounded into shared memory, once a block. A block has a warp for each segment
//	      and goes through strips blockIdx.x, + gridDim.x, …; the warps' sums meet in shared memory.
//	tile  x in operand form, from int_quantize. A block has 128 rows of W, two strips a warp, and 8·NT rows of x. It takes all
//	      segments, or one (gridDim.z of them) and the last block of a tile to arrive adds the sums.
//
// W goes through a ring of cp.async stages of each warp, in 16-byte pieces of consecutive lanes, read back by fragment order.
#pragma once
#include "int_weights.cuh"

enum : u32 { kResidual = 1, kSilu = 2, kGelu = 4, kGated = kSilu | kGelu };

// Linear is a call; see kernel.LinearCall.
struct Linear {
	const u8* w;
	const float* x;    // (rows, ldx), gemv
	const float* norm; // (K) or null, gemv
	const u8* operand; // tile
	float* y;          // (rows, ldy)
	const float* bias; // or null
	float4* parts;     // sums of segments, where they are cut; [segment][tile][warp][strip, group][lane]
	u32* counters;     // (tiles), zero before and after
	int rows, ldx, ldy;
	int out;      // columns of y
	int strips;   // of 16 rows of W; where gated, 8 of gate, then 8 of up
	int blobs;    // of a strip
	int segments;
	int stages;   // of gemv's rings
	float eps;
	u32 flags;
};

// copy_async copies n ≤ Most pieces of 16 bytes by 32 lanes; to and from are the lane's in the first piece.
template <int Most>
__device__ __forceinline__ void copy_async(u32 to, const u8* from, int n, int lane) {
	n -= lane;
#pragma unroll
	for (int i = 0; i < Most; i += 32)
		if (n > i) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + i * 16), "l"(from + i * 16) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }

// finish makes one value of y from the sum of its row of W (v), or of gate and up.
__device__ __forceinline__ void finish(const Linear& c, int row, int col, float v, float up) {
	float* y = c.y + (size_t)row * c.ldy + col;
	if (c.bias) v = __fadd_rn(v, c.bias[col]);
	if (c.flags & kGated) {
		if (c.bias) up = __fadd_rn(up, c.bias[c.out + col]);
		v = __fmul_rn(c.flags & kSilu ? silu(v) : gelu_tanh(v), up);
	}
	if (c.flags & kResidual) v = __fadd_rn(*y, v);
	*y = v;
}

// Geometry of gemv; linear_int.go has it too.
template <class T>
struct Gemv {
	static constexpr int kStages = T::kBlocks == 1 ? 4 : 3; // at most; of large blobs there may be 2
	static constexpr int kSlot = T::kChunk * T::kBytes;
	static constexpr int kMeta = T::kFold >= kFoldHalves ? 4 : 2; // floats: d, fold, second fold, unused
};

constexpr int kSegments = 8;            // at most
constexpr int kPartRow = 20;            // floats from a column (row of x) of a strip's sums to the next: no bank twice
constexpr int kPart = 8 * kPartRow;

// prepare norms and rounds x into shared memory: q (K block, row) of 32 bytes, meta (K block, row) of kMeta floats. sums has 9 floats a row.
template <class T, bool One>
__device__ __forceinline__ void prepare(const Linear& c, u8* q, float* meta, float* sums, int warp, int lane) {
	constexpr int M = Gemv<T>::kMeta;
	int rows = One ? 1 : c.rows, blocks = c.blobs * T::kBlocks, k = blocks * 32;
	float* inverse = sums + 8 * rows;
	if (c.norm) {
		for (int i = warp; i < 8 * rows; i += c.segments) { // the work of eight warps a row
			float s = warp_sum(square_sum_256(c.x + (size_t)(i / 8) * c.ldx, k, i % 8 * 32 + lane));
			if (lane == 0) sums[i] = s;
		}
		__syncthreads();
		for (int r = threadIdx.x; r < rows; r += blockDim.x) inverse[r] = rms_inverse_256(sums + 8 * r, k, c.eps);
		__syncthreads();
	}
	u32 reciprocal = (65535 + rows) / rows; // i·reciprocal/65536 is i/rows: both are small (linear_int.go, gemvValues)
#pragma unroll 2
	for (int i0 = warp * 4; i0 < blocks * rows; i0 += c.segments * 4) {
		int i = i0 + lane / 8, b = One ? i : i * reciprocal >> 16, r = One ? 0 : i - b * rows;
		bool live = b < blocks;
		float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
		if (live) v = normed(c.x + (size_t)r * c.ldx, c.norm, c.norm ? inverse[r] : 1.0f, b * 32 + lane % 8 * 4);
		quantize4(v, Act{q + i * 32, meta + i * M, meta + i * M + 1, 1}, T::kFold, T::kOffset, lane, live);
		if (M == 4 && live && lane % 8 == 1) meta[i * M + 3] = 0.0f;
	}
	__syncthreads();
}

// One says that there is one row, and then of a lane's two columns one is computed.
template <class T, bool One>
__device__ __forceinline__ void gemv(const Linear& c) {
	constexpr int M = Gemv<T>::kMeta, kSlot = Gemv<T>::kSlot, kPieces = T::kBytes / 16;
	extern __shared__ uint4 shared[];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = One ? 1 : c.rows, blocks = c.blobs * T::kBlocks;
	int D = T::kBlocks == 1 ? Gemv<T>::kStages : c.stages;
	u8* q = reinterpret_cast<u8*>(shared) + c.segments * D * kSlot;
	u8* ring = reinterpret_cast<u8*>(shared) + warp * D * kSlot;
	float* meta = reinterpret_cast<float*>(q + blocks * rows * 32);
	float* part = meta + blocks * rows * M;
	float* sums = part + 2 * c.segments * kPart;

	int from = warp * c.blobs / c.segments, count = (warp + 1) * c.blobs / c.segments - from;
	// the strip to copy next, blobs of it that are left, where the lane's first piece is and where it goes
	int ahead = blockIdx.x, rest = count;
	const u8* w = c.w + ((size_t)ahead * c.blobs + from) * T::kBytes + lane * 16;
	size_t wrap = (size_t)gridDim.x * c.blobs * T::kBytes - (count - 1) / T::kChunk * kSlot;
	u32 to0 = (u32)__cvta_generic_to_shared(ring) + lane * 16, to = to0;
	auto copy = [&]() {
		if (ahead < c.strips) {
			copy_async<kSlot / 16>(to, w, min(T::kChunk, rest) * kPieces, lane);
			rest -= T::kChunk;
			if (rest > 0) w += kSlot;
			else w += wrap, rest = count, ahead += gridDim.x;
		}
		to = to == to0 + (D - 1) * kSlot ? to0 : to + kSlot;
		commit();
	};
#pragma unroll 1
	for (int i = 0; i < D - 1; i++) copy();
	prepare<T, One>(c, q, meta, sums, warp, lane);

	// where the lane's operand and scales of K block 0 are; columns past the rows repeat the last
	const u8* q0 = q + (One ? 0 : min(lane / 4, rows - 1) * 32) + lane % 4 * 8;
	const float* m0 = meta + (One ? 0 : min(lane % 4 * 2, rows - 1) * M);
	const float* m1 = meta + (One ? 0 : min(lane % 4 * 2 + 1, rows - 1) * M);
	float acc[4];
	auto multiply = [&](const u8* blob, const u8* x, const float* p, const float* p1) {
		typename T::Head head(blob, lane);
#pragma unroll
		for (int b = 0; b < T::kBlocks; b++, x += rows * 32, p += rows * M, p1 += rows * M) {
			typename T::Frag f;
			T::load(f, head, blob, b, lane);
			uint2 v = at<uint2>(x);
			Meta m;
			if (M == 2) {
				float2 s = *reinterpret_cast<const float2*>(p), t = One ? s : *reinterpret_cast<const float2*>(p1);
				m = {{s.x, t.x}, {s.y, t.y}};
			} else {
				float4 s = *reinterpret_cast<const float4*>(p), t = One ? s : *reinterpret_cast<const float4*>(p1);
				m = {{s.x, t.x}, {s.y, t.y, s.z, t.z}};
			}
			f.template multiply<One ? 1 : 2>(acc, v.x, v.y, m);
		}
	};
	int read = 0;
	float* mine = part + warp * kPart + lane % 4 * 2 * kPartRow + lane / 4;
	bool gated = c.flags & kGated, odd = false;
	for (int strip = blockIdx.x; strip < c.strips; strip += gridDim.x, odd = !odd) {
#pragma unroll
		for (int i = 0; i < 4; i++) acc[i] = 0.0f;
		int first = from * T::kBlocks * rows;
		const u8* x = q0 + first * 32;
		const float *p = m0 + first * M, *p1 = m1 + first * M;
		for (int left = count; left > 0; left -= T::kChunk) {
			if (T::kBlocks > 1 && D == 2) wait<0>();
			else wait<Gemv<T>::kStages - 2>();
			__syncwarp();
			copy();
			const u8* blob = ring + read;
			read = read == (D - 1) * kSlot ? 0 : read + kSlot;
			constexpr int kStep = T::kBlocks;
			if (left >= T::kChunk) {
#pragma unroll
				for (int i = 0; i < T::kChunk; i++)
					multiply(blob + i * T::kBytes, x + i * kStep * rows * 32, p + i * kStep * rows * M, p1 + i * kStep * rows * M);
				x += T::kChunk * kStep * rows * 32;
				p += T::kChunk * kStep * rows * M, p1 += T::kChunk * kStep * rows * M;
			} else {
#pragma unroll 1
				for (int i = 0; i < left; i++) {
					multiply(blob, x, p, p1);
					blob += T::kBytes, x += kStep * rows * 32, p += kStep * rows * M, p1 += kStep * rows * M;
				}
			}
		}
		int side = odd ? c.segments * kPart : 0; // of two, so that one barrier a strip is enough
		if (!One || lane % 4 == 0) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (i % 2 == 0 || !One) mine[side + i % 2 * kPartRow + i / 2 * 8] = acc[i];
		}
		__syncthreads();
		for (int i = threadIdx.x; i < (One ? 16 : 128); i += blockDim.x) {
			int row = (i / 16 >> 1) + (i / 16 & 1) * 4, n = i % 16, col = gated ? strip * 8 + n : strip * 16 + n;
			if (row >= rows || col >= c.out || (gated && n >= 8)) continue;
			const float* s = part + side + row * kPartRow + n;
			float v = 0.0f, up = 0.0f;
#pragma unroll
			for (int j = 0; j < kSegments; j++) {
				if (j >= c.segments) break;
				v = __fadd_rn(v, s[j * kPart]);
				if (gated) up = __fadd_rn(up, s[j * kPart + 8]);
			}
			finish(c, row, col, v, up);
		}
	}
}

// Geometry of tile; linear_int.go has it too.
template <class T, int NT>
struct Tile {
	static constexpr int kWarps = 4, kStrips = 2;                     // strips of a warp
	static constexpr int kBlobs = T::kBlocks == 1 ? 2 : 1;            // of a chunk of W
	static constexpr int kSteps = kBlobs * T::kBlocks / 2;            // of a chunk: a step is two K blocks
	static constexpr int kStagesW = T::kBlocks == 1 ? 4 : 2, kStagesX = 3;
	static constexpr int kGroup = group_bytes(T::kFold);
	static constexpr int kChunk = kBlobs * T::kBytes;                 // bytes of a strip's chunk
	static constexpr int kRing = kStagesW * kStrips * kChunk;         // of a warp
	static constexpr int kStep = NT * 2 * kGroup;
	static constexpr int kShared = kWarps * kRing + kStagesX * kStep;
	static_assert(kShared >= kWarps * kStrips * NT * 512, "the sums find no room");
	static_assert(kStagesX - 1 <= (kStagesW - 1) * kSteps, "W would come after x");
};

template <bool A, class X, class Y>
struct Choose {
	typedef X Type;
};
template <class X, class Y>
struct Choose<false, X, Y> {
	typedef Y Type;
};

template <class T, int NT>
__device__ __forceinline__ void tile(const Linear& c) {
	typedef Tile<T, NT> G;
	constexpr int RT = G::kStrips;
	extern __shared__ uint4 shared[];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	u8* ring = reinterpret_cast<u8*>(shared) + warp * G::kRing;
	u8* steps = reinterpret_cast<u8*>(shared) + G::kWarps * G::kRing;
	int group0 = blockIdx.x * NT, groups = (c.rows + 7) / 8, strip0 = (blockIdx.y * G::kWarps + warp) * RT;
	bool cut = gridDim.z > 1;
	int segment = blockIdx.z, from = segment * c.blobs / c.segments, end = (segment + 1) * c.blobs / c.segments;
	int to = cut ? end : c.blobs; // blobs
	int blocks = c.blobs * T::kBlocks, first = from * T::kBlocks, nblocks = (to - from) * T::kBlocks;

	// What is copied next of W: blobs that are left, where the lane's first piece of each strip is and where it goes.
	int blobs = to - from;
	const u8* source[RT];
#pragma unroll
	for (int i = 0; i < RT; i++) source[i] = c.w + ((size_t)min(strip0 + i, c.strips - 1) * c.blobs + from) * T::kBytes + lane * 16;
	u32 w0 = (u32)__cvta_generic_to_shared(ring) + lane * 16, w_to = w0;
	auto copy_w = [&]() {
#pragma unroll
		for (int i = 0; i < RT; i++) {
			copy_async<G::kChunk / 16>(w_to + i * G::kChunk, source[i], min(G::kBlobs, blobs) * (T::kBytes / 16), lane);
			source[i] += G::kChunk;
		}
		blobs -= G::kBlobs;
		w_to = w_to == w0 + (G::kStagesW - 1) * RT * G::kChunk ? w0 : w_to + RT * G::kChunk;
	};
	// And of x: a thread has a piece of every 128; of the step's second K block where late is 1.
	constexpr int P = G::kGroup / 16, kShare = (NT * 2 * P + 127) / 128;
	int steps_left = nblocks, late[kShare];
	const u8* operand[kShare];
#pragma unroll
	for (int i = 0; i < kShare; i++) {
		int piece = threadIdx.x + i * 128, o = piece % (2 * P);
		late[i] = piece >= NT * 2 * P ? 2 : o >= P; // 2: never
		operand[i] = c.operand + ((size_t)min(group0 + piece / (2 * P), groups - 1) * blocks + first) * G::kGroup + o * 16;
	}
	u32 x0 = (u32)__cvta_generic_to_shared(steps) + threadIdx.x * 16, x_to = x0;
	auto copy_x = [&]() {
#pragma unroll
		for (int i = 0; i < kShare; i++) {
			if (late[i] < min(2, steps_left))
				asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(x_to + i * 2048), "l"(operand[i]) : "memory");
			operand[i] += 2 * G::kGroup;
		}
		steps_left -= 2;
		x_to = x_to == x0 + (G::kStagesX - 1) * G::kStep ? x0 : x_to + G::kStep;
	};
#pragma unroll 1
	for (int i = 0; i < G::kStagesW - 1; i++) copy_w();
#pragma unroll 1
	for (int i = 0; i < G::kStagesX - 1; i++) {
		copy_x();
		commit();
	}

	float total[RT][NT][4] = {}, acc[RT][NT][4] = {};
	auto flush = [&]() {
#pragma unroll
		for (int i = 0; i < RT; i++)
#pragma unroll
			for (int j = 0; j < NT; j++)
#pragma unroll
				for (int e = 0; e < 4; e++) total[i][j][e] = __fadd_rn(total[i][j][e], acc[i][j][e]), acc[i][j][e] = 0.0f;
	};
	// Where x is narrow, all steps of a chunk are unrolled, and the scales of its blobs are kept.
	constexpr bool kWide = NT > 2;
	constexpr int kUnroll = kWide ? 1 : G::kSteps;
	typename Choose<kWide, typename T::Slim, typename T::Head>::Type head[RT];
	const u8 *w = ring, *x_step = steps; // what is read next
	int left = end - from; // blobs of the segment
	while (nblocks > 0) {
#pragma unroll kUnroll
		for (int b0 = 0; b0 < G::kSteps * 2; b0 += 2, nblocks -= 2) { // b0: K block of the chunk
			wait<G::kStagesX - 2>(); // then send for what takes the place of the step before
			__syncthreads();
			copy_x();
			if (b0 == 0) copy_w();
			commit();
			if (b0 == 0) {
#pragma unroll
				for (int i = 0; i < RT; i++) head[i] = {w + i * G::kChunk, lane};
			}
#pragma unroll
			for (int u = 0; u < 2; u++) {
				if (T::kBlocks == 1 && u >= nblocks) break;
				int b = T::kBlocks == 1 ? u : b0 + u;
				typename T::Frag f[RT];
#pragma unroll
				for (int i = 0; i < RT; i++) T::load(f[i], head[i], w + i * G::kChunk + b / T::kBlocks * T::kBytes, b % T::kBlocks, lane);
				const u8* x = x_step + u * G::kGroup;
#pragma unroll
				for (int j = 0; j < NT; j++, x += 2 * G::kGroup) {
					uint2 q = at<uint2>(x + lane * 8);
					Meta m;
					if (T::kFold < kFoldHalves) {
						float4 v = at<float4>(x + 256 + lane % 4 * 16);
						m = {{v.x, v.y}, {v.z, v.w}};
					} else {
						float2 v = at<float2>(x + 256 + lane % 4 * 8);
						float4 h = at<float4>(x + 288 + lane % 4 * 16);
						m = {{v.x, v.y}, {h.x, h.y, h.z, h.w}};
					}
#pragma unroll
					for (int i = 0; i < RT; i++) f[i].template multiply<2>(acc[i][j], q.x, q.y, m);
				}
				if (b % T::kBlocks == T::kBlocks - 1 && --left == 0) {
					flush();
					segment++;
					left = (segment + 1) * c.blobs / c.segments - segment * c.blobs / c.segments;
				}
			}
			x_step = x_step == steps + (G::kStagesX - 1) * G::kStep ? steps : x_step + G::kStep;
		}
		w = w == ring + (G::kStagesW - 1) * RT * G::kChunk ? ring : w + RT * G::kChunk;
	}
	wait<0>();

	if (cut) {
		__shared__ bool last;
		u32 tiles = gridDim.x * gridDim.y, mine = blockIdx.y * gridDim.x + blockIdx.x;
		float4* p = c.parts + (size_t)(mine * G::kWarps + warp) * (RT * NT * 32) + lane;
		size_t stride = (size_t)tiles * G::kWarps * (RT * NT * 32);
#pragma unroll
		for (int i = 0; i < RT * NT; i++) {
			float(&t)[4] = total[i / NT][i % NT];
			__stcg(p + blockIdx.z * stride + i * 32, make_float4(t[0], t[1], t[2], t[3]));
		}
		__threadfence();
		__syncthreads();
		if (threadIdx.x == 0) last = atomicInc(c.counters + mine, gridDim.z - 1) == gridDim.z - 1; // back to 0 after the last
		__syncthreads();
		if (!last) return;
		__threadfence();
#pragma unroll
		for (int i = 0; i < RT * NT; i++)
#pragma unroll
			for (int e = 0; e < 4; e++) total[i / NT][i % NT][e] = 0.0f;
		for (int z = 0; z < gridDim.z; z++, p += stride) {
#pragma unroll
			for (int i = 0; i < RT * NT; i++) {
				float4 v = __ldcg(p + i * 32);
				float(&t)[4] = total[i / NT][i % NT];
				t[0] = __fadd_rn(t[0], v.x), t[1] = __fadd_rn(t[1], v.y), t[2] = __fadd_rn(t[2], v.z), t[3] = __fadd_rn(t[3], v.w);
			}
		}
	}

	// The warp's sums go through shared memory, 32 floats a quad lane turned by 8, so that no two lanes meet in a bank and the rest is
	// a loop whose lanes have neighbours in y.
	__syncthreads();
	float* own = reinterpret_cast<float*>(shared) + warp * RT * NT * 128;
#pragma unroll
	for (int i = 0; i < RT * NT; i++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			int q = lane % 4;
			own[i * 128 + q * 32 + (e % 2 * 16 + e / 2 * 8 + lane / 4 + q * 8) % 32] = total[i / NT][i % NT][e];
		}
	__syncwarp();
	bool gated = c.flags & kGated;
	int half = lane % 16; // of a strip's rows
#pragma unroll 1
	for (int i = 0; i < RT * NT * 4; i++) {
		int strip = strip0 + i / (NT * 4), q = i % 4, row = (group0 + i / 4 % NT) * 8 + q * 2 + lane / 16;
		int col = gated ? strip * 8 + half : strip * 16 + half;
		if (row >= c.rows || strip >= c.strips || col >= c.out || (gated && half >= 8)) continue;
		const float* p = own + i * 32;
		finish(c, row, col, p[(lane + q * 8) % 32], p[(lane + 8 + q * 8) % 32]);
	}
}

// tile_blocks is how many blocks should find registers on a multiprocessor: as many as ptxas manages without spilling, on all targets.
constexpr int tile_blocks(int nt, int blocks, int fold) {
	return nt == 8 ? 2 : nt == 4 ? (fold >= kFoldHalves ? 2 : 3) : blocks > 1 ? 3 : 4;
}

#define INT_GEMV(T, NAME, ONE, SUFFIX)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(256, 2) int_gemv##SUFFIX##_##NAME(const u8* w, const float* x, const float* norm, float* y,        \
		const float* bias, int rows, int ldx, int ldy, int out, int strips, int blobs, int segments, int stages, float eps,            \
		u32 flags) {                                                                                                                   \
		gemv<T, ONE>(Linear{w, x, norm, nullptr, y, bias, nullptr, nullptr, rows, ldx, ldy, out, strips, blobs, segments, stages, eps, \
			flags});                                                                                                                   \
	}

#define INT_TILE(T, NAME, NT)                                                                                                          \
	extern "C" __global__ void __launch_bounds__(128, tile_blocks(NT, T::kBlocks, T::kFold)) int_tile##NT##_##NAME(const u8* w, const u8* operand, float* y,                  \
		const float* bias, float4* parts, u32* counters, int rows, int ldy, int out, int strips, int blobs, int segments, u32 flags) { \
		tile<T, NT>(Linear{w, nullptr, nullptr, operand, y, bias, parts, counters, rows, 0, ldy, out, strips, blobs, segments, 0,      \
			0.0f, flags});                                                                                                                   \
	}

// INT_LINEAR defines the kernels of a type.
#define INT_LINEAR(T, NAME) INT_GEMV(T, NAME, true, 1) INT_GEMV(T, NAME, false, ) INT_TILE(T, NAME, 1) INT_TILE(T, NAME, 2) INT_TILE(T, NAME, 4) INT_TILE(T, NAME, 8)
