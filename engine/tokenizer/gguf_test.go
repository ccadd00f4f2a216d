package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// readVocab reads the tokenizer's metadata of a GGUF file that is trusted; the
// real reader is not for this package to see.
func readVocab(path string) (Vocab, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Vocab{}, err
	}
	r := ggufReader{b: b, kv: map[string]any{}}
	if err := r.read(); err != nil {
		return Vocab{}, fmt.Errorf("%s: %w", path, err)
	}
	v := NewVocab()
	const p = "tokenizer.ggml."
	v.Model, _ = r.kv[p+"model"].(string)
	v.Pre, _ = r.kv[p+"pre"].(string)
	v.Architecture, _ = r.kv["general.architecture"].(string)
	for _, s := range list(r.kv[p+"tokens"]) {
		v.Tokens = append(v.Tokens, s.(string))
	}
	for _, s := range list(r.kv[p+"merges"]) {
		v.Merges = append(v.Merges, s.(string))
	}
	for _, s := range list(r.kv[p+"scores"]) {
		v.Scores = append(v.Scores, math.Float32frombits(s.(uint32)))
	}
	for _, s := range list(r.kv[p+"token_type"]) {
		v.Types = append(v.Types, int32(s.(uint32)))
	}
	for key, id := range map[string]*int32{"bos": &v.BOS, "eos": &v.EOS, "eot": &v.EOT, "eom": &v.EOM, "unknown": &v.UNK, "padding": &v.PAD} {
		if x, ok := r.kv[p+key+"_token_id"].(uint32); ok {
			*id = int32(x)
		}
	}
	for key, f := range map[string]**bool{"add_bos_token": &v.AddBOS, "add_eos_token": &v.AddEOS, "add_space_prefix": &v.AddSpacePrefix} {
		if x, ok := r.kv[p+key].(bool); ok {
			*f = &x
		}
	}
	return v, nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

type ggufReader struct {
	b  []byte
	kv map[string]any
}

func (r *ggufReader) u32() uint32 {
	v := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *ggufReader) u64() uint64 {
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *ggufReader) str() string {
	n := r.u64()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *ggufReader) value(t uint32) any {
	switch t {
	case 0, 1:
		r.b = r.b[1:]
		return nil
	case 2, 3:
		r.b = r.b[2:]
		return nil
	case 4, 5, 6:
		return r.u32()
	case 7:
		v := r.b[0] != 0
		r.b = r.b[1:]
		return v
	case 8:
		return r.str()
	case 9:
		t, n := r.u32(), r.u64()
		l := make([]any, n)
		for i := range l {
			l[i] = r.value(t)
		}
		return l
	}
	return r.u64()
}

func (r *ggufReader) read() error {
	if r.u32() != 0x46554747 {
		return fmt.Errorf("not a GGUF file")
	}
	r.u32()
	r.u64()
	for n := r.u64(); n > 0; n-- {
		key := r.str()
		r.kv[key] = r.value(r.u32())
	}
	return nil
}
