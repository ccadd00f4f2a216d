package appliance

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/internal/fakeprovider"
	"hearth/store"
	"hearth/web/anthropic"
	"hearth/web/openai"
	"hearth/web/responses"
	"hearth/web/wire"
)

// A request that a rule has changed is written anew even for a provider of its
// own dialect. What only its bytes could say is then refused, or reported where
// the route says so; a request that the rule lets be loses nothing.
func TestRewrittenRequestLosesAloud(t *testing.T) {
	for _, c := range []struct {
		kind, base string
		decode     func(*http.Request, []byte) (*infer.Request, wire.Options, error)
		body       string // ▮ is a word that may be struck out
		header     http.Header
		refused    string // the field that is named
		lost       string
	}{
		{"anthropic", "", anthropic.Messages{}.DecodeRequest, `{"model":"▸","max_tokens":8,"speed":"fast","x_new":{"a":1},"messages":[{"role":"user","content":"▮"}]}`,
			http.Header{"Anthropic-Beta": {"fast-mode-2026-02-01"}}, "x_new", "anthropic-beta=dropped speed=dropped x_new=dropped"},
		{"vllm", "/v1", openai.Chat{}.DecodeRequest, `{"model":"▸","request_id":"r","cache_prompt":false,"documents":[{"a":1}],"messages":[{"role":"user","content":"▮"}]}`,
			nil, "documents", "request_id=dropped cache_prompt=dropped documents=dropped"},
		{"openai", "/v1", responses.Dialect{}.DecodeRequest, `{"model":"▸","store":false,"client_metadata":{"a":"b"},"conversation":"conv_1","input":[{"role":"assistant","phase":"commentary","content":"a"},{"role":"user","content":"▮"}]}`,
			http.Header{"Openai-Beta": {"responses=experimental"}}, "conversation", "openai-beta=dropped client_metadata=dropped conversation=dropped input[0].phase=dropped"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			p := newProvider(t)
			p.Handle(func(*fakeprovider.Request) *fakeprovider.Script { return &fakeprovider.Script{Answer: answer()} })
			b := newTestbedWith(t, rewritingConfig(c.kind, p.URL()+c.base))
			ask := func(route, word string) (store.Row, error) {
				body := strings.NewReplacer("▸", route, "▮", word).Replace(c.body)
				head, _ := http.NewRequest(http.MethodPost, "/", nil)
				head.Header = c.header
				r, _, err := c.decode(head, []byte(body))
				if err != nil {
					t.Fatal(err)
				}
				g := b.admit()
				for _, e := range b.Call(context.Background(), g, r) {
					if e != nil {
						err = e
					}
				}
				g.Release()
				d, e := b.store.Show(context.Background(), g.RequestID)
				if e != nil {
					t.Fatal(e)
				}
				return d.Row, err
			}
			sent := func() []byte {
				all := p.Requests()
				return all[len(all)-1].Body
			}
			if row, err := ask("strict", "otter"); err != nil || len(row.Losses) > 0 || !bytes.Contains(sent(), []byte("otter")) {
				t.Errorf("untouched: %v, %v", row.Losses, err)
			}
			before := len(p.Requests())
			_, err := ask("strict", "bluebird")
			if e := infer.AsError(err); err == nil || e.Param != c.refused || !e.NoRetry || len(p.Requests()) != before {
				t.Errorf("refused with %v, wanted %s named and nothing sent", err, c.refused)
			}
			row, err := ask("lax", "bluebird")
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(c.lost)
			slices.Sort(want)
			slices.Sort(row.Losses)
			if !slices.Equal(row.Losses, want) {
				t.Errorf("losses %v, wanted %v", row.Losses, want)
			}
			for _, word := range []string{"bluebird", "x_new", "documents", "conv_1", "client_metadata", "cache_prompt"} {
				if bytes.Contains(sent(), []byte(word)) {
					t.Errorf("%s was sent: %s", word, sent())
				}
			}
		})
	}
}

// rewritingConfig has a word struck out on two routes to one provider: "strict",
// which refuses losses, and "lax", which reports them.
func rewritingConfig(kind, url string) string {
	s := `price_version = "p1"
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[[price]]
model = "up"
input_usd_per_m = "3"
output_usd_per_m = "15"
[[rule]]
name = "words"
kind = "keyword"
words = ["bluebird"]
action = "redact"
`
	s += fmt.Sprintf("[[upstream]]\nname = \"a\"\nkind = %q\nbase_url = %q\n", kind, url)
	for route, loss := range map[string]string{"strict": "reject", "lax": "report"} {
		s += fmt.Sprintf("[[route]]\nmodel = %q\non_loss = %q\nrules = [\"words\"]\n[[route.candidate]]\nupstream = \"a\"\nmodel = \"up\"\nmax_output_tokens = 64\n", route, loss)
	}
	return s
}
