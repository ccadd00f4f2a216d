package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// agentBody is as long as what an agent sends: some 75 KB, two dozen tools.
func agentBody() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":32000,"stream":true,"system":[{"type":"text","text":"` + strings.Repeat("You are an agent. ", 1500) + `","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 24 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool%d","description":%q,"input_schema":{"type":"object","properties":{"a":{"type":"string","description":"x"}},"required":["a"]}}`, i, strings.Repeat("Does a thing.\n", 100))
	}
	b.WriteString(`],"messages":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat(`a \"quoted\" line\n`, 500) + `"}]}]}`)
	return []byte(b.String())
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := agentBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (Messages{}).DecodeRequest(nil, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest(b *testing.B) {
	body := agentBody()
	for name, native := range map[string]bool{"native": true, "typed": false} {
		b.Run(name, func(b *testing.B) {
			r, _, err := Messages{}.DecodeRequest(nil, body)
			if err != nil {
				b.Fatal(err)
			}
			if !native {
				r.Wire = &infer.Wire{Dialect: "openai-chat"}
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Client{}).EncodeRequest(r, wire.Target{Model: "up"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
