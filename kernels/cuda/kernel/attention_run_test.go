package kernel_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx"
	"hearth/kernels/ptx/ptxtest"
)

// attnRun is a case on a device: the sequences' tokens lie in the cache.
type attnRun struct {
	attnCase
	*ptxtest.Machine
	t      testing.TB
	target kernel.Target
	call   kernel.AttentionCall
	blocks [][]int32   // by sequence
	at     [][2]int    // sequence and position of each token
	row    [][]int     // the token, by sequence and position
	q      [][]float32 // by token, normed and rotated
	k, v   [][]float32 // by token, as the cache has them
	qNorm  []float32
	kNorm  []float32
	angles []float32
}

// startAttn makes inputs, appends them and checks what lies in the cache then.
func startAttn(t testing.TB, m *ptxtest.Machine, c attnCase) *attnRun {
	t.Helper()
	r := &attnRun{attnCase: c, Machine: m, t: t, target: kernel.Target{Compute: m.Target, SMs: 4, Shared: 99 << 10}}
	if c.shared != 0 {
		r.target.Shared = c.shared
	}
	rng := rand.New(rand.NewPCG(uint64(c.spec.HeadDim), uint64(c.spec.Heads)))
	r.lay(rng)
	r.parameters(rng)
	const padding = 2
	rows := len(r.at) + padding
	qw, kw := c.spec.Heads*c.spec.HeadDim, c.spec.KVHeads*c.spec.HeadDim
	stride := qw + 2*kw
	before := make([]float32, rows*stride)
	for i := range before {
		before[i] = float32(rng.NormFloat64())
		if rng.IntN(50) == 0 {
			before[i] *= 8
		}
	}
	at := m.Floats(before)
	r.call.Rows = rows
	r.call.Q, r.call.K, r.call.V = kernel.Mat{Addr: at, Stride: stride}, kernel.Mat{Addr: at + kernel.Addr(4*qw), Stride: stride}, kernel.Mat{Addr: at + kernel.Addr(4*(qw+kw)), Stride: stride}
	r.call.Out = kernel.Mat{Addr: m.Room(4 * rows * qw), Stride: qw}
	r.place(r.at, padding, &r.call.Plan)
	r.run(kernel.AppendKV(r.target, r.call))

	after := m.ReadFloats(at, len(before))
	for i, w := range r.at {
		in := before[i*stride:][:stride]
		r.q = append(r.q, after[i*stride:][:qw])
		r.check("q", i, r.q[i], r.turned(in[:qw], r.qNorm, w[1]), 1e-6)
		k, v := r.cached(w[0], w[1])
		r.checkCached("k", i, k, r.turned(in[qw:qw+kw], r.kNorm, w[1]))
		r.checkCached("v", i, v, in[qw+kw:])
		r.k, r.v = append(r.k, k), append(r.v, v)
	}
	if !slices.Equal(after[len(r.at)*stride:], before[len(r.at)*stride:]) {
		t.Errorf("a padding row has changed")
	}
	return r
}

// lay gives the sequences' tokens blocks in any order.
func (r *attnRun) lay(rng *rand.Rand) {
	used, longest := 0, 0
	for s, n := range r.lengths {
		r.row = append(r.row, nil)
		used += ceilDiv(n, r.blockSize)
		longest = max(longest, n)
		for p := range n {
			r.row[s] = append(r.row[s], len(r.at))
			r.at = append(r.at, [2]int{s, p})
		}
	}
	free := rng.Perm(used + 3)
	stride := ceilDiv(longest, r.blockSize) + 1
	tables := make([]int32, stride*len(r.lengths))
	for i := range tables {
		tables[i] = 1 << 30 // nobody may follow it
	}
	for s, n := range r.lengths {
		r.blocks = append(r.blocks, nil)
		for b := range ceilDiv(n, r.blockSize) {
			tables[s*stride+b] = int32(free[0])
			r.blocks[s] = append(r.blocks[s], int32(free[0]))
			free = free[1:]
		}
	}
	cache := kernel.Cache{Type: r.typ, KVHeads: r.spec.KVHeads, HeadDim: r.spec.HeadDim, BlockSize: r.blockSize}
	cache.Addr = r.Room((used + 3) * int(cache.BlockBytes()))
	r.call.Cache, r.call.Spec = cache, r.spec
	r.call.Plan = kernel.Plan{Tables: r.Ints(tables), MaxBlocks: stride, BlockSize: r.blockSize}
}

