package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// store is everything of a program that lies in device memory unchanged: weights
// in their kernels' layout, tables of embeddings as the file has them, norm
// weights and biases as float32, tables of angles.
type store struct {
	p    *kernels.Program
	lib  *library
	fast bool

	linears  map[string]*kernel.Weight
	tables   map[kernels.TensorID]*table
	vectors  map[string]*constant // norm weights and joined biases
	rotation []*rotation
	uploads  []upload // in the order of the program
	bytes    int64    // of all of them
}

// constant is something at an address.
type constant struct{ addr kernel.Addr }

// table is a matrix of embeddings.
type table struct {
	constant
	typ kernels.DType
}

// rotation is the table of angles of one kernels.Rope.
type rotation struct {
	rope *kernels.Rope
	constant
}

// upload is one thing to be made in device memory.
type upload struct {
	name    string
	bytes   int64
	unit    int64 // pieces are multiples of it
	pack    func(dst []byte, from int64)
	addr    *kernel.Addr
	tensors []kernels.TensorID // whose Data pack reads
}

func newStore(p *kernels.Program, lib *library, fast bool) *store {
	return &store{p: p, lib: lib, fast: fast, linears: map[string]*kernel.Weight{}, tables: map[kernels.TensorID]*table{}, vectors: map[string]*constant{}}
}

func (s *store) add(u upload) {
	s.uploads = append(s.uploads, u)
	s.bytes += u.bytes
}

// gather notes what nodes need. positions is the length of tables of angles.
func (s *store) gather(nodes []node, positions int) error {
	for i := range nodes {
		n := &nodes[i]
		switch n.kind {
		case nodeEmbed:
			s.table(n.op.W)
		case nodeNorm, nodeNormAdd:
			if _, err := s.vector([]kernels.TensorID{n.op.W}, nil); err != nil {
				return err
			}
		case nodeRope:
			s.rope(n.op.Rope, positions)
		case nodeLinear:
			for _, l := range n.lins {
				if err := s.linear(l); err != nil {
					return err
				}
			}
		case nodeAttention:
			for _, id := range []kernels.TensorID{n.attn.qNorm, n.attn.kNorm} {
				if id != kernels.NoTensor {
					if _, err := s.vector([]kernels.TensorID{id}, nil); err != nil {
						return err
					}
				}
			}
			s.rope(n.attn.qRope, positions)
			s.rope(n.attn.kRope, positions)
		}
	}
	return nil
}

// key names a list of tensors.
func key(ids []kernels.TensorID) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "%d ", id)
	}
	return b.String()
}

func (l *linearNode) weights() (ids, biases []kernels.TensorID, biased bool) {
	for i := range l.mats {
		ids, biases = append(ids, l.mats[i].W), append(biases, l.mats[i].Bias)
		biased = biased || l.mats[i].Bias != kernels.NoTensor
	}
	return ids, biases, biased
}

// weight is the layout of a linear's matrices, the same for every linear that has
// them.
func (s *store) weight(l *linearNode) *kernel.Weight {
	ids, _, _ := l.weights()
	return s.linears[fmt.Sprintf("%v %s", l.gated, key(ids))]
}

