package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/ptx"
)

// attnGPU is an imaginary device with the modules that attention needs.
type attnGPU struct {
	t    *testing.T
	ptx  int // the PTX's target: 80 or 90
	mach *ptx.Machine
	mods map[string]*ptx.Loaded
	// counts by kernel
	counts map[string]ptx.Counts
}

var parsedAttn = map[string]*ptx.Module{}

func newAttnGPU(t *testing.T, target int) *attnGPU {
	return &attnGPU{t: t, ptx: target, mods: map[string]*ptx.Loaded{}, counts: map[string]ptx.Counts{},
		mach: ptx.NewMachine(ptx.Options{Checks: true, Count: true, Workers: 2, Memory: 32 << 20})}
}

func (g *attnGPU) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *attnGPU) alloc(n int) Addr {
	a, err := g.mach.Alloc(n)
	g.must(err)
	return Addr(a)
}

func (g *attnGPU) upload(v any) Addr {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	g.must(err)
	a := g.alloc(len(b))
	g.must(g.mach.Write(uint64(a), b))
	return a
}

func (g *attnGPU) floats(a Addr, n int) []float32 {
	g.t.Helper()
	b := make([]byte, 4*n)
	g.must(g.mach.Read(uint64(a), b))
	f := make([]float32, n)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

func (g *attnGPU) run(ls []Launch, err error) ptx.Counts {
	g.t.Helper()
	g.must(err)
	var sum ptx.Counts
	for _, l := range ls {
		if g.mods[l.Module] == nil {
			file := fmt.Sprintf("../ptx/%s.compute_%d.ptx", l.Module, g.ptx)
			if parsedAttn[file] == nil {
				src, err := os.ReadFile(file)
				g.must(err)
				m, err := ptx.Parse(src)
				g.must(err)
				parsedAttn[file] = m
			}
			lm, err := g.mach.Load(parsedAttn[file])
			g.must(err)
			g.mods[l.Module] = lm
		}
		r, err := g.mach.Launch(g.mods[l.Module], l.Name, ptx.Dim(l.Grid), ptx.Dim(l.Block), l.Shared, l.Params.Data)
		if r != nil {
			for _, f := range r.Findings {
				g.t.Errorf("%s: %v", l.Name, f)
			}
			sum = r.Counts
			c := g.counts[l.Name]
			c.Sectors += r.Counts.Sectors
			c.IdealSectors += r.Counts.IdealSectors
			c.SharedWaves += r.Counts.SharedWaves
			c.IdealWaves += r.Counts.IdealWaves
			g.counts[l.Name] = c
		}
		if err != nil {
			g.t.Fatalf("%s: %v", l.Name, err)
		}
		if g.t.Failed() {
			g.t.FailNow()
		}
	}
	return sum
}

// attnCase is a model's attention, a cache, and what is in a step.
type attnCase struct {
	spec      kernels.Attention
	typ       KVType
	blockSize int
	norm      bool
	turn      int // rotated values
	neox      bool
	lengths   []int    // tokens of the sequences
	spans     [][3]int // sequence, first position, rows
	shared    int      // of the device; 0: 99 KiB
}

func (c attnCase) name() string {
	return fmt.Sprintf("%v/%dof%dx%d/block=%d/window=%d/cap=%v", c.typ, c.spec.KVHeads, c.spec.Heads, c.spec.HeadDim, c.blockSize, c.spec.Window, c.spec.SoftCap)
}

// attnRun is a case on a device: the sequences' tokens lie in the cache.
type attnRun struct {
	attnCase
	*attnGPU
	call    AttentionCall
	target  Target
	blocks  [][]int32 // by sequence
	row     [][]int   // of the fill, by sequence and position
	q       [][]float32
	k, v    [][]float32 // as the cache has them, by fill row
	maxRows int
}

const attnTolerance = 1e-6

// startAttn makes inputs, appends them and checks what lies in the cache then.
func startAttn(g *attnGPU, c attnCase) *attnRun {
	g.t.Helper()
	r := &attnRun{attnCase: c, attnGPU: g, target: Target{Compute: g.ptx, SMs: 4, Shared: 99 << 10}}
	if c.shared != 0 {
		r.target.Shared = c.shared
	}
	rng := rand.New(rand.NewPCG(uint64(c.spec.HeadDim), uint64(c.spec.Heads)))
	var pos, seq []int32
	perm, used, longest := []int(nil), 0, 0
	for s, n := range c.lengths {
		r.row = append(r.row, nil)
		used += ceil(n, c.blockSize)
		longest = max(longest, n)
		for p := range n {
			r.row[s] = append(r.row[s], len(pos))
			pos, seq = append(pos, int32(p)), append(seq, int32(s))
		}
	}
	perm = rng.Perm(used + 3)
	stride := ceil(longest, c.blockSize) + 1
	tables := make([]int32, stride*len(c.lengths))
	for i := range tables {
		tables[i] = 1 << 30 // nobody may follow it
	}
	for s, n := range c.lengths {
		r.blocks = append(r.blocks, nil)
		for b := range ceil(n, c.blockSize) {
			tables[s*stride+b] = int32(perm[0])
			r.blocks[s] = append(r.blocks[s], int32(perm[0]))
			perm = perm[1:]
		}
	}
	// Rows of padding lie between.
	rows := len(pos) + 2
	pos, seq = append(pos, -1, -1), append(seq, 0, 0)
	qw, kw := c.spec.Heads*c.spec.HeadDim, c.spec.KVHeads*c.spec.HeadDim
	qkv := make([]float32, rows*(qw+2*kw))
	for i := range qkv {
		qkv[i] = float32(rng.NormFloat64())
		if rng.IntN(50) == 0 {
			qkv[i] *= 8
		}
	}
	at := g.upload(qkv)
	mat := func(column int) Mat { return Mat{Addr: at + Addr(4*column), Stride: qw + 2*kw} }
	cache := Cache{Type: c.typ, KVHeads: c.spec.KVHeads, HeadDim: c.spec.HeadDim, BlockSize: c.blockSize}
	cache.Addr = g.alloc((used + 3) * int(cache.BlockBytes()))
	r.call = AttentionCall{Rows: rows, Q: mat(0), K: mat(qw), V: mat(qw + kw), Spec: c.spec, Cache: cache, Eps: 1e-6,
		Out:  Mat{Addr: g.alloc(4 * rows * qw), Stride: qw},
		Plan: Plan{Pos: g.upload(pos), Seq: g.upload(seq), Tables: g.upload(tables), MaxBlocks: stride, BlockSize: c.blockSize}}
	var qNorm, kNorm []float32
	if c.norm {
		for range c.spec.HeadDim {
			qNorm, kNorm = append(qNorm, 1+float32(rng.NormFloat64())/4), append(kNorm, 1+float32(rng.NormFloat64())/4)
		}
		r.call.QNorm, r.call.KNorm = g.upload(qNorm), g.upload(kNorm)
	}
	var table []float32
	if c.turn > 0 {
		for p := range longest {
			for i := range c.turn / 2 {
				sin, cos := math.Sincos(float64(p) * math.Pow(10000, -2*float64(i)/float64(c.turn)))
				table = append(table, float32(cos), float32(sin))
			}
		}
		rot := &Rotation{Table: g.upload(table), Dim: c.turn, NeoX: c.neox}
		r.call.QRope, r.call.KRope = rot, rot
	}
	r.run(AppendKV(r.target, r.call))
	after := g.floats(at, len(qkv))
	for row := range rows - 2 {
		p := int(pos[row])
		in := qkv[row*(qw+2*kw):][:qw+2*kw]
		r.q = append(r.q, after[row*(qw+2*kw):][:qw])
		r.check("q", row, r.q[row], r.turned(in[:qw], qNorm, table, p), 1e-6)
		k, v := r.cached(int(seq[row]), p)
		r.checkCached("k", row, k, r.turned(in[qw:qw+kw], kNorm, table, p))
		r.checkCached("v", row, v, in[qw+kw:])
		r.k, r.v = append(r.k, k), append(r.v, v)
	}
	if !slices.Equal(after[(rows-2)*(qw+2*kw):], qkv[(rows-2)*(qw+2*kw):]) {
		g.t.Errorf("a padding row has changed")
	}
	return r
}

// turned norms and rotates every head of x.
func (r *attnRun) turned(x, norm, table []float32, pos int) []float32 {
	x = slices.Clone(x)
	dim := r.spec.HeadDim
	for h := 0; h < len(x); h += dim {
		head := x[h : h+dim]
		if norm != nil {
			var sum float64
			for _, v := range head {
				sum += float64(v) * float64(v)
			}
			inv := 1 / math.Sqrt(sum/float64(dim)+1e-6)
			for i := range head {
				head[i] = float32(float64(head[i]) * inv * float64(norm[i]))
			}
		}
		for i := range r.turn / 2 {
			cos, sin := float64(table[(pos*r.turn/2+i)*2]), float64(table[(pos*r.turn/2+i)*2+1])
			a, b := &head[2*i%dim], &head[(2*i+1)%dim]
			if r.neox {
				a, b = &head[i], &head[i+r.turn/2]
			}
			x, y := float64(*a), float64(*b)
			*a, *b = float32(x*cos-y*sin), float32(x*sin+y*cos)
		}
	}
	return x
}

func (r *attnRun) check(what string, row int, got, want []float32, tol float64) {
	r.t.Helper()
	var top float64
	for _, w := range want {
		top = max(top, math.Abs(float64(w)))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tol*top) {
			r.t.Fatalf("%s of row %d, value %d: got %v, wanted %v (difference %.2g of %.3g)", what, row, i, got[i], want[i], d/top, top)
		}
	}
}