// parameters are the weights of norms and the angles of rotations.
func (r *attnRun) parameters(rng *rand.Rand) {
	if r.norm {
		for range r.spec.HeadDim {
			r.qNorm, r.kNorm = append(r.qNorm, 1+float32(rng.NormFloat64())/4), append(r.kNorm, 1+float32(rng.NormFloat64())/4)
		}
		r.call.QNorm, r.call.KNorm, r.call.Eps = r.Floats(r.qNorm), r.Floats(r.kNorm), 1e-6
	}
	if r.turn == 0 {
		return
	}
	for p := range slices.Max(r.lengths) {
		for i := range r.turn / 2 {
			sin, cos := math.Sincos(float64(p) * math.Pow(10000, -2*float64(i)/float64(r.turn)))
			r.angles = append(r.angles, float32(cos), float32(sin))
		}
	}
	rot := &kernel.Rotation{Table: r.Floats(r.angles), Dim: r.turn, NeoX: r.neox}
	r.call.QRope, r.call.KRope = rot, rot
}

// place uploads where rows are.
func (r *attnRun) place(where [][2]int, padding int, p *kernel.Plan) {
	var pos, seq []int32
	for _, w := range where {
		pos, seq = append(pos, int32(w[1])), append(seq, int32(w[0]))
	}
	for range padding {
		pos, seq = append(pos, -1), append(seq, 0)
	}
	p.Pos, p.Seq = r.Ints(pos), r.Ints(seq)
}

// run gives the counts of the last launch.
func (r *attnRun) run(ls []kernel.Launch, err error) ptx.Counts {
	r.t.Helper()
	must(r.t, err)
	reps := r.Launch(ls...)
	if r.t.Failed() {
		r.t.FailNow()
	}
	for i, rep := range reps {
		if s, w := float64(rep.Counts.Sectors)/float64(rep.Counts.IdealSectors), float64(rep.Counts.SharedWaves)/float64(max(rep.Counts.IdealWaves, 1)); s > 1.1 || w > 1.05 {
			r.t.Errorf("%s: %.3f of the fewest sectors, %.3f of the fewest passes over shared memory, wanted 1.1 and 1.05", ls[i].Name, s, w)
		}
	}
	return reps[len(reps)-1].Counts
}

// rows copies the queries of the spans, and says where each is.
func (r *attnRun) rows(padding int) (c kernel.AttentionCall, where [][2]int) {
	for _, s := range r.spans {
		for i := range s[2] {
			where = append(where, [2]int{s[0], s[1] + i})
		}
	}
	c = r.call
	width := r.spec.Heads * r.spec.HeadDim
	c.Rows = len(where) + padding
	c.Q = kernel.Mat{Addr: r.Room(4 * c.Rows * width), Stride: width}
	c.Out = kernel.Mat{Addr: r.Room(4 * c.Rows * (width + 8)), Stride: width + 8}
	for i, w := range where {
		b, err := binary.Append(nil, binary.LittleEndian, r.q[r.row[w[0]][w[1]]])
		must(r.t, err)
		must(r.t, r.Write(uint64(c.Q.Addr)+uint64(4*i*width), b))
	}
	r.place(where, padding, &c.Plan)
	return c, where
}

func (r *attnRun) out(c kernel.AttentionCall, row int) []float32 {
	return r.ReadFloats(c.Out.Addr+kernel.Addr(4*row*c.Out.Stride), r.spec.Heads*r.spec.HeadDim)
}

// decode runs the decode form with one row of padding, twice, so that counters
// must have been set back.
func (r *attnRun) decode() (c kernel.AttentionCall, where [][2]int, counts ptx.Counts) {
	c, where = r.rows(1)
	for _, w := range where {
		c.MaxChunks = max(c.MaxChunks, w[1]/kernel.ChunkKeys+1)
	}
	c.Scratch = r.Room(int(kernel.AttentionScratch(c.Spec, c.Rows, c.MaxChunks)))
	must(r.t, r.Fill(uint64(c.Scratch), 0, int(kernel.AttentionScratch(c.Spec, 0, 0)))) // the counters: the rest is written before it is read
	counts = r.run(kernel.Decode(r.target, c))
	return c, where, counts
}

// prefill runs the prefill form with tiles of up to n rows.
func (r *attnRun) prefill(n int) (c kernel.AttentionCall, where [][2]int, counts ptx.Counts) {
	c, where = r.rows(0)
	var tiles []int32
	row := 0
	for _, s := range r.spans {
		for i := 0; i < s[2]; i += n {
			m := min(n, s[2]-i)
			tiles = append(tiles, int32(row), int32(m), int32(s[0]), int32(s[1]+i))
			row += m
		}
	}
	tiles = append(tiles, 0, 0, 0, 0)
	c.Tiles = len(tiles) / 4
	c.Plan.Tiles = r.Data(tiles)
	return c, where, r.run(kernel.Prefill(r.target, c))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ceilDiv(n, per int) int { return (n + per - 1) / per }

// kvWidth is the values of a row of the cache, kvBytes the size of one.
func kvWidth(headDim int) int { return (headDim + 15) &^ 15 }

var kvBytes = map[kernel.KVType]int{kernel.KVF16: 2, kernel.KVBF16: 2, kernel.KVF32: 4, kernel.KVFP8: 1, kernel.KVInt8: 1}