func (s *store) linear(l *linearNode) error {
	ids, biases, biased := l.weights()
	for _, norm := range []*kernels.Op{l.norm, l.post} {
		if norm == nil {
			continue
		}
		if _, err := s.vector([]kernels.TensorID{norm.W}, nil); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%v %s", l.gated, key(ids))
	if s.linears[name] == nil {
		var ts []*kernels.Tensor
		for _, id := range ids {
			ts = append(ts, &s.p.Tensors[id])
		}
		w, err := s.lib.weight(ts, l.gated, s.fast)
		if err != nil {
			return err
		}
		s.linears[name] = w
		s.add(upload{name: ts[0].Name, bytes: w.Bytes, unit: w.Unit, pack: w.Pack, addr: &w.Addr, tensors: ids})
	}
	if biased {
		_, err := s.vector(biases, l.mats)
		return err
	}
	return nil
}

// table is a matrix of embeddings as the file has it, or as float32 where no kernel
// reads rows of its type.
func (s *store) table(id kernels.TensorID) *table {
	if t := s.tables[id]; t != nil {
		return t
	}
	w := &s.p.Tensors[id]
	t := &table{typ: w.Type}
	s.tables[id] = t
	u := upload{name: w.Name, bytes: int64(len(w.Data)), unit: 1, addr: &t.addr, tensors: []kernels.TensorID{id},
		pack: func(dst []byte, from int64) { copy(dst, w.Data[from:]) }}
	if w.Type > kernels.IQ4_NL {
		t.typ = kernels.F32
		row := int64(w.Type.RowBytes(w.Cols))
		u.bytes, u.unit = 4*int64(w.Rows)*int64(w.Cols), 4*int64(w.Cols)
		u.pack = func(dst []byte, from int64) {
			for r := from / u.unit; len(dst) > 0; r, dst = r+1, dst[u.unit:] {
				if err := kernels.Dequantize(floats(dst)[:w.Cols], w.Type, w.Data[r*row:(r+1)*row]); err != nil {
					panic(fmt.Sprintf("BUG: a row of a validated tensor: %v", err))
				}
			}
		}
	}
	s.add(u)
	return t
}

// vector is a list of row vectors, one after the other, as float32. An absent
// bias among them is as many zeros as its matrix has rows.
func (s *store) vector(ids []kernels.TensorID, mats []kernels.Op) (*constant, error) {
	name := key(ids)
	if slices.Contains(ids, kernels.NoTensor) {
		for i := range mats {
			name += fmt.Sprintf("of %d ", s.p.Regs[mats[i].Dst])
		}
	}
	if c := s.vectors[name]; c != nil {
		return c, nil
	}
	var values []float32
	u := upload{name: "vector"}
	for i, id := range ids {
		if id == kernels.NoTensor {
			values = append(values, make([]float32, s.p.Regs[mats[i].Dst])...)
			continue
		}
		t := &s.p.Tensors[id]
		v := make([]float32, t.Cols)
		if err := kernels.Dequantize(v, t.Type, t.Data[:t.Type.RowBytes(t.Cols)]); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", t.Name, err)
		}
		values = append(values, v...)
		u.name, u.tensors = t.Name, append(u.tensors, id)
	}
	c := &constant{}
	s.vectors[name] = c
	u.bytes, u.unit, u.addr = 4*int64(len(values)), 4, &c.addr
	u.pack = func(dst []byte, from int64) {
		for i := range len(dst) / 4 {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(values[int(from)/4+i]))
		}
	}
	s.add(u)
	return c, nil
}

// bias is the address of a linear's biases, or 0.
func (s *store) bias(l *linearNode) kernel.Addr {
	_, biases, biased := l.weights()
	if !biased {
		return 0
	}
	c, _ := s.vector(biases, l.mats) // gather has made it
	return c.addr
}

// norm is the address of a norm's weights, or 0 of NoTensor.
func (s *store) norm(id kernels.TensorID) kernel.Addr {
	if id == kernels.NoTensor {
		return 0
	}
	c, _ := s.vector([]kernels.TensorID{id}, nil) // gather has made it
	return c.addr
}

// rope notes the table of a rotation; layers share those that are equal.
func (s *store) rope(r *kernels.Rope, positions int) {
	if r == nil || s.angles(r) != nil {
		return
	}
	t := &rotation{rope: r}
	s.rotation = append(s.rotation, t)
	half := int64(r.Dim / 2)
	s.add(upload{name: "angles", bytes: 8 * half * int64(positions), unit: 8 * half, addr: &t.addr, pack: func(dst []byte, from int64) {
		pos := from / (8 * half)
		for len(dst) > 0 {
			for i, f := range r.InvFreq {
				sin, cos := math.Sincos(float64(pos) * float64(f))
				binary.LittleEndian.PutUint32(dst[8*i:], math.Float32bits(float32(cos*float64(r.Scale))))
				binary.LittleEndian.PutUint32(dst[8*i+4:], math.Float32bits(float32(sin*float64(r.Scale))))
			}
			dst, pos = dst[8*half:], pos+1
		}
	}})
}

// angles finds the table of a rotation.
func (s *store) angles(r *kernels.Rope) *rotation {
	for _, t := range s.rotation {
		o := t.rope
		if o.Dim == r.Dim && o.Scale == r.Scale && slices.Equal(o.InvFreq, r.InvFreq) {
			return t
		}
	}
	return nil
}
