package gguftest

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"hearth/kernels"
)

// Packing is a way to store the matrices of a quantized model.
type Packing struct {
	Method    string // "awq", "gptq", "pack" or "fp8"
	Bits      int    // of integers
	Group     int    // values of K; -1: the row
	Symmetric bool
	V2        bool // gptq_v2
	// Activated: a group has columns from all over, as where they are quantized in
	// the order of activations; the same ones in all matrices of a width, or, if
	// Apart, in no two.
	Activated, Apart bool
	Block            int  // fp8: outputs and values of a block; 0: see Rows
	Rows             bool // fp8: a scale for each output, named as compressed-tensors does
}

// Packed makes a directory with the matrices of the layers packed, and one with
// the numbers that they stand for as F32.
func Packed(o Options, p Packing) (packed, plain map[string][]byte) {
	o = o.filled()
	o.Type = kernels.F32
	packed, plain = Directory(o, 1), Directory(o, 1)
	var parts, exact []Part
	for _, m := range o.weights() {
		t := m.encode(m.hf, kernels.F32, m.x)
		if m.rows > 0 && strings.Contains(m.hf, "_proj") {
			parts = append(parts, p.pack(m.hf, m.x, m.rows, m.cols)...)
			for i, v := range m.x { // now what was packed
				binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(v))
			}
		} else {
			parts = append(parts, Part{t.Name, "F32", t.Shape, t.Data})
		}
		exact = append(exact, Part{t.Name, "F32", t.Shape, t.Data})
	}
	packed["model.safetensors"], plain["model.safetensors"] = Parts(parts), Parts(exact)
	var config map[string]any
	_ = json.Unmarshal(packed["config.json"], &config)
	config["quantization_config"] = p.config()
	packed["config.json"], _ = json.Marshal(config)
	return packed, plain
}

// config is quantization_config as the makers of such models write it.
func (p Packing) config() map[string]any {
	switch p.Method {
	case "awq":
		return map[string]any{"quant_method": "awq", "bits": 4, "group_size": p.Group, "zero_point": true, "version": "gemm", "modules_to_not_convert": nil}
	case "gptq":
		format := "gptq"
		if p.V2 {
			format = "gptq_v2"
		}
		return map[string]any{"quant_method": "gptq", "bits": p.Bits, "group_size": p.Group, "sym": p.Symmetric, "desc_act": p.Activated,
			"damp_percent": 0.01, "static_groups": false, "true_sequential": true, "checkpoint_format": format}
	}
	weights := map[string]any{"num_bits": 8, "type": "float", "symmetric": true, "dynamic": false, "strategy": "channel", "group_size": nil, "actorder": nil}
	format := "float-quantized"
	switch {
	case p.Method == "pack":
		format = "pack-quantized"
		weights["num_bits"], weights["type"], weights["symmetric"] = p.Bits, "int", p.Symmetric
		if p.Activated {
			weights["actorder"] = "group"
		}
		if p.Group != -1 {
			weights["strategy"], weights["group_size"] = "group", p.Group
		}
	case p.Block > 0:
		return map[string]any{"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": []int{p.Block, p.Block}}
	case !p.Rows:
		return map[string]any{"quant_method": "fp8", "activation_scheme": "static"}
	}
	return map[string]any{"quant_method": "compressed-tensors", "format": format, "ignore": []string{"lm_head"},
		"config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"}, "weights": weights}}}
}

// pack rounds x (n, k) in place and gives the parts.
func (p Packing) pack(name string, x []float32, n, k int) []Part {
	if p.Method == "fp8" {
		return p.packFloats(name, x, n, k)
	}
	group := p.Group
	if group == -1 {
		group = k
	}
	groups, top, order := k/group, 1<<p.Bits-1, p.order(name, k)
	q, scales, zeros := make([]int, n*k), make([]float32, n*groups), make([]int, n*groups)
	for r := range n {
		for g := range groups {
			run := order[g*group:][:group]
			lo, hi := float32(0), float32(0)
			for _, c := range run {
				v := x[r*k+c]
				lo, hi = min(lo, v), max(hi, v)
			}
			z := top/2 + 1
			d := 2 * max(hi, -lo) / float32(top)
			if !p.Symmetric {
				d = (hi - lo) / float32(top)
				z = min(int(math.Round(float64(-lo/d))), top)
			}
			d = kernels.FromF16(kernels.ToF16(d))
			scales[r*groups+g], zeros[r*groups+g] = d, z
			for _, c := range run {
				level := max(0, min(top, int(math.Round(float64(x[r*k+c]/d)))+z))
				q[r*k+c] = level
				x[r*k+c] = d * float32(level-z)
			}
		}
	}
	parts := p.parts(name, q, scales, zeros, n, k, groups)
	list := make([]byte, 4*k)
	for i, c := range order {
		binary.LittleEndian.PutUint32(list[4*c:], uint32(i/group))
	}
	switch {
	case p.Method == "gptq":
		parts = append(parts, Part{name + ".g_idx", "I32", []int{k}, list})
	case p.Method == "pack" && p.Activated:
		parts = append(parts, Part{name + ".weight_g_idx", "I32", []int{k}, list})
	}
	return parts
}

