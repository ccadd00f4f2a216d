// Choosing tokens on the device: what kernels.Choice asks for, without a sort.
// Shares of probability are integers of 2^-40 of the likeliest token's, so that
// their sums do not depend on the order in which threads arrive.
#include <stdint.h>

// These stand in no anonymous namespace: kernels whose parameters had internal
// linkage would have names that differ from one compiler process to the next.

// Choice of a row; kernel.SampleRecord writes it.
struct Record {
  int adjust_from, adjust_n; // entries of the list of adjustments
  int mask;                  // first word of its mask, -1: all may be chosen
  float scale;               // log2(e)/temperature; 0: the likeliest
  int top_k;                 // 0: all
  float min_p;
  int top_n;   // alternatives
  int flags;   // see below
  uint64_t top_p;   // share of the whole in 2^-64; 0: all
  uint64_t uniform; // likewise
};
constexpr int SKIP = 1, LOGPROB = 2, ADJUSTED = 4; // nothing is chosen; wanted; it reads the adjusted copy

struct Adjust {
  int token;
  float divide, add;
};

struct Partial { // of a chunk of a row
  float raw_max, raw_sum; // Σ e^(l - raw_max), before adjusting
  float max;              // after
  int arg;
};

constexpr int CHUNK = 4096, MAX_TOP = 20;

struct Pick {
  int token;
  float logprob;
  int ids[MAX_TOP];
  float logprobs[MAX_TOP];
};

namespace {

constexpr float LOG2E = 1.4426950408889634f;
constexpr uint32_t ALL = 0xffffffffu;

__device__ __forceinline__ float minus_inf() { return __int_as_float(0xff800000); }
__device__ __forceinline__ float sane(float l) { return l == l ? l : minus_inf(); }

// key orders floats as unsigned integers; the two zeros are equal.
__device__ __forceinline__ uint32_t key_of(float l) {
  uint32_t b = __float_as_uint(l + 0.0f);
  return b & 0x80000000u ? ~b : b | 0x80000000u;
}

__device__ __forceinline__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// likelihood of a logit against the likeliest, in (0, 1]; 0 below 2^-126.
__device__ __forceinline__ float likelihood(float l, float max, float scale) { return l == minus_inf() ? 0.0f : ex2((l - max) * scale); }
__device__ __forceinline__ uint64_t mass_of(float p) { return (uint64_t)(p * 1099511627776.0f); }

__device__ __forceinline__ void better(float& m, int& at, float m2, int at2) {
  if (m2 > m || (m2 == m && at2 < at)) m = m2, at = at2;
}

} // namespace

// Reads a chunk of a row once: notes its greatest value and the sum of its
// exponentials as they are, then adjusts, masks, writes the adjusted copy where
// there is something to adjust, and notes the greatest value again. Grid
// (⌈vocab/4096⌉, rows), 256 threads. Lists are ascending by token.
extern "C" __global__ void __launch_bounds__(256) sample_adjust(const float* __restrict__ logits, int stride, float* adjusted, const Record* __restrict__ records,
                                                                const Adjust* __restrict__ list, const uint32_t* __restrict__ masks, Partial* partials, int vocab) {
  __shared__ float value[CHUNK];
  __shared__ float warp_max[8], warp_sum[8];
  __shared__ int warp_arg[8];
  const Record rec = records[blockIdx.y];
  if (rec.flags & SKIP) return;
  const int first = blockIdx.x * CHUNK, n = min(CHUNK, vocab - first), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float* row = logits + (int64_t)blockIdx.y * stride + first;
  Partial out;
  float m = minus_inf();
  int at = 0x7fffffff;
  for (int i = threadIdx.x; i < n; i += 256) {
    float l = sane(row[i]);
    value[i] = l;
    m = fmaxf(m, l);
  }
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) m = fmaxf(m, __shfl_xor_sync(ALL, m, s));
  if (lane == 0) warp_max[warp] = m;
  __syncthreads();
  m = warp_max[0];
