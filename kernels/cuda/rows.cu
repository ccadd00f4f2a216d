// Ops over whole rows: embedding, norm, elementwise, gather. A row is one token.
// Products and sums that kernels.Dequantize rounds one by one are rounded one by
// one here too (__fmul_rn, __fadd_rn), so that both give the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace {

__device__ __forceinline__ float half_at(const uint8_t* p) { return __half2float(*(const __half*)p); }

__device__ __forceinline__ uint32_t u32_at(const uint8_t* p) { // p is aligned to 2
  const uint16_t* h = (const uint16_t*)p;
  return h[0] | (uint32_t)h[1] << 16;
}

// Scale and minimum of sub-block s of the twelve bytes in a Q4_K or Q5_K block.
__device__ __forceinline__ void scale_min(const uint8_t* b, int s, int& scale, int& low) {
  if (s < 4) {
    scale = b[s] & 63;
    low = b[4 + s] & 63;
  } else {
    scale = (b[4 + s] & 15) | b[s - 4] >> 6 << 4;
    low = b[4 + s] >> 4 | b[s] >> 6 << 4;
  }
}

// Value i of a row in the form of the file: kernels.Dequantize says what each is.
struct F32 {
  static __device__ float at(const uint8_t* r, int i) { return ((const float*)r)[i]; }
};
struct F16 {
  static __device__ float at(const uint8_t* r, int i) { return half_at(r + 2 * (int64_t)i); }
};
struct BF16 {
  static __device__ float at(const uint8_t* r, int i) { return __bfloat162float(((const __nv_bfloat16*)r)[i]); }
};
template <int BYTES, int QS> struct Nibbles { // the nibble of value i, and its block
  static __device__ const uint8_t* block(const uint8_t* r, int i) { return r + (int64_t)(i / 32) * BYTES; }
  static __device__ int nibble(const uint8_t* b, int i) {
    i &= 31;
    return b[QS + (i & 15)] >> (i / 16 * 4) & 15;
  }
};
struct Q4_0 : Nibbles<18, 2> {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = block(r, i);
    return __fmul_rn(half_at(b), (float)(nibble(b, i) - 8));
  }
};
struct Q4_1 : Nibbles<20, 4> {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = block(r, i);
    return __fadd_rn(__fmul_rn(half_at(b), (float)nibble(b, i)), half_at(b + 2));
  }
};
struct Q5_0 : Nibbles<22, 6> {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = block(r, i);
    int v = nibble(b, i) | (u32_at(b + 2) >> (i & 31) & 1) << 4;
    return __fmul_rn(half_at(b), (float)(v - 16));
  }
};
struct Q5_1 : Nibbles<24, 8> {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = block(r, i);
    int v = nibble(b, i) | (u32_at(b + 4) >> (i & 31) & 1) << 4;
    return __fadd_rn(__fmul_rn(half_at(b), (float)v), half_at(b + 2));
  }
};
struct Q8_0 {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 32) * 34;
    return __fmul_rn((float)(int8_t)b[2 + (i & 31)], half_at(b));
  }
};
__constant__ int8_t iq4nl_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
struct IQ4_NL : Nibbles<18, 2> {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = block(r, i);
    return __fmul_rn(half_at(b), (float)iq4nl_levels[nibble(b, i)]);
  }
};
struct Q2_K {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 256) * 84;
    i &= 255;
    int s = b[i / 16], v = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    float dl = __fmul_rn(half_at(b + 80), (float)(s & 15)), ml = __fmul_rn(half_at(b + 82), (float)(s >> 4));
    return __fsub_rn(__fmul_rn(dl, (float)v), ml);
  }
};
struct Q3_K {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 256) * 110;
    i &= 255;
    int v = (b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 4 + (b[i % 32] >> (i / 32) & 1) * 4;
    const uint8_t* sc = b + 96;
    int s = i / 16;
    int scale = (sc[s & 7] >> (s / 8 * 4) & 15) | (sc[8 + (s & 3)] >> (s / 4 * 2) & 3) << 4;
    return __fmul_rn(__fmul_rn(half_at(b + 108), (float)(scale - 32)), (float)v);
  }
};
struct Q4_K {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 256) * 144;
    i &= 255;
    int s = i / 32, scale, low;
    scale_min(b + 4, s, scale, low);
    int v = b[16 + s / 2 * 32 + i % 32] >> (s % 2 * 4) & 15;
    return __fsub_rn(__fmul_rn(__fmul_rn(half_at(b), (float)scale), (float)v), __fmul_rn(half_at(b + 2), (float)low));
  }
};
struct Q5_K {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 256) * 176;
    i &= 255;
    int s = i / 32, scale, low;
    scale_min(b + 4, s, scale, low);
    int v = (b[48 + s / 2 * 32 + i % 32] >> (s % 2 * 4) & 15) | (b[16 + i % 32] >> s & 1) << 4;
    return __fsub_rn(__fmul_rn(__fmul_rn(half_at(b), (float)scale), (float)v), __fmul_rn(half_at(b + 2), (float)low));
  }
};
struct Q6_K {
  static __device__ float at(const uint8_t* r, int i) {
    const uint8_t* b = r + (int64_t)(i / 256) * 210;
    i &= 255;
    int h = i / 128, j = i % 128;
    int v = (b[64 * h + j % 64] >> (j / 64 * 4) & 15) | (b[128 + 32 * h + j % 32] >> (j / 32 * 2) & 3) << 4;
    float dl = __fmul_rn(half_at(b + 208), (float)(int8_t)b[192 + i / 16]);
    return __fmul_rn(dl, (float)(v - 32));
  }
};

