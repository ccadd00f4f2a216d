package weights

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"hearth/engine/weights/gguftest"
)

func tinyGGUF() []byte {
	return gguftest.Llama(gguftest.Options{Layers: 1, Hidden: 32, FFN: 32, Heads: 2, KVHeads: 1}).Bytes()
}

// hostile are the values that a header field is set to.
var hostile = []uint64{0, 1, ^uint64(0), 1<<31 - 1, 1 << 31, 1<<31 + 1, 1 << 32, 1<<32 + 1, 1 << 42, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 2}

// field is a number in a header.
type field struct{ at, size int }

// headerFields finds every count, length, type, dimension and offset by walking
// the file as the format says, apart from the parser under test.
func headerFields(b []byte) (fields []field, end int) {
	at := 4
	get := func(size int) uint64 {
		fields = append(fields, field{at, size})
		at += size
		if size == 4 {
			return uint64(binary.LittleEndian.Uint32(b[at-4:]))
		}
		return binary.LittleEndian.Uint64(b[at-8:])
	}
	text := func() { at += int(get(8)) }
	get(4)
	tensors, keys := get(8), get(8)
	sizes := []int{1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8}
	for range keys {
		text()
		switch typ := get(4); typ {
		case 8:
			text()
		case 9:
			elem, n := get(4), get(8)
			for i := range n {
				if elem != 8 {
					at += sizes[elem]
				} else if i < 3 {
					text()
				} else { // more of the same would only cost time
					at += 8 + int(binary.LittleEndian.Uint64(b[at:]))
				}
			}
		case 4, 5:
			get(4)
		case 10, 11:
			get(8)
		default:
			at += sizes[typ]
		}
	}
	for range tensors {
		text()
		for range get(4) {
			get(8)
		}
		get(4)
		get(8)
	}
	return fields, at
}

func (f field) set(b []byte, v uint64) {
	if f.size == 4 {
		binary.LittleEndian.PutUint32(b[f.at:], uint32(v))
	} else {
		binary.LittleEndian.PutUint64(b[f.at:], v)
	}
}

// TestMutatedGGUF sets every header field to every hostile value, some pairs of
// fields too, and cuts the file at every point: parsing must not panic, and may
// allocate twice the file's size and 16 MiB at most.
func TestMutatedGGUF(t *testing.T) {
	good := tinyGGUF()
	fields, end := headerFields(good)
	b := make([]byte, len(good))
	tried, refused := 0, 0
	try := func(data []byte) {
		h, err := parseGGUF(data)
		tried++
		if err != nil {
			refused++
			return
		}
		checkInside(t, h.tensors, len(data))
		readVocabulary(h.meta)
		ggufTemplates(h.meta)
	}
	bounded := func(what string, f func()) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(2*len(good)+16<<20) {
			t.Errorf("%s allocated %d bytes", what, n)
		}
	}
	for i, f := range fields {
		for _, v := range hostile {
			copy(b, good)
			f.set(b, v)
			bounded("one field", func() { try(b) })
			for j := range 5 { // pairs: f stays as it is, one other changes
				g := fields[(i*7+j*31+3)%len(fields)]
				if g == f {
					continue
				}
				g.set(b, hostile[(i+j+int(v%13))%len(hostile)])
				try(b)
				copy(b[g.at:g.at+g.size], good[g.at:])
			}
		}
	}
	for n := range end + 64 {
		try(good[:n])
	}
	for n := end; n < len(good); n += 37 {
		try(good[:n])
	}
	t.Logf("%d fields, %d files, %d refused", len(fields), tried, refused)
	if len(fields) < 140 || refused < tried/2 {
		t.Errorf("%d fields, %d of %d refused: the mutations miss", len(fields), refused, tried)
	}
}

// TestDenseHeaders measures allocation where the header is all the file: many
// tiny keys, tensors and strings.
func TestDenseHeaders(t *testing.T) {
	head := func(tensors, keys int) []byte {
		b := append([]byte("GGUF"), 3, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(tensors))
		return binary.LittleEndian.AppendUint64(b, uint64(keys))
	}
	name := func(b []byte, i int) []byte {
		b = binary.LittleEndian.AppendUint64(b, 4)
		return binary.LittleEndian.AppendUint32(b, uint32(i)|0x20202020)
	}
	keys := head(0, maxKeys)
	for i := range maxKeys {
		keys = binary.LittleEndian.AppendUint32(name(keys, i*4097), uint32(typeUint8))
		keys = append(keys, 1)
	}
	tensors := head(maxTensors, 0)
	for i := range maxTensors {
		tensors = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(tensors, 8), uint64(i)), 1)
		tensors = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(tensors, 1), 0)
		tensors = binary.LittleEndian.AppendUint64(tensors, uint64(i)*32)
	}
	data := (len(tensors) + 31) / 32 * 32
	tensors = append(tensors, make([]byte, data-len(tensors)+32*maxTensors)...)
	const n = 1 << 20
	texts := head(0, 1)
	texts = append(binary.LittleEndian.AppendUint64(texts, 21), "tokenizer.ggml.tokens"...)
	texts = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(texts, uint32(typeArray)), uint32(typeString))
	texts = append(binary.LittleEndian.AppendUint64(texts, n), make([]byte, 8*n)...)
	for what, b := range map[string][]byte{"keys": keys, "tensors": tensors, "texts": texts} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Open(path)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		f.Close()
		spent := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes for a file of %d", what, spent, len(b))
		if spent > uint64(2*len(b)+16<<20) {
			t.Errorf("%s: allocated %d bytes for a file of %d", what, spent, len(b))
		}
	}
}