#pragma unroll
  for (int w = 1; w < 8; w++) m = fmaxf(m, warp_max[w]);
  out.raw_max = m;
  out.raw_sum = 0;
  if (rec.flags & LOGPROB) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) sum += likelihood(value[i], m, LOG2E);
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(ALL, sum, s);
    if (lane == 0) warp_sum[warp] = sum;
  }
  // The list's part that lies in this chunk.
  int low = 0, high = rec.adjust_n;
  while (low < high) {
    int mid = (low + high) / 2;
    if (list[rec.adjust_from + mid].token < first) low = mid + 1;
    else high = mid;
  }
  __syncthreads(); // all have read value and warp_max
  if ((rec.flags & LOGPROB) && threadIdx.x == 0) {
    for (int w = 0; w < 8; w++) out.raw_sum += warp_sum[w];
  }
  for (int e = low + threadIdx.x; e < rec.adjust_n; e += 256) {
    Adjust a = list[rec.adjust_from + e];
    if (a.token >= first + n) break;
    float l = value[a.token - first];
    value[a.token - first] = __fadd_rn(l > 0 ? l / a.divide : __fmul_rn(l, a.divide), a.add);
  }
  __syncthreads();
  m = minus_inf();
  float* copy = adjusted + (int64_t)blockIdx.y * stride + first;
  for (int i = threadIdx.x; i < n; i += 256) {
    float l = sane(value[i]);
    if (rec.mask >= 0 && !(masks[rec.mask + (first + i) / 32] >> ((first + i) & 31) & 1)) l = minus_inf();
    if (rec.flags & ADJUSTED) copy[i] = l;
    better(m, at, l, first + i);
  }
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) better(m, at, __shfl_xor_sync(ALL, m, s), __shfl_xor_sync(ALL, at, s));
  if (lane == 0) warp_max[warp] = m, warp_arg[warp] = at;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; w++) better(m, at, warp_max[w], warp_arg[w]);
    out.max = m;
    out.arg = at;
    partials[(int64_t)blockIdx.y * gridDim.x + blockIdx.x] = out;
  }
}

namespace {

constexpr int THREADS = 512, SEGMENTS = 1024, COPIES = 8;

// Histogram of candidates by eight bits of their keys; copies by lane keep the
// threads of a warp apart.
struct Bins {
  uint64_t mass[256 * COPIES];
  uint32_t count[256 * COPIES];
};

struct Cut { // candidates with greater keys are kept, and ties of equal keys, in token order
  uint32_t key;
  int ties;
  uint64_t total;    // mass of what is kept
  uint64_t tie_mass; // of one tie
};

struct Work {
  Bins bins;
  uint32_t prefix;
  uint32_t count_above, count_at;
  uint64_t mass_above, mass_at;
  uint64_t segment[SEGMENTS];
  uint32_t segment_ties[SEGMENTS];
  uint64_t warp_mass[32];
  uint32_t warp_ties[32];
  uint64_t left;
  int found, ties_left;
  float max, lse;
  int arg;
};

struct Row {
  const float* l;
  int n;
  float max, scale, min_p;

