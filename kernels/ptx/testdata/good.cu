// Kernels without a fault, for the interpreter's own tests. Compile as the
// shipped ones are: kernels/cuda/compile takes the flags; see ptx_test.go.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" {

__global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

// Sum of n floats into out[0] by blocks of 128 threads; the last block to come
// adds the blocks' sums in order.
__global__ void __launch_bounds__(128) last_block_sum(const float *x, int n, float *partial, unsigned *ticket, float *out) {
    __shared__ float warp_sum[4];
    __shared__ bool last;
    float s = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 128 * gridDim.x) s += x[i];
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
    if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = warp_sum[0] + warp_sum[1] + warp_sum[2] + warp_sum[3];
        __threadfence();
        last = atomicAdd(ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float t = 0;
        for (int i = 0; i < gridDim.x; i++) t += partial[i];
        out[0] = t;
        *ticket = 0;
    }
}

// Every thread writes, fences, and one of them takes the ticket.
__global__ void __launch_bounds__(64) all_fence_sum(const int *x, int *partial, unsigned *ticket, int *out) {
    __shared__ unsigned t;
    partial[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x] * 2;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) t = atomicAdd(ticket, 1);
    __syncthreads();
    if (t != gridDim.x - 1) return;
    __threadfence();
    int s = 0;
    for (int b = 0; b < gridDim.x; b++) s += partial[b * 64 + threadIdx.x];
    out[threadIdx.x] = s;
}

// Blocks pass a value on, each waiting for the one before.
__global__ void chain(int *value, volatile int *turn) {
    if (threadIdx.x == 0) {
        while (*turn != blockIdx.x) __nanosleep(20);
        __threadfence();
        *value = *value * 3 + 1;
        __threadfence();
        *turn = blockIdx.x + 1;
    }
}

__device__ __forceinline__ uint32_t smem(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp16(void *dst, const void *src, bool on) {
    int n = on ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem(dst)), "l"(src), "r"(n));
}

// C[m][n] = A[m][k]·B[n][k]ᵀ, bf16 in, float out; tiles of 64×64, k by 32 in
// three stages. k is a multiple of 32, m and n are any.
__global__ void __launch_bounds__(128) gemm(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C, int M, int N, int K) {
    extern __shared__ __align__(128) unsigned char raw[];
    auto As = (__nv_bfloat16(*)[64 * 32])raw;
    auto Bs = As + 3;
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    auto place = [](int row, int chunk) { return row * 32 + ((chunk ^ (row >> 1 & 3)) * 8); };
    auto stage = [&](int s, int k0) {
        for (int i = tid; i < 256; i += 128) {
            int row = i / 4, c = i % 4;
            bool a = m0 + row < M, b = n0 + row < N;
            cp16(&As[s][place(row, c)], a ? &A[(size_t)(m0 + row) * K + k0 + c * 8] : A, a);
            cp16(&Bs[s][place(row, c)], b ? &B[(size_t)(n0 + row) * K + k0 + c * 8] : B, b);
        }
    };
    float acc[2][4][4] = {};
    int steps = K / 32;
    for (int s = 0; s < 2; s++) {
        if (s < steps) stage(s, s * 32);
        asm volatile("cp.async.commit_group;");
    }
    int wm = (warp / 2) * 32, wn = (warp % 2) * 32;
    for (int t = 0; t < steps; t++) {
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        if (t + 2 < steps) stage((t + 2) % 3, (t + 2) * 32);
        asm volatile("cp.async.commit_group;");
        int s = t % 3;
        for (int kk = 0; kk < 2; kk++) {
            uint32_t a[2][4], b[2][4];
            for (int i = 0; i < 2; i++) {
                uint32_t p = smem(&As[s][place(wm + i * 16 + lane % 16, kk * 2 + lane / 16)]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(p));
                p = smem(&Bs[s][place(wn + i * 16 + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2)]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[i][0]), "=r"(b[i][1]), "=r"(b[i][2]), "=r"(b[i][3]) : "r"(p));
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
        }
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int r = 0; r < 4; r++) {
                int row = m0 + wm + i * 16 + lane / 4 + (r / 2) * 8, col = n0 + wn + j * 8 + lane % 4 * 2 + r % 2;
                if (row < M && col < N) C[(size_t)row * N + col] = acc[i][j][r];
            }
}

