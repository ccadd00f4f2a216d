package conform_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hearth/appliance"
	"hearth/appliance/conform"
	"hearth/engine/infer"
	"hearth/web/anthropic"
	"hearth/web/bedrock"
	"hearth/web/gemini"
	"hearth/web/ollama"
	"hearth/web/openai"
	"hearth/web/responses"
	"hearth/web/wire"
)

// inbound is one dialect with its table of fields.
type inbound struct {
	name   string
	native string // the name of infer.Wire
	fields []wire.Field
	decode func(*http.Request, []byte) (*infer.Request, wire.Options, error)
	least  string // the smallest request
}

var inbounds = []inbound{
	{"OpenAI chat completions", "openai-chat", openai.ChatFields(), openai.Chat{}.DecodeRequest, `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
	{"OpenAI completions", "openai-completions", openai.CompletionFields(), openai.Completion{}.DecodeRequest, `{"model":"m","prompt":"a"}`},
	{"OpenAI responses", "openai-responses", responses.Fields(), responses.Dialect{}.DecodeRequest, `{"model":"m","input":"a"}`},
	{"Anthropic messages", "anthropic", anthropic.Fields(), anthropic.Messages{}.DecodeRequest, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`},
	{"Gemini generateContent", "gemini", gemini.Fields(), gemini.Generate{Model: "m"}.DecodeRequest, `{"contents":[{"parts":[{"text":"a"}]}]}`},
	{"Ollama chat", "ollama-chat", ollama.ChatFields(), ollama.Chat{}.DecodeRequest, `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
	{"Ollama generate", "ollama-generate", ollama.GenerateFields(), ollama.Generate{}.DecodeRequest, `{"model":"m","prompt":"a"}`},
}

// outbound is one way out; client is nil for the engine in this box.
type outbound struct {
	name   string
	client wire.Client
	class  func(infer.Feature) infer.Class
}

func outbounds() []outbound {
	of := func(name string, c wire.Client) outbound { return outbound{name, c, c.Class} }
	return []outbound{
		{"local", nil, appliance.LocalClass},
		of("openai", openai.NewChatClient("openai")),
		of("vllm", openai.NewChatClient("vllm")),
		of("llamacpp", openai.NewChatClient("llamacpp")),
		of("responses", responses.Client{}),
		of("anthropic", anthropic.Client{}),
		of("gemini", gemini.Client{}),
		of("ollama", ollama.ChatClient{}),
		of("bedrock", bedrock.Client{}),
	}
}

// example is a request that has one field, and what is made of it.
type example struct {
	kind          infer.Kind
	with, without []byte   // without is nil where that is no request
	canaries      [][]byte // see canaries
}

// body is the request that has the field.
func (in *inbound) body(f *wire.Field) []byte {
	if f.Base != "" {
		return []byte(f.Base)
	}
	var o map[string]json.RawMessage
	json.Unmarshal([]byte(in.least), &o)
	o[f.Path] = json.RawMessage(f.Example)
	body, _ := json.Marshal(o)
	return body
}

func (in *inbound) example(f *wire.Field) *example {
	e := &example{with: in.body(f)}
	var place int
	e.without, place = in.without(f, e.with)
	e.canaries = in.canaries(f, e.with, place)
	return e
}

// What each table says of a field is what happens to it: dropped fields leave
// no trace in what is sent, carried ones do, and every loss is listed.
func TestLossesFieldByField(t *testing.T) {
	checked, birds, needed := 0, 0, map[string]bool{}
	for i := range inbounds {
		in := &inbounds[i]
		for k := range in.fields {
			f := &in.fields[k]
			if f.Feature == "" {
				continue
			}
			e := in.example(f)
			r, _, err := in.decode(nil, e.with)
			if err != nil {
				t.Errorf("%s, %s: cannot decode %s: %v", in.name, f.Path, e.with, err)
				continue
			}
			at := slices.IndexFunc(r.Uses, func(u infer.Use) bool { return u.Feature == f.Feature })
			if at < 0 {
				t.Errorf("%s, %s: %s notes %v, not %s", in.name, f.Path, e.with, r.Uses, f.Feature)
				continue
			}
			e.kind = r.Kind
			for _, out := range outbounds() {
				name := fmt.Sprintf("%s, %s to %s", in.name, f.Path, out.name)
				if !in.hold(t, name, f, r.Uses[at], &out, e) {
					needed[name] = true
				}
				checked++
			}
			birds += len(e.canaries)
		}
	}
	t.Logf("%d fields and targets, %d places of canaries", checked, birds)
	for name, why := range excused {
		if !needed[name] {
			t.Errorf("%s is excused (%s) without need", name, why)
		}
	}
}

// excused are the fields that show nothing in what is sent though the target has
// them, with the reason, by dialect, path and target.
var excused = map[string]string{
	"OpenAI chat completions, continue_final_message to anthropic": always,
	"OpenAI chat completions, continue_final_message to ollama":    always,
	"OpenAI chat completions, continue_final_message to bedrock":   always,

	"OpenAI chat completions, return_tokens_as_token_ids to local": "done where the answer is written",
	"OpenAI completions, return_tokens_as_token_ids to local":      "done where the answer is written",

	"OpenAI chat completions, prompt_cache_key to local":       cached,
	"OpenAI completions, prompt_cache_key to local":            cached,
	"OpenAI responses, prompt_cache_key to local":              cached,
	"OpenAI chat completions, prompt_cache_retention to local": cached,
	"OpenAI completions, prompt_cache_retention to local":      cached,
	"OpenAI responses, prompt_cache_retention to local":        cached,

	"OpenAI responses, reasoning.summary to anthropic":                                     shown,
	"OpenAI responses, reasoning.generate_summary to anthropic":                            shown,
	"Gemini generateContent, generationConfig.thinkingConfig.includeThoughts to anthropic": shown,
}

const (
	always = "a last turn of the assistant is always continued there"
	cached = "every prefix is found by its content, and kept while there is room"
	shown  = "thinking is shown there anyway, and the request does not ask for any"
)

// LOSSES.md is what the tables say.
func TestLossesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# What is lost on the way

Written by ` + "`go test ./appliance/conform -update`" + ` from the tables that decide it; the same test checks each row against what is really sent.

A request that goes to a provider of its own dialect is sent as it came, byte for byte, and loses nothing: **=**. Where a rule of the route has changed the request (words struck out,
images fetched), it is written anew there too, and **=e** and **=–** say what becomes of the field then. Anywhere else each field is **c**arried (under this or another name),
**t**ransformed (another form, the same effect), **e**mulated (close, not the same; always reported) or **–** dropped. A dropped field that changes what the answer means is refused
where the route says ` + "`on_loss = \"reject\"`" + ` (the default) and reported where it says ` + "`\"report\"`" + `; fields marked *hint* cannot change it and are only ever reported. Reports stand in the
header ` + "`x-hearth-loss`" + `, in the ledger's row, and on the status page. *local* is the engine in this box. Fields with an empty feature are had by every target and not listed.
`)
	outs := outbounds()
	for i := range inbounds {
		in := &inbounds[i]
		fmt.Fprintf(&b, "\n## %s\n\n| field | feature |", in.name)
		for _, o := range outs {
			fmt.Fprintf(&b, " %s |", o.name)
		}
		b.WriteString(" note |\n| --- | --- |" + strings.Repeat(" --- |", len(outs)+1) + "\n")
		for _, f := range in.fields {
			if f.Feature == "" {
				continue
			}
			u := in.use(&f)
			feature := string(f.Feature)
			if f.Feature.Hint() {
				feature += " *hint*"
			}
			fmt.Fprintf(&b, "| `%s` | %s |", f.Path, feature)
			for _, o := range outs {
				b.WriteString(" " + in.cell(&f, u, &o) + " |")
			}
			fmt.Fprintf(&b, " %s |\n", strings.ReplaceAll(f.Note, "|", "\\|"))
		}
	}
	conform.Page(t, "../../LOSSES.md", b.String())
}

// use is what the field's example notes of it.
func (in *inbound) use(f *wire.Field) infer.Use {
	if r, _, err := in.decode(nil, in.body(f)); err == nil {
		if i := slices.IndexFunc(r.Uses, func(u infer.Use) bool { return u.Feature == f.Feature }); i >= 0 {
			return r.Uses[i]
		}
	}
	return infer.Use{Feature: f.Feature}
}

// cell is what becomes of a field at a target.
func (in *inbound) cell(f *wire.Field, u infer.Use, out *outbound) string {
	class := classAt(u, out)
	letter := string(class[0])
	if class == infer.Dropped {
		letter = "–"
	}
	switch {
	case out.client == nil || out.client.Dialect() != in.native:
		return letter
	case class == infer.Dropped || class == infer.Emulated:
		return "=" + letter
	}
	return "="
}
