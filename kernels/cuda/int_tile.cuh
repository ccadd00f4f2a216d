// The integer linear of many rows: x comes in operand form, from int_quantize. A block has 128 rows of W, two strips a warp, and 8·NT
// rows of x. It takes all segments, or one (gridDim.z of them) and the last block of a tile to arrive adds the sums.
#pragma once
#include "int_linear.cuh"

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

#define INT_TILE(T, NAME, NT)                                                                                                          \
	extern "C" __global__ void __launch_bounds__(128, tile_blocks(NT, T::kBlocks, T::kFold)) int_tile##NT##_##NAME(const u8* w,            \
		const u8* operand, float* y, const float* bias, float4* parts, u32* counters, int rows, int ldy, int out, int strips,          \
		int blobs, int segments, u32 flags) {                                                                                          \
		tile<T, NT>(Linear{w, nullptr, nullptr, operand, y, bias, parts, counters, rows, 0, ldy, out, strips, blobs, segments, 0.0f,   \
			flags});                                                                                                                    \
	}
