// Whole blocks of a cache: copied and zeroed.
#include <stdint.h>

namespace {
constexpr int kThreads = 256, kEach = 4; // pieces of 16 bytes that a thread takes
}

// Block (x, y) copies part x of pair y: (from, to), block numbers; a negative one is padding. pieces: of a block of the cache.
extern "C" __global__ void __launch_bounds__(kThreads) blocks_copy(uint4* cache, int64_t pieces, const int2* pairs) {
	int2 pair = pairs[blockIdx.y];
	if (pair.x < 0 || pair.y < 0) return;
	const uint4* from = cache + pair.x * pieces;
	uint4* to = cache + pair.y * pieces;
	int64_t first = (int64_t)blockIdx.x * (kThreads * kEach) + threadIdx.x;
	uint4 v[kEach];
#pragma unroll
	for (int i = 0; i < kEach; i++)
		if (first + i * kThreads < pieces) v[i] = from[first + i * kThreads];
#pragma unroll
	for (int i = 0; i < kEach; i++)
		if (first + i * kThreads < pieces) to[first + i * kThreads] = v[i];
}

// Block (x, y) zeroes part x of block list[y]; a negative number is padding.
extern "C" __global__ void __launch_bounds__(kThreads) blocks_zero(uint4* cache, int64_t pieces, const int* list) {
	int block = list[blockIdx.y];
	if (block < 0) return;
	uint4* to = cache + block * pieces;
	int64_t first = (int64_t)blockIdx.x * (kThreads * kEach) + threadIdx.x;
#pragma unroll
	for (int i = 0; i < kEach; i++)
		if (first + i * kThreads < pieces) to[first + i * kThreads] = make_uint4(0, 0, 0, 0);
}
