package replica

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"

	"hearth/engine/infer"
)

// pieceBytes is about four blocks of a cache: 64 tokens of text.
const pieceBytes = 256

// maxPieces bounds how much of a prompt is looked at.
const maxPieces = 256

var seed = maphash.MakeSeed()

// beginning gives a number for each beginning of r's prompt that is a multiple
// of pieceBytes, the shortest first. Requests whose numbers are the same share
// that much of a cache: prefixes are shared within a tenant and a salt only.
func beginning(r *infer.Request) []uint64 {
	p := pieces{}
	p.hash.SetSeed(seed)
	for _, s := range []string{r.Tenant, r.CacheSalt} {
		p.hash.WriteString(s)
		p.hash.WriteByte(0)
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		p.text(t.Name, t.Description, string(t.Parameters))
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		p.text(string(m.Role), m.Name, m.Text(), m.Reasoning)
		for j := range m.ToolCalls {
			p.text(m.ToolCalls[j].Name, m.ToolCalls[j].Arguments)
		}
	}
	if len(r.Prompts) > 0 { // further prompts begin anew
		p.text(r.Prompts[0].Text)
		for _, id := range r.Prompts[0].Tokens {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(id))
			p.text(string(b[:]))
		}
	}
	return p.sums
}

// pieces hashes a text and notes the sum at each multiple of pieceBytes.
type pieces struct {
	hash maphash.Hash
	n    int
	sums []uint64
}

func (p *pieces) text(parts ...string) {
	for _, s := range parts {
		for len(s) > 0 && len(p.sums) < maxPieces {
			k := min(len(s), pieceBytes-p.n)
			p.hash.WriteString(s[:k])
			s, p.n = s[k:], p.n+k
			if p.n == pieceBytes {
				p.sums, p.n = append(p.sums, p.hash.Sum64()), 0
			}
		}
	}
}

// recent is a map that forgets what was not used for longest.
type recent[K comparable, V any] struct {
	most  int
	byKey map[K]*list.Element
	order *list.List // of entry, the latest first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, byKey: map[K]*list.Element{}, order: list.New()}
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	e := r.byKey[k]
	if e == nil {
		return v, false
	}
	r.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

func (r *recent[K, V]) put(k K, v V) {
	if e := r.byKey[k]; e != nil {
		e.Value = entry[K, V]{k, v}
		r.order.MoveToFront(e)
		return
	}
	r.byKey[k] = r.order.PushFront(entry[K, V]{k, v})
	if r.order.Len() > r.most {
		old := r.order.Back()
		r.order.Remove(old)
		delete(r.byKey, old.Value.(entry[K, V]).key)
	}
}