// y = W·x, bf16 weights, one warp a row.
__global__ void __launch_bounds__(128) gemv(const __nv_bfloat16 *W, const float *x, float *y, int rows, int k) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const uint4 *w = (const uint4 *)(W + (size_t)row * k);
    float s = 0;
    for (int i = lane; i < k / 8; i += 32) {
        uint4 v = w[i];
        const __nv_bfloat162 *h = (const __nv_bfloat162 *)&v;
        for (int j = 0; j < 4; j++) {
            float2 f = __bfloat1622float2(h[j]);
            float2 u = ((const float2 *)x)[i * 4 + j];
            s = fmaf(f.x, u.x, s);
            s = fmaf(f.y, u.y, s);
        }
    }
    for (int o = 16; o > 0; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);
    if (lane == 0) y[row] = s;
}

// Lanes take different ways and meet again.
__global__ void diverge(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], s = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        s++;
    }
    switch (s % 5) {
    case 0: s += 100; break;
    case 1: s *= 7; break;
    case 2: s -= 3; break;
    case 3: s ^= 0x55; break;
    default: s = -s;
    }
    y[i] = s;
}

__global__ void histogram(const unsigned char *x, int n, unsigned *out) {
    __shared__ unsigned h[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) h[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (h[i]) atomicAdd(&out[i], h[i]);
}

// Softmax of rows of up to 1024 by blocks of 128, through local arrays and expf.
__global__ void __launch_bounds__(128) softmax(const float *x, float *y, int n) {
    __shared__ float red[4];
    const float *r = x + (size_t)blockIdx.x * n;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n; i += 128) m = fmaxf(m, r[i]);
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(fmaxf(red[0], red[1]), fmaxf(red[2], red[3]));
    __syncthreads();
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 128) s += expf(r[i] - m);
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = s;
    __syncthreads();
    s = red[0] + red[1] + red[2] + red[3];
    for (int i = threadIdx.x; i < n; i += 128) y[(size_t)blockIdx.x * n + i] = expf(r[i] - m) / s;
}

// A function that stays a function, local memory and a switch table.
__device__ __noinline__ float helper(float a, int k, float *tmp) {
    for (int i = 0; i < 4; i++) tmp[(i + k) % 4] = a * i;
    return tmp[k % 4] + sinf(a * 100000.0f);
}

__constant__ float table[4] = {1.5f, 2.5f, -3.0f, 4.25f};

__global__ void calls(const float *x, float *y, int n) {
    int i = threadIdx.x;
    float tmp[4];
    if (i < n) y[i] = helper(x[i], i, tmp) + tmp[(i + 1) % 4] + table[i % 4];
}

// Warp barriers order lanes.
__global__ void warp_exchange(int *out) {
    __shared__ int s[32];
    int lane = threadIdx.x;
    s[lane] = lane * 5;
    __syncwarp();
    int v = s[31 - lane];
    __syncwarp();
    s[lane] = v + 1;
    __syncwarp();
    out[lane] = s[lane ^ 1];
}

__global__ void votes(const int *x, unsigned *out) {
    int lane = threadIdx.x;
    unsigned b = __ballot_sync(~0u, x[lane] > 10);
    unsigned a = __any_sync(~0u, x[lane] == 7) | __all_sync(~0u, x[lane] >= 0) << 1;
    unsigned m = __match_any_sync(~0u, x[lane] % 3);
    unsigned r = __reduce_add_sync(~0u, (unsigned)x[lane]);
    int p;
    unsigned q = __match_all_sync(~0u, 5, &p);
    out[lane] = b ^ a ^ m ^ r ^ q ^ p;
    if (lane < 8) {
        unsigned v = __shfl_sync(0xff, lane * 3, 7 - lane, 8);
        out[lane] += v + __activemask();
    }
}
}
