// The tier of linear_float.cuh for one row, whose speed is that of decoding: whatever is done beside reading W once is done once.
#pragma once
#include "linear_float.cuh"

// one_row multiplies one row, of a multiple of four values, by NT tiles a block, which has a warp for each segment, and eight or
// more. A warp brings the x of its segment into operand form piece by piece, in shared memory of its own. All columns of operand B
// are this row; only the first one's sums are kept.
template <class W, int NT>
__device__ __forceinline__ void one_row(const Linear& c) {
	typedef typename W::T T;
	constexpr int P = W::K / 32, kPiece = 256, kBlocks = kPiece / W::K, kPlane = kPiece / 8;
	__shared__ uint4 space[16][2][kPlane]; // of each warp: hi, lo: [run of 32 of K][lane of a quad], both halves of the run
	__shared__ float part[16 * NT * 16];   // [segment][tile][output]
	__shared__ float4 red[4];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int tile0 = blockIdx.x * NT, from = warp * c.seg, to = min(from + c.seg, c.blocks), end = to * W::K, live = min(end, c.k);
	bool exact = !(c.flags & kFast);
	typename W::Place place[NT];
#pragma unroll
	for (int i = 0; i < NT; i++) place[i] = typename W::Place(c, min(tile0 + i, c.tiles - 1), lane); // nothing reads the sums of one past the last
	W w[2][NT]; // of even and odd blocks
	auto load = [&](W(&w)[NT], int b) {
#pragma unroll
		for (int i = 0; i < NT; i++) w[i].load(place[i], b), w[i].load_scale(c, place[i], b);
	};
	if (from < to) load(w[0], from);
	if (from + 1 < to) load(w[1], from + 1);
	float4 x[2], norm[2];
	int own_k = from * W::K + lane * 4; // where this lane's values of the next piece begin
	auto fetch = [&] {
#pragma unroll
		for (int j = 0; j < 2; j++) {
			int k = own_k + j * 128;
			if (k >= live) break;
			x[j] = *reinterpret_cast<const float4*>(c.x + k);
			if (c.norm) norm[j] = *reinterpret_cast<const float4*>(c.norm + k);
		}
	};
	fetch();
	float unscale;
	RowForm f = row_form<T, true>(c, c.x, threadIdx.x, c.k, red, unscale);

	uint2* own = reinterpret_cast<uint2*>(space[warp]) + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
	float sum[NT][4] = {}, scaled[NT][4] = {};
	for (int piece = from; piece < to; piece += kBlocks) {
		__syncwarp(); // the piece before has been read
#pragma unroll
		for (int j = 0; j < 2; j++) {
			int k = own_k + j * 128;
			if (k < live) {
				u32 hi[2], lo[2];
				to_operand<T>(x[j], norm[j], f, c.norm != nullptr, hi, lo);
				own[j * 32] = make_uint2(hi[0], hi[1]);
				if (exact) own[j * 32 + 2 * kPlane] = make_uint2(lo[0], lo[1]);
			} else if (k < end) { // K ends inside of a block
				own[j * 32] = own[j * 32 + 2 * kPlane] = make_uint2(0, 0);
			}
		}
		__syncwarp();
		own_k += kPiece;
		fetch();
		const uint4* operand = space[warp][0] + lane % 4;
		int last = min(piece + kBlocks, to);
		for (int pair = piece; pair < last; pair += 2, operand += 2 * P * 4) {
#pragma unroll
			for (int u = 0; u < 2; u++) {
				int b = pair + u;
				if (b >= last) break;
#pragma unroll
				for (int p = 0; p < P; p++) {
					uint4 hi = operand[(u * P + p) * 4], lo;
					if (exact) lo = operand[(u * P + p) * 4 + kPlane];
#pragma unroll
					for (int i = 0; i < NT; i++) {
						uint4 a[2];
						w[u][i].fragments(p, a);
						T::mma(sum[i], a[0], hi.x, hi.y);
						if (exact) T::mma(sum[i], a[0], lo.x, lo.y);
						T::mma(sum[i], a[1], hi.z, hi.w);
						if (exact) T::mma(sum[i], a[1], lo.z, lo.w);
					}
					if ((p + 1 == P || W::kFine) && ends<W>(c, b * P + p, to * P)) {
#pragma unroll
						for (int i = 0; i < NT; i++) w[u][i].fold(p, sum[i], scaled[i]), clear(sum[i]);
					}
				}
				if (b + 2 < to) load(w[u], b + 2);
			}
		}
	}
	if (from < to && lane % 4 == 0) {
#pragma unroll
		for (int i = 0; i < NT; i++) {
			float* p = part + (warp * NT + i) * 16 + lane / 4;
			p[0] = W::kGrouped ? scaled[i][0] : sum[i][0];
			p[8] = W::kGrouped ? scaled[i][2] : sum[i][2];
		}
	}
	__syncthreads();
	bool gated = c.flags & kGated;
	int step = gated ? 2 : 1, tile = threadIdx.x / 16 * step, col = (tile0 + tile) / step * 16 + threadIdx.x % 16;
	if (tile >= NT || col >= c.out) return;
	const float* p = part + tile * 16 + threadIdx.x % 16;
	float v = 0.0f, up = 0.0f;
	for (int segments = (c.blocks + c.seg - 1) / c.seg; segments > 0; segments--, p += NT * 16) {
		v += p[0];
		if (gated) up += p[16];
	}
	if (T::kScaled) v = __fmul_rn(v, unscale), up = __fmul_rn(up, unscale);
	finish(c, 0, col, v, up);
}
