// The other tiers of linear_float.cuh, templates of a type of weights W.
#pragma once
#include "linear_float.cuh"

// direct multiplies up to 8 rows by NT tiles a block, which has 32 threads for each segment, and 256 or 512.
//
// A warp brings x into operand form in batches of 8 pairs of a row and a block of K, one for each quad of lanes: of one or two
// rows 4 blocks at a time, of more 2, of more than four 1. They pass through shared memory, where each lane finds what its column needs.
template <class W, int NT>
__device__ __forceinline__ void direct(const Linear& c) {
	typedef typename W::T T;
	constexpr int S = W::K / 16, P = S / 2;
	union Space {
		uint4 x[16][2 * P][32];  // of each warp, [run of 32 of K][hi, lo][pair][lane of the quad]
		float part[16 * NT * kPartTile];
	};
	__shared__ Space space;
	__shared__ float4 red[2][4];
	__shared__ float unscale[8];
	__shared__ RowForm forms[8];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4, r = lane / 4;
	int tile0 = blockIdx.x * NT, from = warp * c.seg, to = min(from + c.seg, c.blocks);
	auto place = [&](int i) { return typename W::Place(c, tile0 + i, lane); };
	W w[NT], ahead[NT] = {};
#pragma unroll
	for (int i = 0; i < NT; i++) {
		if (from < to && tile0 + i < c.tiles) ahead[i].load(place(i), from), ahead[i].load_scale(c, place(i), from);
	}
	if (c.norm || T::kScaled) { // each group of 256 threads takes a row at a time
		int groups = blockDim.x / 256, g = threadIdx.x / 256;
		for (int first = 0; first < c.rows; first += groups) {
			float back;
			RowForm f = row_form<T, W::kGrouped>(c, c.x + (size_t)(first + g) * c.ldx, threadIdx.x % 256, first + g < c.rows ? c.k : 0, red[g], back);
			if (threadIdx.x % 256 == 0 && first + g < 8) forms[first + g] = f, unscale[first + g] = back;
			__syncthreads();
		}
	}
	int shift = c.rows > 4 ? 3 : c.rows > 2 ? 2 : 1, batch = 8 >> shift; // blocks of a batch
	int mine = r & ((1 << shift) - 1), block = r >> shift;                        // the lane's row and block in a batch
	bool live = mine < c.rows, normed = c.norm != nullptr, exact = !(c.flags & kFast);
	RowForm f = {1.0f, 1.0f};
	if (live && (normed || T::kScaled)) f = forms[mine];
	const float* row = c.x + (size_t)mine * c.ldx;
	float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f), x[S], n[S];
	auto fetch = [&](int b) {
#pragma unroll
		for (int s = 0; s < S; s++) {
			int k = (b + block) * W::K + s * 16 + t * 4;
			bool there = live && b + block < to && k < c.k;
			x[s] = there ? row4(row, k, c.k) : zero;
			n[s] = there && normed ? load4(c.norm, k, c.k, true) : zero;
		}
	};
	uint4(&own)[2 * P][32] = space.x[warp];
	float sum[NT][4] = {}, scaled[NT][4] = {};
	if (from < to) fetch(from);
#pragma unroll 2
	for (int b = from; b < to; b++) {
		int j = (b - from) & (batch - 1);
		if (j == 0) {
			__syncwarp(); // the batch before has been read
#pragma unroll
			for (int p = 0; p < P; p++) {
				u32 h0[2], h1[2], l0[2], l1[2];
				to_operand<T>(x[2 * p], n[2 * p], f, normed, h0, l0);
				to_operand<T>(x[2 * p + 1], n[2 * p + 1], f, normed, h1, l1);
				own[2 * p][lane] = make_uint4(h0[0], h0[1], h1[0], h1[1]);
				if (exact) own[2 * p + 1][lane] = make_uint4(l0[0], l0[1], l1[0], l1[1]);
			}
			__syncwarp();
			if (b + batch < to) fetch(b + batch);
		}
#pragma unroll
		for (int i = 0; i < NT; i++) {
			w[i] = ahead[i];
			if (b + 1 < to && tile0 + i < c.tiles) ahead[i].load(place(i), b + 1), ahead[i].load_scale(c, place(i), b + 1);
		}
		int at = ((j << shift) + mine) * 4 + t; // columns past the rows repeat them; nothing reads their sums
#pragma unroll
		for (int p = 0; p < P; p++) {
			uint4 hi = own[2 * p][at], lo;
			if (exact) lo = own[2 * p + 1][at];
#pragma unroll
			for (int i = 0; i < NT; i++) {
				uint4 a[2];
				w[i].fragments(p, a);
				T::mma(sum[i], a[0], hi.x, hi.y);
				if (exact) T::mma(sum[i], a[0], lo.x, lo.y);
				T::mma(sum[i], a[1], hi.z, hi.w);
				if (exact) T::mma(sum[i], a[1], lo.z, lo.w);
				if (ends<W>(c, b * P + p, to * P)) w[i].fold(p, sum[i], scaled[i]), clear(sum[i]);
			}
		}
	}
	__syncthreads(); // x gives way to the sums
	if (from < to) {
#pragma unroll
		for (int i = 0; i < NT; i++) store_part(space.part + (warp * NT + i) * kPartTile, W::kGrouped ? scaled[i] : sum[i], lane);
	}
	__syncthreads();
	reduce<T>(c, space.part, (c.blocks + c.seg - 1) / c.seg, NT, tile0, 0, unscale);
}

