// The linears of GGUF's block types: y = x·Wᵀ with x in int8 (int_quantize.cuh) and W as int_weights.cuh says. Operand A of the mma is
// W, a strip of 16 rows; operand B is x, a group of 8 rows.
//
// K is cut into segments by the shape of W: segment i of n begins at blob i·blobs/n. Within a segment a sum starts at 0 and takes the
// K blocks in order; the result is ((0 + s0) + s1) + …. Both kernels do this, so that a row has the same bits in either:
//
//	gemv  a few rows, x as float32 (int_gemv.cuh)
//	tile  x in operand form, from int_quantize (int_tile.cuh)
//
// W goes through a ring of cp.async stages of each warp, in 16-byte pieces of consecutive lanes, read back by fragment order.
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
	float eps;
	u32 flags;
	int stages;        // of gemv's rings
	int block, grid;   // gemv: the block takes strips block, block + grid, …
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
