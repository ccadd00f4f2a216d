// Kernels whose only purpose is to be measured: what ptxas and the dump tool print for them is recorded as test data.
#include <stdint.h>
extern __shared__ __align__(16) uint8_t dynamic[];

// tensor has what a matrix product should have: wide asynchronous copies, ldmatrix and mma.
extern "C" __global__ void __launch_bounds__(128) tensor(float* y, const uint4* x, int steps) {
  __shared__ __align__(16) uint4 tile[128];
  float c[4] = {0, 0, 0, 0};
  uint32_t s = (uint32_t)__cvta_generic_to_shared(&tile[threadIdx.x]);
  for (int k = 0; k < steps; k++) {
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(x + k * 128 + threadIdx.x));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    uint32_t a[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(s));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[1]), "r"(a[3]));
  }
  y[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

// narrow reads bytes one by one in its loop and uses local memory.
extern "C" __global__ void __launch_bounds__(256) narrow(int* y, const uint8_t* x, int n) {
  int local[32];
  for (int i = 0; i < 32; i++) local[i] = y[i * 256 + threadIdx.x];
  for (int i = threadIdx.x; i < n; i += 256) local[x[i] & 31] += x[i];
  int sum = 0;
  for (int i = 0; i < 32; i++) sum = sum * 3 + local[(i + n) & 31];
  y[threadIdx.x] = sum;
}

// integer has an int8 mma and a byte read outside of any loop.
extern "C" __global__ void integer(int* y, const uint8_t* x) {
  int c[4] = {0, 0, 0, 0};
  uint32_t a = x[threadIdx.x];
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};" : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a));
  y[threadIdx.x] = c[0] + c[1] + __dp4a((int)a, c[2], c[3]) + dynamic[0];
}