// skinny multiplies up to 8·NB rows; warps of a block are [segment][across]: `across` warps that share x have NT tiles each.
template <class W, int NB, int NT>
__device__ __forceinline__ void skinny(const Linear& c, int across) {
	typedef typename W::T T;
	constexpr int P = W::K / 32;
	__shared__ float part[16 * NT * kPartTile];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, segment = warp / across;
	int width = across * NT, own = warp % across * NT, tile0 = blockIdx.x * width;
	int from = segment * c.seg, to = min(from + c.seg, c.blocks);
	bool exact = !(c.flags & kFast);
	int planes = exact ? 2 : 1, columns = (c.rows + 7) / 8;
	size_t column = (size_t)c.blocks * P * planes * 32; // uint4 of a tile of x
	float sum[NB][NT][4] = {}, scaled[NB][NT][4] = {};
	auto place = [&](int i) { return typename W::Place(c, tile0 + own + i, lane); };
	W w[NT], ahead[NT] = {};
#pragma unroll
	for (int i = 0; i < NT; i++) {
		if (from < to && tile0 + own + i < c.tiles) ahead[i].load(place(i), from), ahead[i].load_scale(c, place(i), from);
	}
	for (int b = from; b < to; b++) {
#pragma unroll
		for (int i = 0; i < NT; i++) {
			w[i] = ahead[i];
			if (b + 1 < to && tile0 + own + i < c.tiles) ahead[i].load(place(i), b + 1), ahead[i].load_scale(c, place(i), b + 1);
		}
#pragma unroll
		for (int p = 0; p < P; p++) {
			uint4 a[NT][2];
#pragma unroll
			for (int i = 0; i < NT; i++) w[i].fragments(p, a[i]);
			const uint4* x = c.operand + ((size_t)b * P + p) * planes * 32 + lane;
#pragma unroll
			for (int j = 0; j < NB; j++) {
				if (j >= columns) break;
				uint4 hi = __ldg(x + j * column), lo;
				if (exact) lo = __ldg(x + j * column + 32);
#pragma unroll
				for (int i = 0; i < NT; i++) {
					T::mma(sum[j][i], a[i][0], hi.x, hi.y);
					if (exact) T::mma(sum[j][i], a[i][0], lo.x, lo.y);
					T::mma(sum[j][i], a[i][1], hi.z, hi.w);
					if (exact) T::mma(sum[j][i], a[i][1], lo.z, lo.w);
				}
			}
			if (ends<W>(c, b * P + p, to * P)) {
#pragma unroll
				for (int j = 0; j < NB; j++)
#pragma unroll
					for (int i = 0; i < NT; i++) w[i].fold(p, sum[j][i], scaled[j][i]), clear(sum[j][i]);
			}
		}
	}
	int segments = (c.blocks + c.seg - 1) / c.seg;
#pragma unroll 1
	for (int j = 0; j < columns; j++) {
#pragma unroll
		for (int n = 0; n < NB; n++) { // registers have no index
			if (n != j || from >= to) continue;
#pragma unroll
			for (int i = 0; i < NT; i++) store_part(part + (segment * width + own + i) * kPartTile, W::kGrouped ? scaled[n][i] : sum[n][i], lane);
		}
		__syncthreads();
		reduce<T>(c, part, segments, width, tile0, 8 * j, c.unscale + 8 * j);
		__syncthreads();
	}
}

__device__ __forceinline__ void cp_async(uint4* to, const uint4* from, bool live) {
	u32 at = (u32)__cvta_generic_to_shared(to);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(live ? 16 : 0) : "memory");
}

