package weights_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// packedFile opens a directory of the given parts and scheme.
func packedFile(t *testing.T, scheme string, parts ...gguftest.Part) (*weights.File, error) {
	files := gguftest.Directory(gguftest.Options{Layers: 1}, 1)
	files["config.json"] = []byte(`{"quantization_config":` + scheme + `}`)
	files["model.safetensors"] = gguftest.Parts(parts)
	f, err := weights.Open(gguftest.WriteFiles(t, files))
	if err == nil {
		t.Cleanup(func() { f.Close() })
	}
	return f, err
}

func int32s(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func halves(n int, v float32) (b []byte) {
	for range n {
		b = binary.LittleEndian.AppendUint16(b, kernels.ToF16(v))
	}
	return b
}

const (
	awqScheme  = `{"quant_method":"awq","bits":4,"group_size":32,"version":"GEMM","zero_point":true}`
	gptqScheme = `{"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true,"sym":false}`
	gptq8      = `{"quant_method":"gptq","bits":8,"group_size":32,"desc_act":false,"sym":false}`
	fp8Scheme  = `{"quant_method":"fp8","activation_scheme":"dynamic"}`
)

// TestPackedByHand holds one weight of each format to numbers written by hand.
func TestPackedByHand(t *testing.T) {
	rows := func(n int, w uint32) (b []byte) { // n times the same word
		for range n {
			b = append(b, int32s(w)...)
		}
		return b
	}
	for _, c := range []struct {
		name, scheme string
		parts        []gguftest.Part
		want         func(n, k int) float32
	}{
		// Word 0x75316420 has the levels 0, 2, 4, 6, 1, 3, 5, 7 from the lowest on:
		// in the order of AWQ that is outputs 0 … 7 with their own numbers.
		{"awq", awqScheme, []gguftest.Part{
			{Name: "a.qweight", DType: "I32", Shape: []int{32, 1}, Data: rows(32, 0x75316420)}, {Name: "a.qzeros", DType: "I32", Shape: []int{1, 1}, Data: int32s(0x11111111)},
			{Name: "a.scales", DType: "F16", Shape: []int{1, 8}, Data: halves(8, 0.5)}}, func(n, _ int) float32 { return 0.5 * float32(n-1) }},
		// A word of GPTQ has eight values of K of one output, and a stored zero of 1 is 2.
		{"gptq", gptqScheme, []gguftest.Part{
			{Name: "a.qweight", DType: "I32", Shape: []int{4, 8}, Data: rows(32, 0x76543210)}, {Name: "a.qzeros", DType: "I32", Shape: []int{1, 1}, Data: int32s(0x11111111)},
			{Name: "a.scales", DType: "F16", Shape: []int{1, 8}, Data: halves(8, 2)}}, func(_, k int) float32 { return 2 * float32(k%8-2) }},
		{"gptq 8 bits", gptq8, []gguftest.Part{
			{Name: "a.qweight", DType: "I32", Shape: []int{8, 8}, Data: rows(64, 0xff800100)}, {Name: "a.qzeros", DType: "I32", Shape: []int{1, 2}, Data: int32s(0x7f7f7f7f, 0x7f7f7f7f)},
			{Name: "a.scales", DType: "F16", Shape: []int{1, 8}, Data: halves(8, 1)}}, func(_, k int) float32 { return []float32{-128, -127, 0, 127}[k%4] }},
		// 0x38 is 1, 0xc0 is -2, 0x7e is 448, 0x01 is 2^-9.
		{"fp8", fp8Scheme, []gguftest.Part{
			{Name: "a.weight", DType: "F8_E4M3", Shape: []int{8, 32}, Data: []byte(strings.Repeat("\x38\xc0\x7e\x01", 64))}, {Name: "a.weight_scale", DType: "F32", Shape: []int{1}, Data: int32s(math.Float32bits(3))}},
			func(_, k int) float32 { return []float32{3, -6, 1344, 3.0 / 512}[k%4] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := packedFile(t, c.scheme, c.parts...)
			if err != nil {
				t.Fatal(err)
			}
			w, ok := f.Tensor("a.weight")
			if !ok || len(f.Tensors) != 1 || w.Rows != 8 || w.Cols != 32 {
				t.Fatalf("got tensors %v", f.Tensors)
			}
			if err := f.Load(w); err != nil {
				t.Fatal(err)
			}
			x := make([]float32, 8*32)
			if err := kernels.Dequantize(x, w.Type, w.Data); err != nil {
				t.Fatal(err)
			}
			for i, v := range x {
				if want := c.want(i/32, i%32); v != want {
					t.Fatalf("output %d, k %d: got %v, wanted %v", i/32, i%32, v, want)
				}
			}
		})
	}
}

func TestPackedRefused(t *testing.T) {
	zero := make([]byte, 4096)
	part := func(name, dtype string, data int, shape ...int) gguftest.Part {
		return gguftest.Part{Name: name, DType: dtype, Shape: shape, Data: zero[:data]}
	}
	gIdx := func(at int, group uint32) gguftest.Part { // of 64 values in groups of 32, but one value's group
		list := make([]uint32, 64)
		for k := range list {
			list[k] = uint32(k / 32)
		}
		list[at] = group
		return gguftest.Part{Name: "a.g_idx", DType: "I32", Shape: []int{64}, Data: int32s(list...)}
	}
	awq := []gguftest.Part{part("a.qweight", "I32", 256, 64, 1), part("a.qzeros", "I32", 8, 2, 1), part("a.scales", "F16", 32, 2, 8)}
	gptq := []gguftest.Part{part("a.qweight", "I32", 256, 8, 8), part("a.qzeros", "I32", 8, 2, 1), part("a.scales", "F16", 32, 2, 8)}
	for _, c := range []struct {
		want, scheme string
		parts        []gguftest.Part
	}{
		{"3 bits, wanted 4 or 8", `{"quant_method":"gptq","bits":3,"group_size":32}`, gptq},
		{`version "gemv" is not supported`, `{"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"}`, awq},
		{"group_size is 16, wanted -1 or a multiple of 32", `{"quant_method":"awq","bits":4,"group_size":16}`, awq},
		{"group_size is missing", `{"quant_method":"awq","bits":4}`, awq},
		{`checkpoint_format "marlin" is not supported`, `{"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"marlin"}`, gptq},
		{"rules of its own for some layers", `{"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"-:a":{}}}`, gptq},
		{"wanted e4m3", `{"quant_method":"fp8","fmt":"e5m2"}`, nil},
		{"blocks of [128 16]", `{"quant_method":"fp8","weight_block_size":[128,16]}`, nil},
		{"is not supported, wanted float-quantized", `{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"weights":{"num_bits":8,"type":"int"}}}}`, nil},
		{"no tensor ends in", awqScheme, []gguftest.Part{part("a.weight", "F32", 4, 1)}},
		{"a.qzeros is missing", awqScheme, []gguftest.Part{awq[0], awq[2]}},
		{"a.scales is missing", awqScheme, awq[:2]},
		{"a.qzeros is I32 [1 2], wanted I32 [2 1]", awqScheme, []gguftest.Part{awq[0], part("a.qzeros", "I32", 8, 1, 2), awq[2]}},
		{"wanted a multiple of both 32 and the group", awqScheme, []gguftest.Part{part("a.qweight", "I32", 160, 40, 1), awq[1], awq[2]}},
		{`tensor "b" (I64, [2]) belongs to no weight`, awqScheme, append(awq[:3:3], part("b", "I64", 16, 2))},
		{"gives group 1 more than 32 values", gptqScheme, append(gptq[:3:3], gIdx(3, 1))},
		{"value 3 of K is of group 2, wanted 0 to 1", gptqScheme, append(gptq[:3:3], gIdx(3, 2))},
		{"value 3 of K is of group -1, wanted 0 to 1", gptqScheme, append(gptq[:3:3], gIdx(3, 1<<32-1))},
		{"value 1 of K is of group 0, wanted 0 to 1, or -1 of all", gptqScheme, append(gptq[:3:3], gIdx(0, 1<<32-1))},
		{"a.g_idx is I32 [63], wanted I32 [64]", gptqScheme, append(gptq[:3:3], part("a.g_idx", "I32", 252, 63))},
		{`"a.g_idx" (I32, [64]) belongs to no weight`, awqScheme, append(awq[:3:3], gIdx(0, 0))},
		{"a.weight_scale is missing", fp8Scheme, []gguftest.Part{part("a.weight", "F8_E4M3", 64, 2, 32)}},
		{"has shape [3], wanted one number", fp8Scheme, []gguftest.Part{part("a.weight", "F8_E4M3", 64, 2, 32), part("a.weight_scale", "F32", 12, 3)}},
		{"33 values of K, wanted a multiple of 32", fp8Scheme, []gguftest.Part{part("a.weight", "F8_E4M3", 33, 1, 33), part("a.weight_scale", "F32", 4, 1)}},
		{"a bytes an element", awqScheme, []gguftest.Part{part("a.qweight", "I32", 6, 1, 1)}},
	} {
		want := strings.TrimPrefix(c.want, "a bytes")
		if _, err := packedFile(t, c.scheme, c.parts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, wanted it to contain %q", err, want)
		}
	}
	// What only shows when the weight is made.
	nan := []byte(fmt.Sprint("\x7f", strings.Repeat("\x00", 31)))
	f, err := packedFile(t, fp8Scheme, gguftest.Part{Name: "a.weight", DType: "F8_E4M3", Shape: []int{1, 32}, Data: nan}, part("a.weight_scale", "F32", 4, 1))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := f.Tensor("a.weight")
	if err := f.Load(w); err == nil || !strings.Contains(err.Error(), "a weight is not a number") {
		t.Errorf("got %v", err)
	}
	over := append(gptq[1:1:1], part("a.qweight", "I32", 256, 8, 8), gguftest.Part{Name: "a.qzeros", DType: "I32", Shape: []int{1, 2}, Data: int32s(0xffffffff, 0)}, part("a.scales", "F16", 16, 1, 8))
	if f, err = packedFile(t, gptq8, over...); err != nil {
		t.Fatal(err)
	}
	w, _ = f.Tensor("a.weight")
	if err := f.Load(w); err == nil || !strings.Contains(err.Error(), "zero point 256 of output 0") {
		t.Errorf("got %v", err)
	}
}

// TestPackedOrder: where groups hold columns from all over, columns are sorted by
// group, and the tensor says where each was.
func TestPackedOrder(t *testing.T) {
	list := make([]uint32, 64)
	for k := range list {
		list[k] = uint32(1 - k%2) // odd columns are group 0
	}
	words := make([]uint32, 8*8) // word r of output n: the values 8·r … 8·r+7
	for i := range words {
		words[i] = 0x76543210
	}
	var scales []byte
	for _, v := range []float32{1, 100} {
		scales = append(scales, halves(8, v)...)
	}
	parts := []gguftest.Part{
		{Name: "a.qweight", DType: "I32", Shape: []int{8, 8}, Data: int32s(words...)},
		{Name: "a.qzeros", DType: "I32", Shape: []int{2, 1}, Data: int32s(0, 0)}, // zero points of 1
		{Name: "a.scales", DType: "F16", Shape: []int{2, 8}, Data: scales},
		{Name: "a.g_idx", DType: "I32", Shape: []int{64}, Data: int32s(list...)},
	}
	f, err := packedFile(t, gptqScheme, parts...)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := f.Tensor("a.weight")
	if err := f.Load(w); err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 8*64)
	if err := kernels.Dequantize(x, w.Type, w.Data); err != nil {
		t.Fatal(err)
	}
	for c, k := range w.Order {
		if want := int32(2*(c%32) + 1 - c/32); k != want {
			t.Fatalf("column %d multiplies value %d, wanted %d", c, k, want)
		}
		scale := []float32{100, 1}[k%2]
		if got, want := x[3*64+c], scale*float32(k%8-1); got != want {
			t.Errorf("column %d: got %v, wanted %v", c, got, want)
		}
	}
	for k := range list { // none at all is the order as it is
		list[k] = 1<<32 - 1
	}
	parts[3].Data = int32s(list...)
	if f, err = packedFile(t, gptqScheme, parts...); err != nil {
		t.Fatal(err)
	}
	if w, _ = f.Tensor("a.weight"); w.Order != nil {
		t.Errorf("got an order %v, wanted none", w.Order)
	}
}
