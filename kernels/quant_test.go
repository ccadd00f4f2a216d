package kernels

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type quantCase struct {
	Name   string
	Blocks int
	Hex    string
	F32Hex string `json:"f32_hex"`
	Source []float32
}

type quantFile struct {
	Type        string
	BlockValues int `json:"block_values"`
	BlockBytes  int `json:"block_bytes"`
	Cases       []quantCase
}

// sharedDir finds the folder of shared test material beside the repository.
func sharedDir(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	shared := filepath.Join(filepath.Dir(dir), "shared")
	if _, err := os.Stat(shared); err != nil {
		t.Skip("SKIPPED: the shared test vectors are not beside this checkout: " + shared)
	}
	return shared
}

func checkQuantFile(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f quantFile
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	checkQuants(t, &f)
}

func checkQuants(t *testing.T, f *quantFile) {
	typ, err := ParseDType(f.Type)
	if err != nil {
		t.Logf("%s: not a type of ours", f.Type)
		return
	}
	if typ.BlockValues() != f.BlockValues || typ.BlockBytes() != f.BlockBytes {
		t.Fatalf("%v: geometry %d/%d, want %d/%d", typ, typ.BlockValues(), typ.BlockBytes(), f.BlockValues, f.BlockBytes)
	}
	for _, c := range f.Cases {
		t.Run(f.Type+"/"+c.Name, func(t *testing.T) { checkQuantCase(t, typ, c) })
	}
}

func checkQuantCase(t *testing.T, typ DType, c quantCase) {
	src, err := hex.DecodeString(c.Hex)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(c.F32Hex)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(want)/4)
	if err := Dequantize(got, typ, src); err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
		if math.Float32bits(g) != math.Float32bits(w) && !(g != g && w != w) {
			t.Fatalf("value %d: got %v (%08x), want %v (%08x)", i, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
	plain := typ == F16 || typ == BF16
	if len(c.Source) == 0 || !plain && !strings.HasPrefix(c.Name, "quantized-") {
		return
	}
	enc := make([]byte, len(src))
	if err := Quantize(enc, typ, c.Source); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(enc, src) {
		t.Fatalf("quantized bytes differ\n got %x\nwant %x", enc, src)
	}
}

func TestQuantVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedDir(t), "vectors", "quants", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no quant vectors found: %v", err)
	}
	for _, f := range files {
		checkQuantFile(t, f)
	}
}

// A block or two of every type, so that a checkout alone can be tested.
func TestQuantBlocks(t *testing.T) {
	raw, err := os.ReadFile("testdata/quants.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []quantFile
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		checkQuants(t, &all[i])
	}
}

func TestHalfExhaustive(t *testing.T) {
	for h := range 1 << 16 {
		f := FromF16(uint16(h))
		if back := ToF16(f); back != uint16(h) && f == f {
			t.Fatalf("binary16 %04x → %v → %04x", h, f, back)
		}
		b := FromBF16(uint16(h))
		if back := ToBF16(b); back != uint16(h) && b == b {
			t.Fatalf("bfloat16 %04x → %v → %04x", h, b, back)
		}
	}
	// Between two neighbours the nearer wins, and the even one of a tie.
	for h := range 0x7bff {
		lo, hi := FromF16(uint16(h)), FromF16(uint16(h+1))
		mid := lo + (hi-lo)/2
		want := uint16(h + h&1)
		if got := ToF16(mid); got != want {
			t.Fatalf("ToF16(%v) = %04x, want %04x", mid, got, want)
		}
		if got := ToF16(math.Nextafter32(mid, hi)); got != uint16(h+1) {
			t.Fatalf("ToF16 just above %v = %04x, want %04x", mid, got, h+1)
		}
	}
	for _, c := range []struct {
		f    float32
		want uint16
	}{{65504, 0x7bff}, {65519.996, 0x7bff}, {65520, 0x7c00}, {1e10, 0x7c00}, {-1e-10, 0x8000}} {
		if got := ToF16(c.f); got != c.want {
			t.Errorf("ToF16(%v) = %04x, want %04x", c.f, got, c.want)
		}
	}
}

func TestQuantizeErrors(t *testing.T) {
	if err := Dequantize(make([]float32, 32), Q4_0, make([]byte, 17)); err == nil {
		t.Error("half a block accepted")
	}
	if err := Dequantize(make([]float32, 31), Q4_0, make([]byte, 18)); err == nil {
		t.Error("short destination accepted")
	}
	if err := Dequantize(nil, DType(99), nil); err == nil {
		t.Error("unknown type accepted")
	}
	if err := Quantize(make([]byte, 144), Q4_K, make([]float32, 256)); err == nil {
		t.Error("Q4_K accepted")
	}
	if err := Quantize(make([]byte, 34), Q8_0, make([]float32, 33)); err == nil {
		t.Error("ragged source accepted")
	}
}