// gemm multiplies 64 rows (block x) by 128 outputs (block y) in 256 threads: warps are 4 × 2, each 32 outputs × 32 rows.
template <class W>
__device__ __forceinline__ void gemm(const Linear& c) {
	typedef typename W::T T;
	constexpr int P = W::K / 32, kA = 8 * W::kVectors, kB = 8 * P * 64; // uint4 of a stage
	__shared__ uint4 stages[W::kStages][kA + kB];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wn = warp % 4, wr = warp / 4;
	int tile0 = blockIdx.y * 8, column0 = blockIdx.x * 8, columns = (c.rows + 7) / 8;
	bool exact = !(c.flags & kFast);
	int planes = exact ? 2 : 1, xshift = (P == 2 ? 6 : 5) + exact, xv = 1 << xshift; // uint4 of a tile's block of x
	// What this thread copies of a stage: where its pieces of block 0 are, and which of them there are.
	constexpr int NA = kA / 256, NB = kB / 256;
	const uint4* source[NA + NB];
	u32 there = 0;
#pragma unroll
	for (int q = 0; q < NA; q++) {
		int i = threadIdx.x + q * 256, tile = tile0 + i / W::kVectors;
		bool live = tile < c.tiles;
		source[q] = c.w + (size_t)(live ? tile : 0) * c.blocks * W::kVectors + i % W::kVectors;
		there |= (u32)live << q;
	}
#pragma unroll
	for (int q = 0; q < NB; q++) {
		int i = threadIdx.x + q * 256, column = column0 + (i >> xshift);
		bool live = column < columns;
		source[NA + q] = c.operand + ((size_t)(live ? column : 0) * c.blocks << xshift) + (i & (xv - 1));
		there |= (u32)live << (NA + q);
	}
	auto issue = [&](int b) {
		uint4* to = stages[b % W::kStages] + threadIdx.x;
		if (b < c.blocks) {
#pragma unroll
			for (int q = 0; q < NA; q++) cp_async(to + q * 256, source[q] + (size_t)b * W::kVectors, there >> q & 1);
#pragma unroll
			for (int q = 0; q < NB; q++) {
				if (q * 256 + (int)threadIdx.x < 8 << xshift) cp_async(to + kA + q * 256, source[NA + q] + ((size_t)b << xshift), there >> (NA + q) & 1);
			}
		}
		asm volatile("cp.async.commit_group;" ::: "memory");
	};
	for (int b = 0; b < W::kStages - 1; b++) issue(b);
	float total[2][4][4] = {}, scaled[2][4][4] = {}, sum[2][4][4] = {};
	for (int b = 0, left = c.seg; b < c.blocks; b++) {
		W w[2] = {};
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (tile0 + wn * 2 + i < c.tiles) w[i].load_scale(c, typename W::Place(c, tile0 + wn * 2 + i, lane), b);
		}
		asm volatile("cp.async.wait_group %0;" :: "n"(W::kStages - 2) : "memory");
		__syncthreads();
		issue(b + W::kStages - 1);
		const uint4* stage = stages[b % W::kStages];
#pragma unroll
		for (int i = 0; i < 2; i++) w[i].load_shared(stage + (wn * 2 + i) * W::kVectors, lane);
		const uint4* x = stage + kA + wr * 4 * xv + lane;
		bool segment_ends = --left == 0 || b + 1 == c.blocks;
#pragma unroll
		for (int p = 0; p < P; p++) {
			uint4 a[2][2];
#pragma unroll
			for (int i = 0; i < 2; i++) w[i].fragments(p, a[i]);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				uint4 hi = x[j * xv + p * planes * 32], lo;
				if (exact) lo = x[j * xv + p * planes * 32 + 32];
#pragma unroll
				for (int i = 0; i < 2; i++) {
					T::mma(sum[i][j], a[i][0], hi.x, hi.y);
					if (exact) T::mma(sum[i][j], a[i][0], lo.x, lo.y);
					T::mma(sum[i][j], a[i][1], hi.z, hi.w);
					if (exact) T::mma(sum[i][j], a[i][1], lo.z, lo.w);
				}
			}
			if (ends<W>(c, b * P + p, segment_ends ? (b + 1) * P : c.blocks * P)) {
#pragma unroll
				for (int i = 0; i < 2; i++)
#pragma unroll
					for (int j = 0; j < 4; j++) w[i].fold(p, sum[i][j], scaled[i][j]), clear(sum[i][j]);
			}
		}
		if (segment_ends) {
			left = c.seg;
#pragma unroll
			for (int i = 0; i < 2; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) {
					float(&s)[4] = W::kGrouped ? scaled[i][j] : sum[i][j];
#pragma unroll
					for (int e = 0; e < 4; e++) total[i][j][e] += s[e];
					clear(s);
				}
		}
	}
	// The sums leave through shared memory, so that the code that finishes them is there once.
	static_assert(sizeof(stages) >= 64 * kPartTile * sizeof(float), "room for the sums");
	float* part = reinterpret_cast<float*>(stages);
	__syncthreads();
#pragma unroll
	for (int j = 0; j < 4; j++) {
#pragma unroll
		for (int i = 0; i < 2; i++) store_part(part + ((wr * 4 + j) * 8 + wn * 2 + i) * kPartTile, total[i][j], lane);
	}
	__syncthreads();
#pragma unroll 1
	for (int j = 0; j < min(8, columns - column0); j++)
		reduce<T>(c, part + j * 8 * kPartTile, 1, 8, tile0, (column0 + j) * 8, c.unscale + (column0 + j) * 8);
}