// checkCached: what lies in the cache is what was put there, within its type's
// rounding.
func (r *attnRun) checkCached(what string, row int, got, want []float32) {
	r.t.Helper()
	dim := r.spec.HeadDim
	for h := 0; h < len(got); h += dim {
		var top float64
		for _, w := range want[h : h+dim] {
			top = max(top, math.Abs(float64(w)))
		}
		for i := h; i < h+dim; i++ {
			w := float64(want[i])
			var tol float64
			switch r.typ {
			case KVF16:
				tol = math.Abs(w)/2048*1.001 + 0x1p-25
			case KVBF16:
				tol = math.Abs(w) / 256 * 1.001
			case KVF32:
				tol = top * 1e-6
			case KVFP8:
				tol = max(math.Abs(w)/16*1.001, 0x1p-10)
			case KVInt8:
				tol = top / 254 * 1.001
			}
			if !(math.Abs(float64(got[i])-w) <= tol+1e-6*top) {
				r.t.Fatalf("cached %s of row %d, value %d: got %v, wanted %v within %v", what, row, i, got[i], w, tol)
			}
		}
	}
}

// cached reads a token's keys and values of all KV heads.
func (r *attnRun) cached(seq, pos int) (k, v []float32) {
	c := &r.call.Cache
	block := make([]byte, c.BlockBytes())
	at := uint64(c.Addr) + uint64(int64(r.blocks[seq][pos/c.BlockSize])*c.BlockBytes())
	r.must(r.mach.ReadRaw(at, block)) // other rows may not be there yet
	head := len(block) / c.KVHeads
	row := c.width() * c.Type.bytes()
	for h := range c.KVHeads {
		b := block[h*head:][:head]
		for i, out := range []*[]float32{&k, &v} {
			slot := i*c.BlockSize + pos%c.BlockSize
			scale := float32(1)
			if c.Type == KVInt8 {
				scale = math.Float32frombits(binary.LittleEndian.Uint32(b[2*c.BlockSize*row+4*slot:]))
			}
			for d := range c.width() {
				x := decodeKV(c.Type, b[slot*row+d*c.Type.bytes():]) * scale
				if d < c.HeadDim {
					*out = append(*out, x)
				} else if x != 0 {
					r.t.Fatalf("value %d of a padded row of the cache is %v", d, x)
				}
			}
		}
	}
	return k, v
}