  // candidate says whether value i takes part, with its key and its mass.
  __device__ __forceinline__ bool candidate(int i, uint32_t& key, uint64_t& mass) const {
    float x = sane(l[i]);
    float p = likelihood(x, max, scale);
    key = key_of(x);
    mass = mass_of(p);
    return p > 0 && p >= min_p;
  }
};

// walk finds, from the greatest bin down, the one in which the number of
// candidates reaches k (by_mass: in which their mass reaches want). One warp.
__device__ __forceinline__ void walk(Work& w, bool by_mass, uint64_t want) {
  const int lane = threadIdx.x;
  auto bin = [&](int j, uint32_t& count, uint64_t& mass) {
    count = 0, mass = 0;
    int at = (255 - (lane * 8 + j)) * COPIES;
#pragma unroll
    for (int c = 0; c < COPIES; c++) count += w.bins.count[at + c], mass += w.bins.mass[at + c];
  };
  uint32_t c, counts = 0;
  uint64_t m, masses = 0;
#pragma unroll 1
  for (int j = 0; j < 8; j++) {
    bin(j, c, m);
    counts += c, masses += m;
  }
  uint32_t ca = counts;
  uint64_t ma = masses;
#pragma unroll 1
  for (int s = 1; s < 32; s <<= 1) {
    uint32_t up_c = __shfl_up_sync(ALL, ca, s);
    uint64_t up_m = __shfl_up_sync(ALL, ma, s);
    if (lane >= s) ca += up_c, ma += up_m;
  }
  ca += w.count_above - counts, ma += w.mass_above - masses;
  uint64_t before = by_mass ? ma : ca, here = by_mass ? masses : counts;
  // What is wanted is never more than there is, so exactly one lane has it.
  bool mine = before < want && want <= before + here;
  __syncwarp();
  if (!mine) return;
#pragma unroll 1
  for (int j = 0; j < 8; j++) {
    bin(j, c, m);
    if ((by_mass ? ma + m : ca + c) >= want) {
      w.prefix = w.prefix << 8 | (uint32_t)(255 - (lane * 8 + j));
      w.count_above = ca, w.mass_above = ma;
      w.count_at = c, w.mass_at = m;
      return;
    }
    ca += c, ma += m;
  }
}

// select finds the key at which the number, or the mass, of the candidates from
// the greatest down reaches want: four rounds of eight bits.
__device__ void select(Work& w, const Row& row, bool by_mass, uint64_t want) {
  if (threadIdx.x == 0) w.prefix = 0, w.count_above = 0, w.mass_above = 0;
#pragma unroll 1
  for (int round = 3; round >= 0; round--) {
#pragma unroll 1
    for (int i = threadIdx.x; i < 256 * COPIES; i += THREADS) w.bins.count[i] = 0, w.bins.mass[i] = 0;
    __syncthreads();
    uint32_t prefix = w.prefix;
#pragma unroll 1
    for (int i = threadIdx.x; i < row.n; i += THREADS) {
      uint32_t key;
      uint64_t mass;
      if (!row.candidate(i, key, mass)) continue;
      if (round < 3 && key >> (8 * round + 8) != prefix) continue;
      int bin = (key >> (8 * round) & 255) * COPIES + (threadIdx.x & (COPIES - 1));
      atomicAdd(&w.bins.count[bin], 1u);
      atomicAdd((unsigned long long*)&w.bins.mass[bin], (unsigned long long)mass);
    }
    __syncthreads();
    if (threadIdx.x < 32) walk(w, by_mass, want);
    __syncthreads();
  }
}

// whole sums number and mass of all candidates into count_at and mass_at.
__device__ void whole(Work& w, const Row& row) {
  uint32_t count = 0;
  uint64_t mass = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < row.n; i += THREADS) {
    uint32_t k;
    uint64_t m;
    if (row.candidate(i, k, m)) count++, mass += m;
  }
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) count += __shfl_xor_sync(ALL, count, s), mass += __shfl_xor_sync(ALL, mass, s);
  if (threadIdx.x % 32 == 0) w.warp_ties[threadIdx.x / 32] = count, w.warp_mass[threadIdx.x / 32] = mass;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 1; i < THREADS / 32; i++) count += w.warp_ties[i], mass += w.warp_mass[i];
    w.count_at = count, w.mass_at = mass;
  }
  __syncthreads();
}

// cut applies top-k and then top-p to the candidates.
__device__ Cut cut(Work& w, const Row& row, const Record& rec) {
  Cut c = {0, 0x7fffffff, 0, 0};
  whole(w, row);
  c.total = w.mass_at;
  uint32_t all = w.count_at;
  __syncthreads();
  if (rec.top_k > 0 && (uint32_t)rec.top_k < all) {
    select(w, row, false, (uint64_t)rec.top_k);
    c.key = w.prefix;
    c.ties = rec.top_k - (int)w.count_above;
    c.tie_mass = w.mass_at / w.count_at;
    c.total = w.mass_above + c.tie_mass * c.ties;
    __syncthreads();
  }
  if (rec.top_p != 0) {
    uint64_t want = __umul64hi(rec.top_p, c.total) + (rec.top_p * c.total != 0);
    if (want == 0) want = 1;
    select(w, row, true, want);
    c.key = w.prefix;
    c.tie_mass = w.mass_at / w.count_at;
    uint64_t missing = want - w.mass_above;
    c.ties = c.tie_mass == 0 ? 1 : (int)((missing + c.tie_mass - 1) / c.tie_mass);
    c.total = w.mass_above + c.tie_mass * c.ties;
    __syncthreads();
  }
  return c;
}

// kept is the mass of value i if its key is greater than the cut, and whether it
// is a tie.
__device__ __forceinline__ uint64_t kept(const Row& row, const Cut& c, int i, bool& tie) {
  uint32_t key;
  uint64_t mass;
  tie = false;
  if (!row.candidate(i, key, mass) || key < c.key) return 0;
  if (key == c.key && c.key != 0) {
    tie = true;
    return 0;
  }
  return mass;
}

