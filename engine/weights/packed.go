package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"hearth/kernels"
)

// A quantized Hugging Face model holds a matrix "x.weight" of N outputs × K in
// parts, which joinPacked makes one tensor of type U4, U8 or F8. Words are
// little-endian int32; level i of a word is its bits from bits·i on.
//
// AWQ ("gemm"): x.qweight (K, N/8): word c of row k has the outputs 8c + 0, 2, 4,
// 6, 1, 3, 5, 7, in this order. x.qzeros (K/group, N/8) likewise. x.scales
// (K/group, N). w = (q - zero)·scale.
//
// GPTQ: x.qweight (K·bits/32, N): word r of output n has the values of K from
// r·32/bits on. x.qzeros (K/group, N·bits/32), the outputs in order, one less than
// the zero point unless the format is gptq_v2. x.scales (K/group, N). x.g_idx (K)
// says the group of each value of K: the columns of a model that was quantized in
// the order of activations (desc_act) belong to groups in another order than their
// own. They are joined sorted by group, with Tensor.Order saying where they were.
//
// pack-quantized: x.weight_packed (N, K·bits/32), x.weight_scale (N, K/group),
// x.weight_zero_point (N·bits/32, K/group) or none, where zero is half the range;
// x.weight_shape; x.weight_g_idx as x.g_idx, or -1 throughout, which is none.
//
// FP8: x.weight of e4m3 (N, K), x.weight_scale_inv or x.weight_scale: one number,
// one an output, or one a block.

// joinPacked makes tensors of the parts and leaves none over.
func (f *File) joinPacked(s *scheme) error {
	j := &joiner{f: f, s: s, raw: map[string]*rawTensor{}, used: map[string]bool{}}
	for i := range f.raw {
		j.raw[f.raw[i].name] = &f.raw[i]
	}
	suffix := map[packedMethod]string{methodAWQ: ".qweight", methodGPTQ: ".qweight", methodPack: ".weight_packed", methodFP8: ".weight"}[s.method]
	var joined []Tensor
	for i := range f.raw {
		base, ok := strings.CutSuffix(f.raw[i].name, suffix)
		if !ok || s.method == methodFP8 && f.raw[i].dtype != "F8_E4M3" {
			continue
		}
		t, err := j.join(base, &f.raw[i])
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		joined = append(joined, *t)
	}
	if len(joined) == 0 {
		return fmt.Errorf("config.json says that the weights are %s, but no tensor ends in %q", s.name(), suffix)
	}
	for i := range f.raw {
		if name := f.raw[i].name; !j.used[name] {
			return fmt.Errorf("tensor %q (%s, %v) belongs to no weight", name, f.raw[i].dtype, f.raw[i].shape)
		}
	}
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t Tensor) bool { return j.used[t.Name] })
	f.Tensors = append(f.Tensors, joined...)
	slices.SortFunc(f.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	f.raw = nil
	return nil
}

type joiner struct {
	f    *File
	s    *scheme
	raw  map[string]*rawTensor
	used map[string]bool
}

func (j *joiner) join(base string, w *rawTensor) (*Tensor, error) {
	j.used[w.name] = true
	if len(w.shape) != 2 {
		return nil, fmt.Errorf("%s has shape %v, wanted two dimensions", w.name, w.shape)
	}
	if j.s.method == methodFP8 {
		return j.float8(base, w)
	}
	return j.integers(base, w)
}

// words finds a part of int32 with the given shape.
func (j *joiner) words(name string, rows, cols int) (*rawTensor, error) {
	r := j.raw[name]
	if r == nil || r.dtype != "I32" || len(r.shape) != 2 || r.shape[0] != rows || r.shape[1] != cols {
		return nil, j.missing(name, "I32", rows, cols)
	}
	j.used[name] = true
	return r, nil
}

func (j *joiner) missing(name, dtype string, dims ...int) error {
	if r := j.raw[name]; r != nil {
		return fmt.Errorf("%s is %s %v, wanted %s %v", name, r.dtype, r.shape, dtype, dims)
	}
	if t := j.float(name); t != nil {
		return fmt.Errorf("%s is %v %v, wanted %s %v", name, t.Type, t.Shape, dtype, dims)
	}
	return fmt.Errorf("%s is missing, wanted %s %v", name, dtype, dims)
}