func decodeKV(t KVType, b []byte) float32 {
	switch t {
	case KVF32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case KVF16:
		return kernels.FromF16(binary.LittleEndian.Uint16(b))
	case KVBF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case KVInt8:
		return float32(int8(b[0]))
	}
	e, m := int(b[0]>>3&15), float64(b[0]&7)
	x := math.Ldexp(8+m, e-10)
	if e == 0 {
		x = math.Ldexp(m, -9)
	}
	if b[0] >= 128 {
		x = -x
	}
	return float32(x)
}

// reference attends in float64.
func (r *attnRun) reference(seq, pos int) []float32 {
	s := r.spec
	q := r.q[r.row[seq][pos]]
	out := make([]float32, len(q))
	from := 0
	if s.Window > 0 {
		from = max(0, pos-s.Window+1)
	}
	for h := range s.Heads {
		kvh := h / (s.Heads / s.KVHeads) * s.HeadDim
		p := make([]float64, pos+1-from)
		top, total := math.Inf(-1), 0.0
		for j := range p {
			k := r.k[r.row[seq][from+j]][kvh:]
			for d := range s.HeadDim {
				p[j] += float64(q[h*s.HeadDim+d]) * float64(k[d])
			}
			p[j] *= float64(s.Scale)
			if s.SoftCap > 0 {
				p[j] = float64(s.SoftCap) * math.Tanh(p[j]/float64(s.SoftCap))
			}
			top = max(top, p[j])
		}
		for j := range p {
			p[j] = math.Exp(p[j] - top)
			total += p[j]
		}
		for d := range s.HeadDim {
			var sum float64
			for j := range p {
				sum += p[j] * float64(r.v[r.row[seq][from+j]][kvh+d])
			}
			out[h*s.HeadDim+d] = float32(sum / total)
		}
	}
	return out
}

