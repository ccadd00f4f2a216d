package fakeprovider

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// asked says whether a member of a member of a JSON object is true.
func asked(body []byte, outer, inner string) bool {
	var b map[string]json.RawMessage
	json.Unmarshal(body, &b)
	var in map[string]json.RawMessage
	json.Unmarshal(b[outer], &in)
	return string(in[inner]) == "true"
}

// inputs counts the inputs of a request for embeddings.
func inputs(body []byte, field string) int {
	var b map[string]json.RawMessage
	json.Unmarshal(body, &b)
	var many []json.RawMessage
	if json.Unmarshal(b[field], &many) != nil || len(many) == 0 {
		return 1
	}
	if c := many[0][0]; c != '"' && c != '[' && c != '{' {
		return 1 // one list of token ids
	}
	return len(many)
}

// vector is of unit length and differs from input to input.
func (w *render1) vector(i int) []float64 {
	n := w.ans.Vectors
	if n == 0 {
		n = 4
	}
	v := make([]float64, n)
	v[i%n] = 1
	return v
}

func (w *render1) embeddings() {
	var b struct {
		Format string `json:"encoding_format"`
	}
	json.Unmarshal(w.r.Body, &b)
	var data list
	for i := range inputs(w.r.Body, "input") {
		var e any = w.vector(i)
		if b.Format == "base64" {
			var raw []byte
			for _, x := range w.vector(i) {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(x)))
			}
			e = base64.StdEncoding.EncodeToString(raw)
		}
		data = append(data, obj{"object": "embedding", "index": i, "embedding": e})
	}
	n := w.ans.Usage.prompt()
	w.whole(obj{"object": "list", "model": w.r.Model, "data": data, "usage": obj{"prompt_tokens": n, "total_tokens": n}})
}

func (w *render1) ollamaEmbed() {
	var all list
	for i := range inputs(w.r.Body, "input") {
		all = append(all, w.vector(i))
	}
	w.whole(obj{"model": w.r.Model, "embeddings": all, "total_duration": 1000000, "load_duration": 1000, "prompt_eval_count": w.ans.Usage.prompt()})
}

func (w *render1) geminiEmbed() {
	var all list
	for i := range inputs(w.r.Body, "requests") {
		all = append(all, obj{"values": w.vector(i)})
	}
	w.whole(obj{"embeddings": all})
}
