package cuda

import (
	"fmt"
	"math"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// kernels gives formulas for all kernels but the choice of tokens.
func (e *emulator) kernels() library {
	return library{
		weight: e.weight, linears: e.linears,
		linearScratch:    func(*kernel.Weight, int) int64 { return 64 },
		attentionScratch: func(a kernels.Attention, rows, chunks int) int64 { return int64(rows * chunks * 4) },
		blockBytes:       func(c kernel.Cache) int64 { return int64(c.KVHeads * 2 * c.BlockSize * c.HeadDim * 4) },
		embed:            e.embed, norm: e.norm, normAdd: e.normAdd, rope: e.rope, elementwise: e.elementwise, gather: e.gather,
		appendKV: e.appendKV, decode: e.decode, prefill: e.prefill, sample: kernel.Sample,
	}
}

func (e *emulator) embed(_ kernel.Target, w kernel.Addr, typ kernels.DType, vocab, width int, p kernel.Plan, dst kernel.Mat, rows int, factor float32) ([]kernel.Launch, error) {
	return e.launch("e", func() {
		n := typ.RowBytes(width)
		for r := range rows {
			out := e.row(dst, r, width)
			must(kernels.Dequantize(out, typ, e.view(w+kernel.Addr(int(e.i32(p.Tokens, r))*n), n)))
			for i := range out {
				out[i] *= factor
			}
		}
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func normed(dst, a, w []float32, eps float32) {
	var sum float64
	for _, x := range a {
		sum += float64(x) * float64(x)
	}
	inv := 1 / math.Sqrt(sum/float64(len(a))+float64(eps))
	for i, v := range w {
		dst[i] = float32(float64(a[i]) * inv * float64(v))
	}
}

func (e *emulator) norm(_ kernel.Target, x, dst kernel.Mat, w kernel.Addr, rows, width, group int, eps float32) ([]kernel.Launch, error) {
	return e.launch("n", func() {
		if group == 0 {
			group = width
		}
		for r := range rows {
			in, out := e.row(x, r, width), e.row(dst, r, width)
			for g := 0; g < width; g += group {
				normed(out[g:g+group], in[g:g+group], e.vector(w, group), eps)
			}
		}
	})
}

func (e *emulator) normAdd(_ kernel.Target, x, dst kernel.Mat, w kernel.Addr, rows, width int, eps float32) ([]kernel.Launch, error) {
	return e.launch("N", func() {
		tmp := make([]float32, width)
		for r := range rows {
			normed(tmp, e.row(x, r, width), e.vector(w, width), eps)
			for i, out := 0, e.row(dst, r, width); i < width; i++ {
				out[i] += tmp[i]
			}
		}
	})
}

func (e *emulator) turn(x []float32, rot *kernel.Rotation, headDim int, pos int32) {
	half := rot.Dim / 2
	table := e.vector(rot.Table+kernel.Addr(8*half*int(pos)), 2*half)
	for h := 0; h < len(x); h += headDim {
		for i := range half {
			p, q := h+2*i, h+2*i+1
			if rot.NeoX {
				p, q = h+i, h+i+half
			}
			a, b, cos, sin := float64(x[p]), float64(x[q]), float64(table[2*i]), float64(table[2*i+1])
			x[p], x[q] = float32(a*cos-b*sin), float32(a*sin+b*cos)
		}
	}
}

func (e *emulator) rope(_ kernel.Target, x kernel.Mat, p kernel.Plan, rot kernel.Rotation, rows, heads, headDim int) ([]kernel.Launch, error) {
	return e.launch("r", func() {
		for r := range rows {
			if pos := e.i32(p.Pos, r); pos >= 0 {
				e.turn(e.row(x, r, heads*headDim), &rot, headDim, pos)
			}
		}
	})
}

func (e *emulator) elementwise(_ kernel.Target, op kernels.OpKind, dst, a, b kernel.Mat, rows, width int, factor float32) ([]kernel.Launch, error) {
	return e.launch("p", func() {
		for r := range rows {
			out := e.row(dst, r, width)
			for i := range out {
				switch op {
				case kernels.OpAdd:
					out[i] += e.row(a, r, width)[i]
				case kernels.OpScale:
					out[i] *= factor
				case kernels.OpSoftCap:
					out[i] = float32(float64(factor) * math.Tanh(float64(out[i])/float64(factor)))
				default:
					out[i] = float32(activate(op == kernels.OpGeluMul, e.row(a, r, width)[i]) * float64(e.row(b, r, width)[i]))
				}
			}
		}
	})
}

func activate(gelu bool, v float32) float64 {
	x := float64(v)
	if gelu {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x / (1 + math.Exp(-x))
}

func (e *emulator) gather(_ kernel.Target, src, dst kernel.Mat, p kernel.Plan, rows, width int) ([]kernel.Launch, error) {
	return e.launch("g", func() {
		for i := range rows {
			out := e.row(dst, i, width)
			clear(out)
			if r := e.i32(p.Gather, i); r >= 0 {
				copy(out, e.row(src, int(r), width))
			}
		}
	})
}

// weight lies as the tensors do, one after the other.
func (e *emulator) weight(ts []*kernels.Tensor, gated, fast bool) (*kernel.Weight, error) {
	w := &kernel.Weight{Type: ts[0].Type, K: ts[0].Cols, Gated: gated, Unit: 1}
	var all []byte
	for _, t := range ts {
		if t.Type != w.Type || t.Cols != w.K {
			return nil, fmt.Errorf("%s does not go with %s", t.Name, ts[0].Name)
		}
		w.N += t.Rows
		w.Parts = append(w.Parts, t.Rows)
		all = append(all, t.Data...)
	}
	w.Bytes = int64(len(all))
	w.Pack = func(dst []byte, from int64) { copy(dst, all[from:]) }
	return w, nil
}

func (e *emulator) linears(t kernel.Target, ws []*kernel.Weight, cs []kernel.LinearCall) (all []kernel.Launch, err error) {
	for i, w := range ws {
		ls, err := e.linear(t, w, cs[i])
		if err != nil {
			return nil, err
		}
		all = append(all, ls...)
		if p := cs[i].Post; p != nil {
			ls, err = e.normAdd(t, cs[i].Y, p.Sum, p.W, cs[i].Rows, w.N, p.Eps)
			if err != nil {
				return nil, err
			}
			all = append(all, ls...)
		}
	}
	return all, nil
}

func (e *emulator) linear(_ kernel.Target, w *kernel.Weight, c kernel.LinearCall) ([]kernel.Launch, error) {
	return e.launch("l", func() {
		n := w.Type.RowBytes(w.K)
		m, x, y := make([]float32, w.K), make([]float32, c.Rows*w.K), make([]float32, c.Rows*w.N)
		for r := range c.Rows {
			copy(x[r*w.K:], e.row(c.X, r, w.K))
			if c.Norm != 0 {
				normed(x[r*w.K:(r+1)*w.K], e.row(c.X, r, w.K), e.vector(c.Norm, w.K), c.Eps)
			}
		}
		for o := range w.N {
			must(kernels.Dequantize(m, w.Type, e.view(w.Addr+kernel.Addr(o*n), n)))
			for r := range c.Rows {
				var sum float64
				for k, v := range x[r*w.K : (r+1)*w.K] {
					sum += float64(v) * float64(m[k])
				}
				if c.Bias != 0 {
					sum += float64(e.vector(c.Bias, w.N)[o])
				}
				y[r*w.N+o] = float32(sum)
			}
		}
		for r := range c.Rows {
			e.store(w, &c, r, y[r*w.N:(r+1)*w.N])
		}
	})
}

// store is the end of a linear: y joined, added or written.
func (e *emulator) store(w *kernel.Weight, c *kernel.LinearCall, r int, y []float32) {
	if w.Gated {
		for i := range w.N / 2 {
			y[i] = float32(activate(c.Act == kernel.GeluMul, y[i]) * float64(y[w.N/2+i]))
		}
		y = y[:w.N/2]
	}
	dst := e.row(c.Y, r, len(y))
	for i, v := range y {
		if c.Residual {
			dst[i] += v
		} else {
			dst[i] = v
		}
	}
}

// at is a token's keys, or values, of a head.
func (e *emulator) at(c *kernel.AttentionCall, seq, pos int32, head int, values bool) []float32 {
	t := c.Plan
	block := e.i32(t.Tables, int(seq)*t.MaxBlocks+int(pos)/t.BlockSize)
	dim, size := c.Cache.HeadDim, c.Cache.BlockSize
	i := ((int(block)*c.Cache.KVHeads+head)*2*size + int(pos)%size) * dim
	if values {
		i += size * dim
	}
	return floats(e.view(c.Cache.Addr+kernel.Addr(4*i), 4*dim))
}

func (e *emulator) appendKV(_ kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error) {
	return e.launch("k", func() {
		dim := c.Spec.HeadDim
		for r := range c.Rows {
			pos := e.i32(c.Plan.Pos, r)
			if pos < 0 {
				continue
			}
			seq := e.i32(c.Plan.Seq, r)
			q, k, v := e.row(c.Q, r, c.Spec.Heads*dim), e.row(c.K, r, c.Spec.KVHeads*dim), e.row(c.V, r, c.Spec.KVHeads*dim)
			e.headOps(q, c.QNorm, c.Eps, c.QRope, dim, pos)
			e.headOps(k, c.KNorm, c.Eps, c.KRope, dim, pos)
			for h := range c.Spec.KVHeads {
				for i := range dim {
					e.at(&c, seq, pos, h, false)[i] = kept(c.Cache.Type, k[h*dim+i])
					e.at(&c, seq, pos, h, true)[i] = kept(c.Cache.Type, v[h*dim+i])
				}
			}
		}
	})
}

func (e *emulator) headOps(x []float32, norm kernel.Addr, eps float32, rot *kernel.Rotation, dim int, pos int32) {
	for h := 0; h < len(x) && norm != 0; h += dim {
		normed(x[h:h+dim], x[h:h+dim], e.vector(norm, dim), eps)
	}
	if rot != nil {
		e.turn(x, rot, dim, pos)
	}
}

func kept(t kernel.KVType, x float32) float32 {
	switch t {
	case kernel.KVF16:
		return kernels.FromF16(kernels.ToF16(x))
	case kernel.KVBF16:
		return kernels.FromBF16(kernels.ToBF16(x))
	}
	return x
}

func (e *emulator) decode(_ kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error) {
	return e.launch("a", func() {
		for r := range c.Rows {
			if pos := e.i32(c.Plan.Pos, r); pos >= 0 {
				if int(pos)/kernel.ChunkKeys >= c.MaxChunks {
					panic("a row has more chunks than were said")
				}
				e.attend(&c, r, e.i32(c.Plan.Seq, r), pos)
			}
		}
	})
}

func (e *emulator) prefill(_ kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error) {
	return e.launch("t", func() {
		for t := range c.Tiles {
			first, n, seq, pos := e.i32(c.Plan.Tiles, 4*t), e.i32(c.Plan.Tiles, 4*t+1), e.i32(c.Plan.Tiles, 4*t+2), e.i32(c.Plan.Tiles, 4*t+3)
			for i := range n {
				e.attend(&c, int(first+i), seq, pos+i)
			}
		}
	})
}

func (e *emulator) attend(c *kernel.AttentionCall, r int, seq, pos int32) {
	a := &c.Spec
	from := int32(0)
	if a.Window > 0 {
		from = max(0, pos-int32(a.Window)+1)
	}
	q, out := e.row(c.Q, r, a.Heads*a.HeadDim), e.row(c.Out, r, a.Heads*a.HeadDim)
	p := make([]float64, pos+1-from)
	for h := range a.Heads {
		kvh, top := h/(a.Heads/a.KVHeads), math.Inf(-1)
		for j := range p {
			var dot float64
			for i, x := range e.at(c, seq, from+int32(j), kvh, false) {
				dot += float64(q[h*a.HeadDim+i]) * float64(x)
			}
			dot *= float64(a.Scale)
			if a.SoftCap > 0 {
				dot = float64(a.SoftCap) * math.Tanh(dot/float64(a.SoftCap))
			}
			p[j], top = dot, max(top, dot)
		}
		total, sums := 0.0, make([]float64, a.HeadDim)
		for j := range p {
			w := math.Exp(p[j] - top)
			total += w
			for i, x := range e.at(c, seq, from+int32(j), kvh, true) {
				sums[i] += w * float64(x)
			}
		}
		for i := range sums {
			out[h*a.HeadDim+i] = float32(sums[i] / total)
		}
	}
}
