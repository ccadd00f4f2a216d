package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand"
	"reflect"
	"testing"
	"testing/quick"

	"hearth/engine/infer"
)

// TestCodec: random values of every message come back as they were.
func TestCodec(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, m := range []any{hello{}, ping{}, beat{}, call{}, result{}, wireError{}, infer.Event{}} {
		typ := reflect.TypeOf(m)
		for range 100 {
			v, ok := quick.Value(typ, rng)
			if !ok {
				t.Fatalf("cannot make a %s", typ)
			}
			b := encodeValue(nil, v.Interface())
			got := reflect.New(typ)
			if err := decodeValue(b, got.Interface()); err != nil {
				t.Fatalf("%s: %v", typ, err)
			}
			if !reflect.DeepEqual(got.Elem().Interface(), v.Interface()) {
				t.Fatalf("%s: got %+v, want %+v", typ, got.Elem(), v)
			}
			for _, short := range []int{0, len(b) / 2, len(b) - 1} {
				if short < len(b) && decodeValue(b[:short], reflect.New(typ).Interface()) == nil {
					t.Fatalf("%s: %d of %d bytes are taken", typ, short, len(b))
				}
			}
		}
	}
}

func TestCodecKeepsNil(t *testing.T) {
	nan := infer.Event{Logprobs: []infer.TokenLogprob{{Logprob: math.NaN(), Bytes: []byte{0xff}}}}
	var got infer.Event
	if err := decodeValue(encodeValue(nil, nan), &got); err != nil || !math.IsNaN(got.Logprobs[0].Logprob) || got.Logprobs[0].Bytes[0] != 0xff {
		t.Errorf("got %+v, %v", got, err)
	}
	r := request("\xff")
	r.Tools = []infer.Tool{{Name: "a", Parameters: json.RawMessage(`{ "x" : 1 }`)}, {Name: "b"}}
	r.Prompts = append(r.Prompts, infer.Prompt{Tokens: []int32{}}, infer.Prompt{})
	r.Sampling.LogitBias = map[int32]float64{5: math.Inf(-1), -3: 2}
	seed := int64(-1)
	r.Sampling.Seed = &seed
	b := encodeValue(nil, r)
	var back *infer.Request
	if err := decodeValue(b, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("got %+v, %v", back, err)
	}
	if !bytes.Equal(encodeValue(nil, back), b) {
		t.Error("encoding is not canonical")
	}
}

// TestLies: lengths that are not there make no memory.
func TestLies(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<40)
	for _, p := range []any{new(string), new([]byte), new([]infer.Event), new([]float32), new(map[string]string), new([][]float32)} {
		if err := decodeValue(huge, p); !errors.Is(err, ErrProtocol) {
			t.Errorf("%T: %v", p, err)
		}
	}
	many := append(binary.AppendUvarint(nil, 1<<20), make([]byte, 1<<20)...)
	allocated := testing.AllocsPerRun(1, func() { decodeValue(many[:100], new([]infer.Event)) })
	if allocated > 1000 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestFrames(t *testing.T) {
	payload := bytes.Repeat([]byte("hearth"), 500000)
	b := appendFrame(nil, frameBatch, 7, payload)
	b = appendFrame(b, frameCancel, 1<<60, nil)
	r := frameReader{r: bytes.NewReader(b)}
	typ, stream, got, err := r.next()
	if err != nil || typ != frameBatch || stream != 7 || !bytes.Equal(got, payload) {
		t.Fatalf("got %d %d %d bytes %v", typ, stream, len(got), err)
	}
	if typ, stream, got, err = r.next(); err != nil || typ != frameCancel || stream != 1<<60 || len(got) != 0 {
		t.Fatalf("got %d %d %d bytes %v", typ, stream, len(got), err)
	}
	if _, _, _, err = r.next(); err != io.EOF {
		t.Fatalf("got %v, want EOF", err)
	}
	small := appendFrame(nil, frameCredit, 3, []byte{1, 2, 3})
	for i := range small {
		for bit := range 8 {
			broken := bytes.Clone(small)
			broken[i] ^= 1 << bit
			r := frameReader{r: bytes.NewReader(broken)}
			if _, _, _, err := r.next(); !errors.Is(err, ErrProtocol) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		r := frameReader{r: bytes.NewReader(small[:i])}
		if _, _, _, err := r.next(); i > 0 && !errors.Is(err, ErrProtocol) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// FuzzFrame: any bytes are read as frames and messages or refused.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, frameHello, 0, encodeValue(nil, hello{Version: 1, Build: "b"})))
	f.Add(appendFrame(nil, frameBeat, 0, encodeValue(nil, beat{Health: infer.Health{Ready: true}})))
	f.Add(appendFrame(nil, frameCall, 1, encodeValue(nil, call{Op: opGenerate, Generate: request("x")})))
	item := appendItem(nil, 1, itemEvent, encodeValue(nil, infer.Event{Kind: infer.EventText, Text: "x"}))
	f.Add(appendFrame(nil, frameBatch, 0, appendItem(item, 1, itemEnd, nil)))
	f.Add(appendFrame(nil, frameResult, 1, encodeValue(nil, result{IDs: []int32{1}})))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := frameReader{r: bytes.NewReader(b)}
		c := &Client{out: newOutbox(), done: make(chan struct{}), able: make(chan struct{}), next: 1, streams: map[uint64]*clientStream{}, calls: map[uint64]chan *result{}}
		c.streams[1] = &clientStream{c: c, id: 1, wake: make(chan struct{}, 1)}
		for {
			typ, stream, payload, err := r.next()
			if err != nil {
				break
			}
			c.handle(typ, stream, payload)
		}
		// The checksum keeps a fuzzer out: the payloads once more without it.
		for _, p := range []any{new(hello), new(ping), new(beat), new(call), new(result), new(wireError), new(infer.Event)} {
			if decodeValue(b, p) == nil {
				again := encodeValue(nil, reflect.ValueOf(p).Elem().Interface())
				if err := decodeValue(again, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.batch(b)
	})
}
