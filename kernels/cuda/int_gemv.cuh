// The integer linear of a few rows, x as float32: it is normed and rounded into shared memory, once a block. A block has a warp for
// each segment and goes through strips block, + grid, …; the warps' sums meet in shared memory.
#pragma once
#include "int_linear.cuh"
#include "post_norm.cuh"

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
	int ahead = c.block, rest = count;
	const u8* w = c.w + ((size_t)ahead * c.blobs + from) * T::kBytes + lane * 16;
	size_t wrap = (size_t)c.grid * c.blobs * T::kBytes - (count - 1) / T::kChunk * kSlot;
	u32 to0 = (u32)__cvta_generic_to_shared(ring) + lane * 16, to = to0;
	auto copy = [&]() {
		if (ahead < c.strips) {
			copy_async<kSlot / 16>(to, w, min(T::kChunk, rest) * kPieces, lane);
			rest -= T::kChunk;
			if (rest > 0) w += kSlot;
			else w += wrap, rest = count, ahead += c.grid;
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
	for (int strip = c.block; strip < c.strips; strip += c.grid, odd = !odd) {
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

#define INT_GEMV(T, NAME, ONE, SUFFIX)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(256, 2) int_gemv##SUFFIX##_##NAME(const u8* w, const float* x, const float* norm,         \
		float* y, const float* bias, int rows, int ldx, int ldy, int out, int strips, int blobs, int segments, int stages, float eps,  \
		u32 flags, POST_NORM) {                                                                                                        \
		gemv<T, ONE>(Linear{w, x, norm, nullptr, y, bias, nullptr, nullptr, rows, ldx, ldy, out, strips, blobs, segments, eps, flags,  \
			stages, (int)blockIdx.x, (int)gridDim.x});                                                                                  \
		post_norm(MAKE_POST_NORM, y, ldy, rows, out);                                                                                  \
	}
