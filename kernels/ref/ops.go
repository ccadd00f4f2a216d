package ref

import (
	"fmt"
	"math"

	"hearth/kernels"
)

// run executes one op over the given rows.
func (d *Device) run(o *kernels.Op, b *kernels.Batch, rows []int32) error {
	switch o.Kind {
	case kernels.OpEmbed:
		for _, r := range rows {
			dst := d.row(o.Dst, r)
			if err := d.tensorRow(o.W, int(b.Tokens[r]), dst); err != nil {
				return err
			}
			scale(dst, o.Factor)
		}
	case kernels.OpRMSNorm:
		w, err := d.vector(o.W)
		if err != nil {
			return err
		}
		for _, r := range rows {
			rmsNorm(d.row(o.Dst, r), d.row(o.A, r), w, o.Eps)
		}
	case kernels.OpLinear:
		return d.linear(o, rows)
	case kernels.OpRope:
		positions(b, func(r int32, _ *kernels.Span, pos int) { rope(d.row(o.Dst, r), o.Rope, pos) })
	case kernels.OpAttention:
		positions(b, func(r int32, s *kernels.Span, pos int) { d.append(o, r, s, pos) })
		positions(b, func(r int32, s *kernels.Span, pos int) { d.attend(o, r, s, pos) })
	case kernels.OpAdd:
		for _, r := range rows {
			dst, a := d.row(o.Dst, r), d.row(o.A, r)
			for i := range dst {
				dst[i] += a[i]
			}
		}
	case kernels.OpScale:
		for _, r := range rows {
			scale(d.row(o.Dst, r), o.Factor)
		}
	case kernels.OpSiluMul, kernels.OpGeluMul:
		act := silu
		if o.Kind == kernels.OpGeluMul {
			act = gelu
		}
		for _, r := range rows {
			dst, a, g := d.row(o.Dst, r), d.row(o.A, r), d.row(o.B, r)
			for i := range dst {
				dst[i] = float32(act(float64(a[i])) * float64(g[i]))
			}
		}
	case kernels.OpSoftCap:
		for _, r := range rows {
			dst := d.row(o.Dst, r)
			for i, x := range dst {
				dst[i] = float32(float64(o.Factor) * tanh(float64(x)/float64(o.Factor)))
			}
		}
	default:
		return fmt.Errorf("unknown kind %d", o.Kind)
	}
	return nil
}

func scale(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

// rmsNorm: every len(w) values of a are divided by the root of their mean
// square (+ eps) and multiplied by w.
func rmsNorm(dst, a, w []float32, eps float32) {
	for g := 0; g < len(a); g += len(w) {
		var sum float64
		for _, x := range a[g : g+len(w)] {
			sum += float64(x) * float64(x)
		}
		inv := 1 / math.Sqrt(sum/float64(len(w))+float64(eps))
		for i, v := range w {
			dst[g+i] = float32(float64(a[g+i]) * inv * float64(v))
		}
	}
}

func silu(x float64) float64 { return x / (1 + exp(-x)) }

// gelu is the tanh approximation of the Gaussian error linear unit.
func gelu(x float64) float64 {
	return 0.5 * x * (1 + tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// linear: dst[r][n] = Σ_k a[r][k]·w[n][k] (+ bias[n]).
func (d *Device) linear(o *kernels.Op, rows []int32) error {
	t := &d.p.Tensors[o.W]
	var bias []float32
	if o.Bias != kernels.NoTensor {
		var err error
		if bias, err = d.vector(o.Bias); err != nil {
			return err
		}
	}
	w, stored := make([]float32, t.Cols), make([]float32, t.Cols)
	for n := range t.Rows {
		if len(rows) == 0 {
			break
		}
		if err := d.tensorRow(o.W, n, stored); err != nil {
			return err
		}
		copy(w, stored)
		for c, k := range t.Order {
			w[k] = stored[c]
		}
		for _, r := range rows {
			var sum float64
			for k, x := range d.row(o.A, r) {
				sum += float64(x) * float64(w[k])
			}
			if bias != nil {
				sum += float64(bias[n])
			}
			d.row(o.Dst, r)[n] = float32(sum)
		}
	}
	return nil
}

// rope turns pair i of every head by pos·InvFreq[i].
func rope(x []float32, r *kernels.Rope, pos int) {
	half := r.Dim / 2
	for h := 0; h < len(x); h += r.HeadDim {
		for i, f := range r.InvFreq {
			sin, cos := math.Sincos(float64(pos) * float64(f))
			sin, cos = sin*float64(r.Scale), cos*float64(r.Scale)
			p, q := h+2*i, h+2*i+1
			if r.NeoX {
				p, q = h+i, h+i+half
			}
			a, b := float64(x[p]), float64(x[q])
			x[p], x[q] = float32(a*cos-b*sin), float32(a*sin+b*cos)
		}
	}
}

// slot is the index in the cache of the token at pos.
func (d *Device) slot(s *kernels.Span, pos int) int {
	return int(s.Blocks[pos/d.kv.BlockSize])*d.kv.BlockSize + pos%d.kv.BlockSize
}

// append writes row r's keys and values to the cache.
func (d *Device) append(o *kernels.Op, r int32, s *kernels.Span, pos int) {
	n := o.Attn.KVHeads * o.Attn.HeadDim
	at := d.slot(s, pos) * n
	for i := range n {
		d.keys[o.Layer][at+i] = round(d.kv.Type, d.row(o.K, r)[i])
		d.vals[o.Layer][at+i] = round(d.kv.Type, d.row(o.V, r)[i])
	}
}

// attend: every head of row r over the keys in its window.
func (d *Device) attend(o *kernels.Op, r int32, s *kernels.Span, pos int) {
	a := o.Attn
	from := 0
	if a.Window > 0 {
		from = max(0, pos-a.Window+1)
	}
	p := make([]float64, pos+1-from)
	for h := range a.Heads {
		kvh := h / (a.Heads / a.KVHeads)
		q := d.row(o.A, r)[h*a.HeadDim : (h+1)*a.HeadDim]
		top := math.Inf(-1)
		for j := range p {
			at := (d.slot(s, from+j)*a.KVHeads + kvh) * a.HeadDim
			var dot float64
			for i, x := range q {
				dot += float64(x) * float64(d.keys[o.Layer][at+i])
			}
			dot *= float64(a.Scale)
			if a.SoftCap > 0 {
				dot = float64(a.SoftCap) * tanh(dot/float64(a.SoftCap))
			}
			p[j] = dot
			top = max(top, dot)
		}
		var total float64
		for j := range p {
			p[j] = exp(p[j] - top)
			total += p[j]
		}
		out := d.row(o.Dst, r)[h*a.HeadDim : (h+1)*a.HeadDim]
		for i := range out {
			var sum float64
			for j := range p {
				at := (d.slot(s, from+j)*a.KVHeads + kvh) * a.HeadDim
				sum += p[j] * float64(d.vals[o.Layer][at+i])
			}
			out[i] = float32(sum / total)
		}
	}
}