// order lists the columns of the first group, then those of the second, ….
func (p Packing) order(name string, k int) []int {
	if !p.Activated {
		order := make([]int, k)
		for i := range order {
			order[i] = i
		}
		return order
	}
	seed := fnv.New64()
	if p.Apart {
		seed.Write([]byte(name))
	}
	return rand.New(rand.NewPCG(seed.Sum64(), uint64(k))).Perm(k)
}

// words is an int32 matrix to scatter levels into.
type words struct {
	rows, cols int
	data       []byte
}

func newWords(rows, cols int) *words { return &words{rows, cols, make([]byte, 4*rows*cols)} }

func (w *words) or(row, col, shift, v int) {
	at := w.data[4*(row*w.cols+col):]
	binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|uint32(v)<<shift)
}

func (w *words) part(name string) Part { return Part{name, "I32", []int{w.rows, w.cols}, w.data} }

// parts lays out levels q (n, k), scales and zero points (n, groups).
func (p Packing) parts(name string, q []int, scales []float32, zeros []int, n, k, groups int) []Part {
	per, minus := 32/p.Bits, 0
	var qw, qz *words
	var place func(i int) int // of an output in its word
	plain := func(i int) int { return i * p.Bits }
	switch p.Method {
	case "awq":
		qw, qz = newWords(k, n/per), newWords(groups, n/per)
		place = func(i int) int { return []int{0, 16, 4, 20, 8, 24, 12, 28}[i] }
	case "gptq":
		qw, qz = newWords(k/per, n), newWords(groups, n/per)
		place = plain
		if !p.V2 {
			minus = 1
		}
	default:
		qw, qz = newWords(n, k/per), newWords(n/per, groups)
		place = plain
	}
	scale := make([]byte, 2*n*groups)
	for r := range n {
		for c := range k {
			switch v := q[r*k+c]; p.Method {
			case "awq":
				qw.or(c, r/per, place(r%per), v)
			case "gptq":
				qw.or(c/per, r, plain(c%per), v)
			default:
				qw.or(r, c/per, plain(c%per), v)
			}
		}
		for g := range groups {
			at := g*n + r
			if p.Method == "pack" {
				at = r*groups + g
				qz.or(r/per, g, place(r%per), zeros[r*groups+g])
			} else {
				qz.or(g, r/per, place(r%per), zeros[r*groups+g]-minus)
			}
			binary.LittleEndian.PutUint16(scale[2*at:], kernels.ToF16(scales[r*groups+g]))
		}
	}
	if p.Method == "pack" {
		shape := make([]byte, 16)
		binary.LittleEndian.PutUint64(shape, uint64(n))
		binary.LittleEndian.PutUint64(shape[8:], uint64(k))
		all := []Part{qw.part(name + ".weight_packed"), {name + ".weight_scale", "F16", []int{n, groups}, scale}, {name + ".weight_shape", "I64", []int{2}, shape}}
		if !p.Symmetric {
			all = append(all, qz.part(name+".weight_zero_point"))
		}
		return all
	}
	all := []Part{qw.part(name + ".qweight"), qz.part(name + ".qzeros"), {name + ".scales", "F16", []int{groups, n}, scale}}
	if p.Method == "gptq" {
		all = append(all, Part{name + ".bias", "F16", []int{n}, make([]byte, 2*n)})
	}
	return all
}

// packFloats rounds to e4m3.
func (p Packing) packFloats(name string, x []float32, n, k int) []Part {
	rows, cols, scaleName := n, k, name+".weight_scale"
	shape := []int{}
	switch {
	case p.Block > 0:
		rows, cols, scaleName = p.Block, p.Block, name+".weight_scale_inv"
		shape = []int{(n + rows - 1) / rows, (k + cols - 1) / cols}
	case p.Rows:
		rows, shape = 1, []int{n, 1}
	}
	wide := (k + cols - 1) / cols
	scales := make([]float32, (n+rows-1)/rows*wide)
	for i, v := range x {
		at := &scales[i/k/rows*wide+i%k/cols]
		*at = max(*at, float32(math.Abs(float64(v)))/448)
	}
	data, scale := make([]byte, n*k), make([]byte, 0, 4*len(scales))
	for i, v := range x {
		d := scales[i/k/rows*wide+i%k/cols]
		data[i] = toE4M3(v / d)
		x[i] = d * kernels.FromE4M3(data[i])
	}
	for _, d := range scales {
		scale = binary.LittleEndian.AppendUint32(scale, math.Float32bits(d))
	}
	all := []Part{{name + ".weight", "F8_E4M3", []int{n, k}, data}, {scaleName, "F32", shape, scale}}
	if p.Block == 0 && !p.Rows {
		all = append(all, Part{name + ".input_scale", "F32", []int{1}, []byte{0, 0, 128, 63}})
	}
	return all
}

// toE4M3 is the nearest number of e4m3, by trying all.
func toE4M3(v float32) byte {
	best, off := byte(0), math.Inf(1)
	for b := range 256 {
		if d := math.Abs(float64(kernels.FromE4M3(byte(b))) - float64(v)); d < off {
			best, off = byte(b), d
		}
	}
	return best
}
