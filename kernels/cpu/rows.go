package cpu

import (
	"math"

	"hearth/kernels"
)

// rowOp runs one op over row r.
func (d *Device) rowOp(th int, o *kernels.Op, r int) {
	dst := d.regs[o.Dst].row(r)
	switch o.Kind {
	case kernels.OpEmbed:
		d.embed(th, dst, o, r)
	case kernels.OpRMSNorm:
		d.normRow(dst, d.regs[o.A].row(r), o)
	case kernels.OpRope:
		d.ropeRow(dst, o.Rope, r)
	default:
		d.pointwise(o, r, 0, len(dst))
	}
}

func scaleRow(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

// normRow normalizes groups of a.
func (d *Device) normRow(dst, a []float32, o *kernels.Op) {
	n := o.Group
	if n == 0 {
		n = len(a)
	}
	w := d.weights[o.W].vector[:n]
	for g := 0; g < len(a); g += n {
		mean := d.ks.sumSquares(a[g:g+n]) / float32(n)
		inv := float32(1 / math.Sqrt(float64(mean)+float64(o.Eps)))
		d.ks.scaleMul(dst[g:g+n], a[g:g+n], w, inv)
	}
}

// ropeRow rotates the heads of x, which are at the position of row r.
func (d *Device) ropeRow(x []float32, rp *kernels.Rope, r int) {
	t := d.rope(rp)
	n := len(rp.InvFreq)
	cos, sin := t.cos[r*n:r*n+n], t.sin[r*n:r*n+n]
	for h := 0; h < len(x); h += rp.HeadDim {
		if rp.NeoX {
			p, q, sin := x[h:][:len(cos)], x[h+n:][:len(cos)], sin[:len(cos)]
			for i, c := range cos {
				a, b, s := p[i], q[i], sin[i]
				p[i], q[i] = float32(a*c)-float32(b*s), float32(a*s)+float32(b*c)
			}
			continue
		}
		v, sin := x[h:h+2*n], sin[:len(cos)]
		for i, c := range cos {
			p := v[2*i:][:2]
			a, b, s := p[0], p[1], sin[i]
			p[0], p[1] = float32(a*c)-float32(b*s), float32(a*s)+float32(b*c)
		}
	}
}

// pointwise runs an elementwise op over columns [from, to) of row r.
func (d *Device) pointwise(o *kernels.Op, r, from, to int) {
	dst := d.regs[o.Dst].row(r)[from:to]
	switch o.Kind {
	case kernels.OpAdd:
		d.ks.add(dst, d.regs[o.A].row(r)[from:to])
	case kernels.OpScale:
		scaleRow(dst, o.Factor)
	case kernels.OpSiluMul:
		d.ks.siluMul(dst, d.regs[o.A].row(r)[from:to], d.regs[o.B].row(r)[from:to])
	case kernels.OpGeluMul:
		d.ks.geluMul(dst, d.regs[o.A].row(r)[from:to], d.regs[o.B].row(r)[from:to])
	case kernels.OpSoftCap:
		for i, x := range dst {
			dst[i] = o.Factor * float32(math.Tanh(float64(x)/float64(o.Factor)))
		}
	}
}