// rows copies the queries of the spans, and says where each is.
func (r *attnRun) rows(padding int) (c AttentionCall, where [][2]int) {
	c = r.call
	var pos, seq []int32
	for _, s := range r.spans {
		for i := range s[2] {
			where = append(where, [2]int{s[0], s[1] + i})
			pos, seq = append(pos, int32(s[1]+i)), append(seq, int32(s[0]))
		}
	}
	width := r.spec.Heads * r.spec.HeadDim
	c.Rows = len(where) + padding
	c.Q = Mat{Addr: r.alloc(4 * c.Rows * width), Stride: width}
	c.Out = Mat{Addr: r.alloc(4 * c.Rows * (width + 8)), Stride: width + 8}
	for i, w := range where {
		b, err := binary.Append(nil, binary.LittleEndian, r.q[r.row[w[0]][w[1]]])
		r.must(err)
		r.must(r.mach.Write(uint64(c.Q.Addr)+uint64(4*i*width), b))
	}
	for range padding {
		pos, seq = append(pos, -1), append(seq, 0)
	}
	c.Plan.Pos, c.Plan.Seq = r.upload(pos), r.upload(seq)
	return c, where
}

func (r *attnRun) out(c AttentionCall, row int) []float32 {
	return r.floats(c.Out.Addr+Addr(4*row*c.Out.Stride), r.spec.Heads*r.spec.HeadDim)
}

// decode runs the decode form with one row of padding, twice, so that counters
// must have been set back.
func (r *attnRun) decode() (c AttentionCall, where [][2]int, counts ptx.Counts) {
	c, where = r.rows(1)
	for _, w := range where {
		c.MaxChunks = max(c.MaxChunks, w[1]/ChunkKeys+1)
	}
	n := int(AttentionScratch(c.Spec, c.Rows, c.MaxChunks))
	c.Scratch = r.alloc(n)
	r.must(r.mach.Fill(uint64(c.Scratch), 0, int(ticketBytes(c.Spec))))
	counts = r.run(Decode(r.target, c))
	return c, where, counts
}