// float finds a tensor of a float type.
func (j *joiner) float(name string) *Tensor {
	i, ok := slices.BinarySearchFunc(j.f.Tensors, name, func(t Tensor, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &j.f.Tensors[i]
}

// integers joins a weight of 4 or 8 bits.
func (j *joiner) integers(base string, w *rawTensor) (*Tensor, error) {
	if w.dtype != "I32" {
		return nil, fmt.Errorf("%s is %s, wanted I32", w.name, w.dtype)
	}
	p := &packedInts{scheme: *j.s, per: 32 / j.s.bits, words: w.data}
	switch j.s.method {
	case methodAWQ:
		p.k, p.n = w.shape[0], w.shape[1]*p.per
	case methodGPTQ:
		p.k, p.n = w.shape[0]*p.per, w.shape[1]
	case methodPack:
		p.n, p.k = w.shape[0], w.shape[1]*p.per
	}
	groups := 1
	if p.group != -1 {
		groups = p.k / p.group
	}
	if p.k%32 != 0 || groups == 0 || p.k%groups != 0 || p.group != -1 && groups*p.group != p.k {
		return nil, fmt.Errorf("%d values of K in groups of %d, wanted a multiple of both 32 and the group", p.k, p.group)
	}
	p.groups, p.group = groups, p.k/groups
	parts := [][]byte{w.data}
	if err := p.findScales(j, base); err != nil {
		return nil, err
	}
	if err := p.findZeros(j, base); err != nil {
		return nil, err
	}
	if err := p.checkOrder(j, base); err != nil {
		return nil, err
	}
	typ := kernels.U4
	if p.bits == 8 {
		typ = kernels.U8
	}
	return &Tensor{Tensor: kernels.Tensor{Name: base + ".weight", Type: typ, Rows: p.n, Cols: p.k, Order: p.order},
		Shape: []int{p.n, p.k}, unpack: p.unpack, parts: parts}, nil
}

// packedInts are the parts of a weight of integers.
type packedInts struct {
	scheme
	per                 int // levels of a word
	n, k, groups        int
	words, zeros        []byte // zeros nil: half the range
	scales              []byte
	scaleType           kernels.DType
	scaleRow, scaleStep int     // values from one output to the next, and from one group
	order               []int32 // see kernels.Tensor; nil: as they are
}

func (p *packedInts) findScales(j *joiner, base string) error {
	name, shape := base+".scales", []int{p.groups, p.n}
	p.scaleRow, p.scaleStep = 1, p.n
	if p.method == methodPack {
		name, shape = base+".weight_scale", []int{p.n, p.groups}
		p.scaleRow, p.scaleStep = p.groups, 1
	}
	t := j.float(name)
	if t == nil || !slices.Equal(t.Shape, shape) {
		return j.missing(name, "F16", shape...)
	}
	j.used[name] = true
	p.scales, p.scaleType = t.Data, t.Type
	return nil
}

func (p *packedInts) findZeros(j *joiner, base string) error {
	name, rows, cols := base+".qzeros", p.groups, (p.n+p.per-1)/p.per
	if p.method == methodPack {
		if name = base + ".weight_zero_point"; j.raw[name] == nil {
			return nil
		}
		rows, cols = cols, rows
	}
	z, err := j.words(name, rows, cols)
	if err != nil {
		return err
	}
	p.zeros = z.data
	return nil
}

// checkOrder reads what says which group a value of K belongs to, and the shape
// that pack-quantized states once more.
func (p *packedInts) checkOrder(j *joiner, base string) error {
	for _, name := range []string{base + ".g_idx", base + ".weight_g_idx"} {
		r := j.raw[name]
		if r == nil || p.method == methodAWQ {
			continue
		}
		if r.dtype != "I32" || len(r.shape) != 1 || r.shape[0] != p.k {
			return j.missing(name, "I32", p.k)
		}
		j.used[name] = true
		if err := p.sortColumns(name, r.data); err != nil {
			return err
		}
	}
	if r := j.raw[base+".weight_shape"]; r != nil && p.method == methodPack {
		j.used[r.name] = true
		if r.dtype != "I64" || len(r.data) != 16 || binary.LittleEndian.Uint64(r.data) != uint64(p.n) || binary.LittleEndian.Uint64(r.data[8:]) != uint64(p.k) {
			return fmt.Errorf("%s says another shape than %d × %d", r.name, p.n, p.k)
		}
	}
	return nil
}

// sortColumns finds the order that brings the columns of each group together, from
// the group of each.
func (p *packedInts) sortColumns(name string, list []byte) error {
	none := int32(word(list, 0)) == -1
	next, natural := make([]int, p.groups), true // where the next column of a group goes
	for g := range next {
		next[g] = g * p.group
	}
	order := make([]int32, p.k)
	for k := range p.k {
		g := int(int32(word(list, k)))
		switch {
		case none && g == -1:
			continue
		case none || g < 0 || g >= p.groups:
			return fmt.Errorf("%s says that value %d of K is of group %d, wanted 0 to %d, or -1 of all", name, k, g, p.groups-1)
		case next[g] == (g+1)*p.group:
			return fmt.Errorf("%s gives group %d more than %d values of K", name, g, p.group)
		}
		natural = natural && next[g] == k
		order[next[g]] = int32(k)
		next[g]++
	}
	if !none && !natural {
		p.order = order
	}
	return nil
}

// awqPlace is where in a word an output of its eight is.
var awqPlace = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

func word(words []byte, i int) uint32 { return binary.LittleEndian.Uint32(words[4*i:]) }

// zero is the zero point of output n in group g.
func (p *packedInts) zero(n, g int) (byte, error) {
	if p.zeros == nil {
		return 1 << (p.bits - 1), nil
	}
	at, place := g*((p.n+p.per-1)/p.per)+n/p.per, n%p.per
	switch p.method {
	case methodAWQ:
		place = awqPlace[place]
	case methodPack:
		at = n/p.per*p.groups + g
	}
	z := int(word(p.zeros, at) >> (place * p.bits) & (1<<p.bits - 1))
	if p.minusOne {
		z++
	}
	if z > math.MaxUint8 {
		return 0, fmt.Errorf("zero point %d of output %d is not supported, wanted at most 255", z, n)
	}
	return byte(z), nil
}

// levels are the 32 levels of output n from k on.
func (p *packedInts) levels(dst *[32]byte, n, k int) {
	mask := uint32(1<<p.bits - 1)
	if p.order != nil {
		for i, c := range p.order[k : k+32] {
			at := n*(p.k/p.per) + int(c)/p.per
			if p.method == methodGPTQ {
				at = int(c)/p.per*p.n + n
			}
			dst[i] = byte(word(p.words, at) >> (int(c) % p.per * p.bits) & mask)
		}
		return
	}
	switch p.method {
	case methodAWQ:
		shift := awqPlace[n%8] * 4
		for i := range dst {
			dst[i] = byte(word(p.words, (k+i)*(p.n/8)+n/8) >> shift & mask)
		}
		return
	case methodGPTQ:
		for i := 0; i < 32; i += p.per {
			w := word(p.words, (k+i)/p.per*p.n+n)
			for l := range p.per {
				dst[i+l] = byte(w >> (l * p.bits) & mask)
			}
		}
		return
	}
	for i := 0; i < 32; i += p.per {
		w := word(p.words, n*(p.k/p.per)+(k+i)/p.per)
		for l := range p.per {
			dst[i+l] = byte(w >> (l * p.bits) & mask)
		}
	}
}

// unpack writes all rows as U4 or U8.
func (p *packedInts) unpack(dst []byte) error {
	typ := kernels.U4
	if p.bits == 8 {
		typ = kernels.U8
	}
	block, row := typ.BlockBytes(), typ.RowBytes(p.k)
	return eachRows(p.n, func(from, to int) error {
		var q [32]byte
		for k := 0; k < p.k; k += 32 { // a few rows at a time: AWQ and GPTQ have them side by side
			for n := from; n < to; n++ {
				out := dst[n*row+k/32*block:][:block]
				scale, err := p.scale(n, k/p.group)
				if err != nil {
					return err
				}
				binary.LittleEndian.PutUint16(out, scale)
				if out[2], err = p.zero(n, k/p.group); err != nil {
					return err
				}
				p.levels(&q, n, k)
				if p.bits == 8 {
					copy(out[3:], q[:])
					continue
				}
				for i := range 16 {
					out[3+i] = q[i] | q[16+i]<<4
				}
			}
		}
		return nil
	})
}

// scale is the scale of output n in group g, as binary16. One of another type is
// rounded to it; where that would lose more than bfloat16 has, it is refused.
func (p *packedInts) scale(n, g int) (uint16, error) {
	at := n*p.scaleRow + g*p.scaleStep
	if p.scaleType == kernels.F16 {
		return binary.LittleEndian.Uint16(p.scales[2*at:]), nil
	}
	size := p.scaleType.BlockBytes()
	var v [1]float32
	if err := kernels.Dequantize(v[:], p.scaleType, p.scales[size*at:][:size]); err != nil {
		return 0, err
	}
	h := kernels.ToF16(v[0])
	if d := math.Abs(float64(kernels.FromF16(h)) - float64(v[0])); !(d <= math.Abs(float64(v[0]))/256) {
		return 0, fmt.Errorf("scale %v of output %d does not fit 16 bits of float", v[0], n)
	}
	return h, nil
}

// eachRows calls f with runs of rows that cover n, on all processors.
func eachRows(n int, f func(from, to int) error) error {
	const run = 128 // outputs that share a cache line of words, and more
	var all sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), (n+run-1)/run)
	errs := make([]error, workers)
	for w := range workers {
		all.Go(func() {
			for from := w * run; from < n && errs[w] == nil; from += workers * run {
				errs[w] = f(from, min(n, from+run))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
