package main

import (
	"fmt"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// use is what launches of a kernel may ask for on a device.
type use struct {
	threads     int // of a block, at most
	least, most int // bytes of dynamic shared memory of a block
}

// uses are what package kernel may launch, by compute capability × 10.
type uses map[key]map[int]use

// allUses asks package kernel for the launches of every op, over every type and
// over shapes from the smallest to where shared memory ends. The sizes of blocks
// depend on nothing else.
func allUses() uses {
	u := uses{}
	for cc, d := range devices {
		u.ask(kernel.Target{Compute: cc, SMs: 100, Shared: d.blockShared})
	}
	return u
}

// asking notes the launches for one device.
type asking struct {
	u uses
	t kernel.Target
}

func (u uses) ask(t kernel.Target) {
	a := asking{u, t}
	for _, typ := range kernels.DTypes() {
		a.linears(typ)
	}
	a.scaled()
	a.attention()
	a.rows()
}

// note takes the answer of a builder. An error says that this device, or any,
// cannot take the shape; a kernel that was never given is found later.
func (a *asking) note(list []kernel.Launch, err error) {
	if err != nil {
		return
	}
	for i := range list {
		l := &list[i]
		k, shared := key{l.Module, l.Name}, int(l.Shared)
		if a.u[k] == nil {
			a.u[k] = map[int]use{}
		}
		got, ok := a.u[k][a.t.Compute]
		if !ok {
			got.least = shared
		}
		got.threads = max(got.threads, int(l.Block.X*l.Block.Y*l.Block.Z))
		got.least, got.most = min(got.least, shared), max(got.most, shared)
		a.u[k][a.t.Compute] = got
	}
}

const (
	longestRow = 96 << 10  // inputs of a linear
	fullRow    = 128 << 10 // bytes, of float32, that no block holds any more
)

// linears asks for matrices of a type: of every length, as far as the forms for
// few rows of x go, alone and beside another; then for the forms of many rows.
func (a *asking) linears(typ kernels.DType) {
	step := max(32, typ.BlockValues())
	for k := step; k <= longestRow; k += step {
		for rows := 1; rows == 1 || rows <= 8 && rows*k <= fullRow/4; rows++ {
			w := &kernel.Weight{Type: typ, N: 16, K: k, Parts: []int{16}}
			c := call(16, k, rows)
			a.note(kernel.Linear(a.t, w, c))
			a.note(kernel.Linears(a.t, []*kernel.Weight{w, w}, []kernel.LinearCall{c, c}))
		}
	}
	for _, n := range []int{16, 64, 5000, 50000} {
		for _, k := range []int{step, 8 * step, 4096, 14336} {
			for _, rows := range []int{1, 2, 3, 4, 8, 9, 16, 17, 24, 32, 33, 64, 65, 128, 512} {
				a.linear(typ, n, k, rows, false)
				a.linear(typ, n, k, rows, true)
			}
		}
	}
}

func (a *asking) linear(typ kernels.DType, n, k, rows int, gated bool) {
	w := &kernel.Weight{Type: typ, N: n, K: k, Parts: []int{n}}
	c := call(n, k, rows)
	if gated {
		w.Gated, w.Parts, c.Act = true, []int{n / 2, n / 2}, kernel.SiluMul
	}
	a.note(kernel.Linear(a.t, w, c))
	c.Norm = at
	a.note(kernel.Linear(a.t, w, c))
	if !gated {
		c.Post = &kernel.PostNorm{W: at, Eps: 1e-6, Sum: kernel.Mat{Addr: at, Stride: n}}
		a.note(kernel.Linear(a.t, w, c))
	}
}

// scaled asks for one row of matrices whose groups of scales have one run of 32
// inputs and two: their kernels differ.
func (a *asking) scaled() {
	for _, typ := range []kernels.DType{kernels.U4, kernels.U8, kernels.F8} {
		for _, group := range []int{1, 2} {
			const n, k = 16, 256
			data, size := make([]byte, n*typ.RowBytes(k)), typ.BlockBytes()
			for i := range len(data) / size {
				data[i*size] = byte(i / group % 2) // neighbouring groups differ
			}
			for _, gated := range []bool{false, true} {
				t := kernels.Tensor{Name: "w", Type: typ, Rows: n, Cols: k, Data: data}
				w, err := kernel.NewWeight([]*kernels.Tensor{&t, &t}, gated, false)
				if err != nil {
					continue
				}
				c := call(2*n, k, 1)
				if gated {
					c.Act = kernel.SiluMul
				}
				a.note(kernel.Linear(a.t, w, c))
			}
		}
	}
}

// at is an address that pleases every alignment.
const at kernel.Addr = 1 << 40

func call(n, k, rows int) kernel.LinearCall {
	return kernel.LinearCall{Rows: rows, X: kernel.Mat{Addr: at, Stride: k}, Y: kernel.Mat{Addr: at, Stride: n}, Eps: 1e-6, Scratch: at, Counters: at}
}

// attention asks for every type of cache and every width of heads, few and many
// of which share keys, in launches of few and of many rows.
func (a *asking) attention() {
	for typ := kernel.KVF16; typ <= kernel.KVInt8; typ++ {
		for dim := 4; dim <= 1024; dim += 12 {
			for _, group := range []int{1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 71} {
				spec := kernels.Attention{Heads: group, KVHeads: 1, HeadDim: dim, Scale: 1}
				m := kernel.Mat{Addr: at, Stride: group * dim}
				for _, rows := range []int{1, kernel.TileRows} {
					c := kernel.AttentionCall{Rows: rows, Q: m, K: m, V: m, Out: m, Plan: kernel.Plan{BlockSize: 16}, Spec: spec,
						Cache: kernel.Cache{Addr: at, Type: typ, KVHeads: 1, HeadDim: dim, BlockSize: 16}, MaxChunks: 4, Tiles: 1, Scratch: at}
					a.note(kernel.AppendKV(a.t, c))
					a.note(kernel.Decode(a.t, c))
					a.note(kernel.Prefill(a.t, c))
				}
			}
		}
	}
}

// rows asks for what works on whole rows. Shapes change only their grids.
func (a *asking) rows() {
	const n, width, vocab = 3, 1024, 4096
	m, p := kernel.Mat{Addr: at, Stride: width}, kernel.Plan{BlockSize: 16}
	for _, typ := range kernels.DTypes() {
		a.note(kernel.Embed(a.t, at, typ, vocab, width, p, m, n, 1))
	}
	for _, group := range []int{0, 64} {
		a.note(kernel.RMSNorm(a.t, m, m, at, n, width, group, 1e-6))
	}
	for _, op := range []kernels.OpKind{kernels.OpAdd, kernels.OpScale, kernels.OpSiluMul, kernels.OpGeluMul, kernels.OpSoftCap} {
		a.note(kernel.Elementwise(a.t, op, m, m, m, n, width, 1))
	}
	a.note(kernel.Gather(a.t, m, m, p, n, width))
	a.note(kernel.NormAdd(a.t, m, m, at, n, width, 1e-6))
	a.note(kernel.Rope(a.t, m, p, kernel.Rotation{Table: at, Dim: 64}, n, width/64, 64))
	a.note(kernel.Sample(a.t, kernel.SampleCall{Rows: n, Vocab: vocab, Logits: kernel.Mat{Addr: at, Stride: vocab}, Top: true}))
	a.note(kernel.CopyBlocks(a.t, at, 4096, at, n))
	a.note(kernel.ZeroBlocks(a.t, at, 4096, at, n))
}

// of says what launches of a kernel may ask for on a device.
func (u uses) of(k key, cc int) (use, error) {
	got, ok := u[k][cc]
	if !ok {
		return use{}, fmt.Errorf("package kernel launches it on no device of %d.%d, as far as launches.go asks", cc/10, cc%10)
	}
	return got, nil
}
