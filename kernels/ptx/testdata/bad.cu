// Kernels that each have one fault, which the interpreter must report.
#include <cuda_bf16.h>
#include <stdint.h>

extern "C" {

__global__ void past_end(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = x[i]; // one too many
}

__global__ void shared_past_end(float *y) {
    __shared__ float s[32];
    s[threadIdx.x + 1] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

__global__ void unwritten_shared(float *y) {
    __shared__ float s[64];
    if (threadIdx.x != 3) s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

__global__ void no_barrier(int *y) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void no_second_barrier(int *y) {
    __shared__ int s[64];
    int v = 0;
    for (int i = 0; i < 3; i++) {
        s[threadIdx.x] = threadIdx.x + i;
        __syncthreads();
        v += s[63 - threadIdx.x];
    }
    y[threadIdx.x] = v;
}

__global__ void no_warp_barrier(int *y) {
    __shared__ volatile int s[32];
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[31 - threadIdx.x];
}

__global__ void blocks_collide(int *y) { y[threadIdx.x] = blockIdx.x; }

__global__ void block_reads_other(int *y, int *z) {
    y[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
    z[blockIdx.x * 32 + threadIdx.x] = y[threadIdx.x];
}

__global__ void block_overwrites_read(int *y, int *z) {
    z[blockIdx.x * 32 + threadIdx.x] = y[threadIdx.x];
    if (blockIdx.x == gridDim.x - 1) y[threadIdx.x] = 1;
}

__global__ void block_overwrites_one(int *y, int *z) {
    if (blockIdx.x == 0) z[threadIdx.x] = y[threadIdx.x];
    else y[threadIdx.x] = 1;
}

// The last block reads what others wrote without a fence.
__global__ void no_fence(const int *x, int *partial, unsigned *ticket, int *out) {
    __shared__ unsigned t;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = x[blockIdx.x];
        t = atomicAdd(ticket, 1);
    }
    __syncthreads();
    if (t == gridDim.x - 1 && threadIdx.x == 0) {
        int s = 0;
        for (int b = 0; b < gridDim.x; b++) s += partial[b];
        *out = s;
    }
}

// All threads write, but only one fences, with no barrier before.
__global__ void fence_before_barrier(const int *x, int *partial, unsigned *ticket, int *out) {
    __shared__ unsigned t;
    partial[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    if (threadIdx.x == 0) {
        __threadfence();
        t = atomicAdd(ticket, 1);
    }
    __syncthreads();
    if (t != gridDim.x - 1) return;
    int s = 0;
    for (int b = 0; b < gridDim.x; b++) s += partial[b * 64 + threadIdx.x];
    out[threadIdx.x] = s;
}

__global__ void atomic_and_plain(unsigned *x) {
    if (blockIdx.x == 0) atomicAdd(x, 1);
    else *x = 5;
}

__global__ void half_barrier(int *y) {
    if (threadIdx.x < 16) {
        asm volatile("bar.sync 0;");
        y[threadIdx.x] = 1;
    } else {
        y[threadIdx.x] = 2;
        asm volatile("bar.sync 0;");
    }
}

__global__ void stuck_barrier(int *y) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
    y[threadIdx.x] = 1;
}

__global__ void half_shuffle(int *y) {
    int v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffff, v, 1);
    y[threadIdx.x] = v;
}

__global__ void shuffle_outside_mask(int *y) { y[threadIdx.x] = __shfl_xor_sync(0x0000ffff, (int)threadIdx.x, 1); }

__global__ void shuffle_from_absent(int *y) {
    if (threadIdx.x < 16) y[threadIdx.x] = __shfl_down_sync(0xffff, (int)threadIdx.x, 4);
}

__global__ void misaligned(const char *x, float4 *y, int off) { y[threadIdx.x] = *(const float4 *)(x + off + 16 * threadIdx.x); }


__device__ __forceinline__ uint32_t smem(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__global__ void async_no_wait(const float *x, float *y) {
    __shared__ __align__(16) float s[128];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&s[threadIdx.x * 4])), "l"(x + threadIdx.x * 4) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int i = 0; i < 4; i++) y[threadIdx.x * 4 + i] = s[threadIdx.x * 4 + i];
}

__global__ void async_waits_too_few(const float *x, float *y) {
    __shared__ __align__(16) float s[2][128];
    for (int g = 0; g < 2; g++) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&s[g][threadIdx.x * 4])), "l"(x + g * 128 + threadIdx.x * 4) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 4; i++) y[threadIdx.x * 4 + i] = s[1][127 - threadIdx.x * 4 - i];
}

// Waits, but reads another thread's copy with no barrier.
__global__ void async_no_barrier(const float *x, float *y) {
    __shared__ __align__(16) float s[256];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&s[threadIdx.x * 4])), "l"(x + threadIdx.x * 4) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x];
}

__global__ void async_misaligned(const float *x, float *y) {
    __shared__ __align__(16) float s[256];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&s[threadIdx.x * 4 + 1])), "l"(x + threadIdx.x * 4) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x * 4 + 1];
}

__global__ void waits_forever(volatile int *turn) {
    while (*turn == 0) {}
}

__global__ void bank_conflicts(float *y) {
    __shared__ float s[32 * 33];
    int lane = threadIdx.x;
    for (int i = 0; i < 32; i++) s[i * 32 + lane] = i;
    __syncthreads();
    float v = 0;
    for (int i = 0; i < 32; i++) v += s[lane * 32 + i];
    for (int i = 0; i < 32; i++) v += s[(lane * 33 + i) % 1024];
    y[lane] = v;
}

__global__ void uncoalesced(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x * 8]; }
}