// prefill runs the prefill form with tiles of up to n rows.
func (r *attnRun) prefill(n int) (c AttentionCall, where [][2]int, counts ptx.Counts) {
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
	c.Plan.Tiles = r.upload(tiles)
	return c, where, r.run(Prefill(r.target, c))
}

// worst is the largest difference to the reference, of the largest value that
// attention mixes.
func (r *attnRun) worst(got, want []float32) (worst float64) {
	var top float64
	for _, v := range r.v {
		for _, x := range v {
			top = max(top, math.Abs(float64(x)))
		}
	}
	for i := range got {
		d := math.Abs(float64(got[i])-float64(want[i])) / top
		if !(d <= worst) {
			worst = d
		}
	}
	return worst
}

func attnBits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i := range x {
		b[i] = math.Float32bits(x[i])
	}
	return b
}

func testAttn(t *testing.T, c attnCase, target int) {
	r := startAttn(newAttnGPU(t, target), c)
	d, where, _ := r.decode()
	var want [][]float32
	var worst float64
	for i, w := range where {
		want = append(want, r.reference(w[0], w[1]))
		got := r.out(d, i)
		e := r.worst(got, want[i])
		if tol := map[KVType]float64{KVF16: 1e-6, KVBF16: 1e-5, KVF32: 1e-6, KVFP8: 1e-6, KVInt8: 1e-6}[c.typ]; !(e <= tol) {
			t.Errorf("decode: sequence %d, position %d: off by %.2g of the largest value, wanted %.2g; got %v, wanted %v", w[0], w[1], e, tol, got[:4], want[i][:4])
		}
		worst = max(worst, e)
	}
	if slices.ContainsFunc(r.out(d, len(where)), func(x float32) bool { return x != 0 }) {
		t.Errorf("decode: a padding row is not zeros")
	}
	first := d
	for again := range 2 { // of other company, and with counters that must be zero again
		e := first
		e.Out.Addr = r.alloc(4 * e.Rows * e.Out.Stride)
		if again == 1 {
			r.target.SMs = 1
		}
		r.run(Decode(r.target, e))
		for i := range where {
			if !slices.Equal(attnBits(r.out(d, i)), attnBits(r.out(e, i))) {
				t.Errorf("decode: row %d has other bits at the second launch", i)
			}
		}
	}
	for _, n := range []int{TileRows, 7} {
		p, _, _ := r.prefill(n)
		for i, w := range where {
			if got := r.out(p, i); !slices.Equal(attnBits(got), attnBits(r.out(d, i))) {
				t.Errorf("prefill in tiles of %d: sequence %d, position %d has other bits than decode: off by %.2g, decode by %.2g", n, w[0], w[1], r.worst(got, want[i]), r.worst(r.out(d, i), want[i]))
			}
		}
	}
	t.Logf("worst %.2g", worst)
	for name, n := range r.counts {
		t.Logf("%s: sectors %d/%d = %.3f, waves %d/%d = %.3f", name, n.Sectors, n.IdealSectors, float64(n.Sectors)/float64(n.IdealSectors), n.SharedWaves, n.IdealWaves, float64(n.SharedWaves)/float64(n.IdealWaves))
	}
}

func attnCases() (cs []attnCase) {
	small := attnCase{blockSize: 16, neox: true, lengths: []int{1, 15, 17}, spans: [][3]int{{0, 0, 1}, {1, 14, 1}, {2, 2, 15}}}
	for _, typ := range []KVType{KVF16, KVF32, KVBF16, KVFP8, KVInt8} {
		c := small
		c.typ = typ
		c.spec = kernels.Attention{Heads: 6, KVHeads: 2, HeadDim: 64, Scale: 0.125}
		c.turn = 64
		cs = append(cs, c)
	}
	return cs
}

func TestAttention(t *testing.T) {
	for _, c := range attnCases() {
		t.Run(c.name(), func(t *testing.T) {
			for _, target := range []int{80, 90} {
				testAttn(t, c, target)
			}
		})
	}
}
