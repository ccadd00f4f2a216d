package kernel_test

import (
	"encoding/binary"
	"math"
	"slices"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

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

// turned norms and rotates every head of x.
func (r *attnRun) turned(x, norm []float32, pos int) []float32 {
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
			cos, sin := float64(r.angles[(pos*r.turn/2+i)*2]), float64(r.angles[(pos*r.turn/2+i)*2+1])
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
			case kernel.KVF16:
				tol = math.Abs(w)/2048*1.001 + 0x1p-25
			case kernel.KVBF16:
				tol = math.Abs(w) / 256 * 1.001
			case kernel.KVF32:
				tol = top * 1e-6
			case kernel.KVFP8:
				tol = max(math.Abs(w)/16*1.001, 0x1p-10)
			case kernel.KVInt8:
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
	must(r.t, r.ReadRaw(at, block)) // other rows may not be there yet
	head := len(block) / c.KVHeads
	row := kvWidth(c.HeadDim) * kvBytes[c.Type]
	for h := range c.KVHeads {
		b := block[h*head:][:head]
		for i, out := range []*[]float32{&k, &v} {
			slot := i*c.BlockSize + pos%c.BlockSize
			scale := float32(1)
			if c.Type == kernel.KVInt8 {
				scale = math.Float32frombits(binary.LittleEndian.Uint32(b[2*c.BlockSize*row+4*slot:]))
			}
			for d := range kvWidth(c.HeadDim) {
				x := decodeKV(c.Type, b[slot*row+d*kvBytes[c.Type]:]) * scale
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

func decodeKV(t kernel.KVType, b []byte) float32 {
	switch t {
	case kernel.KVF32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case kernel.KVF16:
		return kernels.FromF16(binary.LittleEndian.Uint16(b))
	case kernel.KVBF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case kernel.KVInt8:
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