// draw finds the token at target of the mass of what is kept, in token order.
__device__ int draw(Work& w, const Row& row, const Cut& c, uint64_t target) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int length = (row.n + SEGMENTS * 32 - 1) / (SEGMENTS * 32) * 32; // of a segment, at most THREADS
#pragma unroll 1
  for (int s = warp; s < SEGMENTS; s += THREADS / 32) {
    uint64_t mass = 0;
    uint32_t ties = 0;
#pragma unroll 1
    for (int i = s * length + lane; i < min((s + 1) * length, row.n); i += 32) {
      bool tie;
      mass += kept(row, c, i, tie);
      ties += tie;
    }
#pragma unroll
    for (int k = 16; k > 0; k >>= 1) mass += __shfl_xor_sync(ALL, mass, k), ties += __shfl_xor_sync(ALL, ties, k);
    if (lane == 0) w.segment[s] = mass, w.segment_ties[s] = ties;
  }
  if (threadIdx.x == 0) w.found = w.arg;
  __syncthreads();
  if (threadIdx.x == 0) {
    int ties = c.ties, s = 0;
#pragma unroll 1
    for (; s < SEGMENTS - 1; s++) {
      int t = min((int)w.segment_ties[s], ties);
      uint64_t m = w.segment[s] + t * c.tie_mass;
      if (target < m) break;
      target -= m, ties -= t;
    }
    w.left = target, w.ties_left = ties, w.count_at = s;
  }
  __syncthreads();
  // Within the segment: every thread one value; sums before it by scans.
  const int i = (int)w.count_at * length + threadIdx.x;
  bool tie = false;
  uint64_t mass = 0;
  if (threadIdx.x < length && i < row.n) mass = kept(row, c, i, tie);
  uint32_t vote = __ballot_sync(ALL, tie);
  if (lane == 0) w.warp_ties[warp] = __popc(vote);
  __syncthreads();
  int before = __popc(vote & ((1u << lane) - 1));
#pragma unroll 1
  for (int k = 0; k < warp; k++) before += w.warp_ties[k];
  if (tie && before < w.ties_left) mass = c.tie_mass;
  uint64_t sum = mass;
#pragma unroll
  for (int k = 1; k < 32; k <<= 1) {
    uint64_t m = __shfl_up_sync(ALL, sum, k);
    if (lane >= k) sum += m;
  }
  if (lane == 31) w.warp_mass[warp] = sum;
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < warp; k++) sum += w.warp_mass[k];
  if (mass > 0 && sum > w.left && sum - mass <= w.left) w.found = i;
  __syncthreads();
  return w.found;
}

// merge joins the partials of a row: the greatest value, and log Σ e^l of the
// values as they were. One warp.
__device__ void merge(Work& w, const Partial* part, int chunks, bool logprob) {
  const int lane = threadIdx.x;
  float m = minus_inf(), raw = minus_inf();
  int at = 0x7fffffff;
#pragma unroll 1
  for (int c = lane; c < chunks; c += 32) {
    better(m, at, part[c].max, part[c].arg);
    raw = fmaxf(raw, part[c].raw_max);
  }
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) {
    better(m, at, __shfl_xor_sync(ALL, m, s), __shfl_xor_sync(ALL, at, s));
    raw = fmaxf(raw, __shfl_xor_sync(ALL, raw, s));
  }
  float sum = 0;
  if (logprob) {
#pragma unroll 1
    for (int c = lane; c < chunks; c += 32) sum += part[c].raw_sum * likelihood(part[c].raw_max, raw, LOG2E);
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(ALL, sum, s);
  }
  if (lane == 0) w.max = m, w.arg = at, w.lse = logprob ? raw + logf(sum) : 0.0f;
}

} // namespace