// dst[row][i] = factor · table[tokens[row]][i]. Grid (⌈width/256⌉, rows), 256
// threads. A token outside of the table, which a padding row has, gives zeros.
template <class T>
__device__ __forceinline__ void embed(const uint8_t* table, int64_t row_bytes, int vocab, int width, const int* tokens, float* dst, int stride, float factor) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= width) return;
  int token = tokens[blockIdx.y];
  float v = 0;
  if (token >= 0 && token < vocab) v = __fmul_rn(T::at(table + token * row_bytes, i), factor);
  dst[(int64_t)blockIdx.y * stride + i] = v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) v += __shfl_xor_sync(0xffffffffu, v, m);
  return v;
}

// silu(x) = x / (1 + e^-x); expf is within 2 ulp.
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// gelu by tanh; with tanh(u) = 1 - 2/(1+e^2u) written so that no digits cancel:
// 0.5·(1+tanh(u)) = 1/(1+e^-2u).
__device__ __forceinline__ float gelu(float x) {
  float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-2.0f * u));
}

} // namespace

#define EMBED(T, NAME)                                                                                                            \
  extern "C" __global__ void __launch_bounds__(256) embed_##NAME(const uint8_t* __restrict__ table, int64_t row_bytes, int vocab, \
                                                                  int width, const int* __restrict__ tokens, float* dst, int stride, float factor) { \
    embed<T>(table, row_bytes, vocab, width, tokens, dst, stride, factor);                                                         \
  }
EMBED(F32, f32)
EMBED(F16, f16)
EMBED(BF16, bf16)
EMBED(Q4_0, q4_0)
EMBED(Q4_1, q4_1)
EMBED(Q5_0, q5_0)
EMBED(Q5_1, q5_1)
EMBED(Q8_0, q8_0)
EMBED(Q2_K, q2_k)
EMBED(Q3_K, q3_k)
EMBED(Q4_K, q4_k)
EMBED(Q5_K, q5_k)
EMBED(Q6_K, q6_k)
EMBED(IQ4_NL, iq4_nl)

// dst = x / sqrt(mean(x²)+eps) · w over a whole row. Grid (rows), 256 threads.
// Thread t sums x[t], x[t+256], …; warps join by butterfly, then in order.
extern "C" __global__ void __launch_bounds__(256) rmsnorm_row(const float* x, int x_stride, float* dst, int dst_stride, const float* __restrict__ w, int width, float eps) {
  __shared__ float part[8];
  x += (int64_t)blockIdx.x * x_stride;
  dst += (int64_t)blockIdx.x * dst_stride;
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += 256) sum = fmaf(x[i], x[i], sum);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = part[0];
#pragma unroll
  for (int i = 1; i < 8; i++) sum += part[i];
  float inv = 1.0f / sqrtf(sum / (float)width + eps);
  for (int i = threadIdx.x; i < width; i += 256) dst[i] = __fmul_rn(__fmul_rn(x[i], inv), w[i]);
}

// The same over groups of a row, a warp a group. Grid (⌈groups/8⌉, rows).
extern "C" __global__ void __launch_bounds__(256) rmsnorm_group(const float* x, int x_stride, float* dst, int dst_stride, const float* __restrict__ w, int groups, int group, float eps) {
  int g = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (g >= groups) return;
  x += (int64_t)blockIdx.y * x_stride + g * group;
  dst += (int64_t)blockIdx.y * dst_stride + g * group;
  float sum = 0;
  for (int i = lane; i < group; i += 32) sum = fmaf(x[i], x[i], sum);
  float inv = 1.0f / sqrtf(warp_sum(sum) / (float)group + eps);
  for (int i = lane; i < group; i += 32) dst[i] = __fmul_rn(__fmul_rn(x[i], inv), w[i]);
}

// Elementwise over (rows, width): grid (⌈width/1024⌉, rows), 256 threads.
#define ELEMENTWISE(NAME, ARGS, EXPR)                                                       \
  extern "C" __global__ void __launch_bounds__(256) NAME(float* dst, int stride, ARGS int width) { \
    int64_t row = blockIdx.y;                                                               \
    _Pragma("unroll") for (int j = 0; j < 4; j++) {                                         \
      int i = blockIdx.x * 1024 + j * 256 + threadIdx.x;                                    \
      if (i < width) {                                                                      \
        float* d = dst + row * stride + i;                                                  \
        EXPR;                                                                               \
      }                                                                                     \
    }                                                                                       \
  }
#define COMMA ,
ELEMENTWISE(add_rows, const float* a COMMA int a_stride COMMA, *d = *d + a[row * a_stride + i])
ELEMENTWISE(scale_rows, float factor COMMA, *d = __fmul_rn(*d, factor))
ELEMENTWISE(softcap_rows, float factor COMMA, *d = factor * tanhf(*d / factor))
ELEMENTWISE(silu_mul_rows, const float* a COMMA int a_stride COMMA const float* b COMMA int b_stride COMMA, *d = silu(a[row * a_stride + i]) * b[row * b_stride + i])
ELEMENTWISE(gelu_mul_rows, const float* a COMMA int a_stride COMMA const float* b COMMA int b_stride COMMA, *d = gelu(a[row * a_stride + i]) * b[row * b_stride + i])

// dst[i] = src[rows[i]]; zeros where rows[i] is negative. Grid (⌈width/1024⌉, n).
extern "C" __global__ void __launch_bounds__(256) gather_rows(float* dst, int stride, const float* __restrict__ src, int src_stride, const int* __restrict__ rows, int width) {
  int r = rows[blockIdx.y];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    int i = blockIdx.x * 1024 + j * 256 + threadIdx.x;
    if (i < width) dst[(int64_t)blockIdx.y * stride + i] = r < 0 ? 0.0f : src[(int64_t)r * src_stride + i];
  }
}