// Chooses the token of a row. Grid (rows), 512 threads, vocab ≤ 524288; chunks
// are those of sample_adjust.
extern "C" __global__ void __launch_bounds__(THREADS, 2) sample_pick(const float* __restrict__ logits, int stride, const float* __restrict__ adjusted, const Record* __restrict__ records,
                                                                  const Partial* __restrict__ partials, int chunks, Pick* picks, int vocab) {
  __shared__ Work w;
  const Record rec = records[blockIdx.x];
  if (rec.flags & SKIP) return;
  const float* raw = logits + (int64_t)blockIdx.x * stride;
  if (threadIdx.x < 32) merge(w, partials + (int64_t)blockIdx.x * chunks, chunks, rec.flags & LOGPROB);
  __syncthreads();
  int token = w.arg;
  if (rec.scale > 0 && w.max != minus_inf()) {
    Row row = {rec.flags & ADJUSTED ? adjusted + (int64_t)blockIdx.x * stride : raw, vocab, w.max, rec.scale, rec.min_p};
    Cut c = cut(w, row, rec);
    token = draw(w, row, c, __umul64hi(rec.uniform, c.total));
  }
  if (threadIdx.x == 0) {
    Pick& p = picks[blockIdx.x];
    p.token = token;
    p.logprob = rec.flags & LOGPROB ? sane(raw[token]) - w.lse : 0.0f;
  }
}

// The likeliest alternatives of a row before adjusting, of rows that want them:
// greatest first, equal ones by token. Grid (rows), 512 threads. It runs behind
// sample_pick.
extern "C" __global__ void __launch_bounds__(THREADS) sample_top(const float* __restrict__ logits, int stride, const Record* __restrict__ records, const Partial* __restrict__ partials, int chunks,
                                                                 Pick* picks, int vocab) {
  __shared__ Work w;
  __shared__ float value[MAX_TOP];
  __shared__ int id[MAX_TOP];
  __shared__ int n;
  const Record rec = records[blockIdx.x];
  const int want = min(min(rec.top_n, MAX_TOP), vocab);
  if ((rec.flags & SKIP) || want <= 0) return;
  const float* l = logits + (int64_t)blockIdx.x * stride;
  if (threadIdx.x < 32) merge(w, partials + (int64_t)blockIdx.x * chunks, chunks, true);
  if (threadIdx.x == 0) w.prefix = 0, w.count_above = 0, w.mass_above = 0, n = 0;
#pragma unroll 1
  for (int round = 3; round >= 0; round--) { // as select, over all values
#pragma unroll 1
    for (int i = threadIdx.x; i < 256 * COPIES; i += THREADS) w.bins.count[i] = 0, w.bins.mass[i] = 0;
    __syncthreads();
    uint32_t prefix = w.prefix;
#pragma unroll 1
    for (int i = threadIdx.x; i < vocab; i += THREADS) {
      uint32_t key = key_of(sane(l[i]));
      if (round < 3 && key >> (8 * round + 8) != prefix) continue;
      atomicAdd(&w.bins.count[(key >> (8 * round) & 255) * COPIES + (threadIdx.x & (COPIES - 1))], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) walk(w, false, (uint64_t)want);
    __syncthreads();
  }
  const uint32_t least = w.prefix;
  const int ties = want - (int)w.count_above;
  int tied = 0; // seen so far, the same in all threads
#pragma unroll 1
  for (int first = 0; first < vocab; first += THREADS) {
    int i = first + threadIdx.x;
    float x = i < vocab ? sane(l[i]) : 0.0f;
    uint32_t key = i < vocab ? key_of(x) : 0;
    bool tie = i < vocab && key == least;
    uint32_t vote = __ballot_sync(ALL, tie);
    if (threadIdx.x % 32 == 0) w.warp_ties[threadIdx.x / 32] = __popc(vote);
    __syncthreads();
    int before = tied + __popc(vote & ((1u << threadIdx.x % 32) - 1)), all = 0;
#pragma unroll 1
    for (int k = 0; k < THREADS / 32; k++) {
      if (k < threadIdx.x / 32) before += w.warp_ties[k];
      all += w.warp_ties[k];
    }
    tied += all;
    if (i < vocab && (key > least || (tie && before < ties))) {
      int at = atomicAdd(&n, 1);
      value[at] = x, id[at] = i;
    }
    __syncthreads();
  }
  if (threadIdx.x < want) { // its rank is its place
    int rank = 0;
#pragma unroll 1
    for (int k = 0; k < want; k++) rank += value[k] > value[threadIdx.x] || (value[k] == value[threadIdx.x] && id[k] < id[threadIdx.x]);
    picks[blockIdx.x].ids[rank] = id[threadIdx.x];
    picks[blockIdx.x].logprobs[rank] = value[threadIdx.x] - w.lse;
  }
}
