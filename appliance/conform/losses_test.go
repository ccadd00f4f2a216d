package conform_test

import (
	"bytes"
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

// bodies are the request that has the field, and the same without it; nil where
// that is no request.
func (in *inbound) bodies(f *wire.Field) (with, without []byte) {
	with = []byte(f.Base)
	if f.Base == "" {
		var o map[string]json.RawMessage
		json.Unmarshal([]byte(in.least), &o)
		o[f.Path] = json.RawMessage(f.Example)
		with, _ = json.Marshal(o)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(with))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return with, nil
	}
	if v, ok := remove(v, strings.Split(strings.ReplaceAll(f.Path, "[]", ".[]"), ".")); ok {
		without, _ = json.Marshal(v)
	}
	return with, without
}

// remove takes what path names out of v: a member, the elements of a list, or
// those of a type.
func remove(v any, path []string) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			_, ok := x[path[0]]
			delete(x, path[0])
			return x, ok
		}
		in, ok := remove(x[path[0]], path[1:])
		if ok {
			x[path[0]] = in
		}
		return x, ok
	case []any:
		if path[0] != "[]" {
			return v, false
		}
		if len(path) == 1 {
			return x[:max(0, len(x)-1)], len(x) > 0
		}
		if out := slices.DeleteFunc(slices.Clone(x), func(e any) bool { o, _ := e.(map[string]any); return o["type"] == path[1] }); len(out) < len(x) && len(path) == 2 {
			return out, true
		}
		found := false
		for i := range x {
			in, ok := remove(x[i], path[1:])
			x[i], found = in, found || ok
		}
		return x, found
	}
	return v, false
}

// encode writes a request for a target from its typed fields; empty where it
// refuses.
func (in *inbound) encode(c wire.Client, body []byte) (string, *infer.Request, error) {
	r, _, err := in.decode(nil, body)
	if err != nil {
		return "", nil, err
	}
	uses := r.Uses
	own := *r
	own.Wire, own.ID, own.Tenant = nil, "req_1", "t"
	o, err := c.EncodeRequest(&own, wire.Target{Model: "up", MaxOutput: 64})
	own.Uses = uses
	if err != nil {
		return "", &own, err
	}
	return o.Path + " " + fmt.Sprint(o.Header) + " " + string(o.Body), &own, nil
}

// What each table says of a field is what happens to it: dropped fields leave
// no trace in what is sent, carried ones do, and every loss is listed.
func TestLossesFieldByField(t *testing.T) {
	checked := 0
	for i := range inbounds {
		in := &inbounds[i]
		for k := range in.fields {
			f := &in.fields[k]
			if f.Feature == "" {
				continue
			}
			with, without := in.bodies(f)
			r, _, err := in.decode(nil, with)
			if err != nil {
				t.Errorf("%s, %s: cannot decode %s: %v", in.name, f.Path, with, err)
				continue
			}
			at := slices.IndexFunc(r.Uses, func(u infer.Use) bool { return u.Feature == f.Feature })
			if at < 0 {
				t.Errorf("%s, %s: %s notes %v, not %s", in.name, f.Path, with, r.Uses, f.Feature)
				continue
			}
			for _, out := range outbounds() {
				in.hold(t, f, &out, with, without)
				checked++
			}
		}
	}
	t.Logf("%d fields and targets", checked)
}

// excused are fields whose example says nothing at some targets, or for which the
// class of their feature is known to say more than happens, by dialect and path.
var excused = map[string]string{
	"OpenAI chat completions, continue_final_message":     "where a last turn of the assistant is always continued there is nothing to say",
	"OpenAI chat completions, thinking_budget":            "Anthropic takes no budget beyond max_tokens, which the example leaves small",
	"OpenAI chat completions, thinking_token_budget":      "likewise",
	"OpenAI chat completions, reasoning.max_tokens":       "likewise",
	"OpenAI responses, parallel_tool_calls":               "means nothing without tools",
	"OpenAI responses, prompt":                            "the request has no turns without it",
	"OpenAI responses, image":                             "the detail of an image has no path of its own",
	"OpenAI responses, input[].content[].file_id":         "a file that lies at a provider has no data to pass on: refused when it is written",
	"OpenAI responses, input[].content[].file_url":        "an address is not fetched where only data is taken: refused when it is written",
	"Gemini generateContent, contents[].parts[].fileData": "likewise",
	// Labels that only their own server knows under these names: they share the
	// class of a feature that has another name elsewhere, and go without a word.
	"OpenAI chat completions, cache_prompt":                       "llama.cpp's",
	"OpenAI chat completions, prompt_cache_retention":             "OpenAI's",
	"OpenAI chat completions, request_id":                         "of the open servers",
	"OpenAI chat completions, add_generation_prompt":              "of the open servers",
	"OpenAI chat completions, messages[].audio":                   "the id of an earlier answer's sound",
	"OpenAI responses, prompt_cache_retention":                    "OpenAI's",
	"OpenAI responses, prompt_cache_options":                      "OpenAI's",
	"OpenAI responses, client_metadata":                           "Codex's",
	"OpenAI responses, input[].phase":                             "Codex's",
	"OpenAI responses, reasoning.context":                         "OpenAI's",
	"OpenAI responses, reasoning.mode":                            "OpenAI's",
	"Anthropic messages, speed":                                   "Anthropic's",
	"Gemini generateContent, contents[].parts[].thoughtSignature": "of a part without a thought",
}

// hold checks one field at one target.
func (in *inbound) hold(t *testing.T, f *wire.Field, out *outbound, with, without []byte) {
	t.Helper()
	name := fmt.Sprintf("%s, %s (%s) to %s", in.name, f.Path, f.Feature, out.name)
	class := infer.Dropped
	if f.Feature != infer.FeatureUnknown {
		class = out.class(f.Feature)
	}
	if !slices.Contains([]infer.Class{infer.Carried, infer.Transformed, infer.Emulated, infer.Dropped}, class) {
		t.Errorf("%s: class %q", name, class)
		return
	}
	r, _, _ := in.decode(nil, with)
	lost := slices.ContainsFunc(infer.Losses(r.Uses, out.class), func(l infer.Loss) bool { return l.Feature == f.Feature })
	if want := class == infer.Dropped || class == infer.Emulated; lost != want {
		// A use may say itself why a target cannot have it, whatever the class.
		if !lost || !slices.ContainsFunc(r.Uses, func(u infer.Use) bool {
			return u.Feature == f.Feature && u != (infer.Use{Feature: u.Feature, Path: u.Path})
		}) {
			t.Errorf("%s: class %s, listed as lost: %v", name, class, lost)
		}
	}
	if excused[in.name+", "+f.Path] != "" || out.client == nil || r.Kind == infer.Completion && !strings.Contains(out.client.Dialect(), "completions") || without == nil {
		return
	}
	a, _, err := in.encode(out.client, with)
	if err != nil {
		if class == infer.Carried || class == infer.Transformed {
			t.Errorf("%s: class %s, yet refused: %v", name, class, err)
		}
		return
	}
	b, _, err := in.encode(out.client, without)
	if err != nil {
		return // no request without it
	}
	switch same := a == b; {
	case class == infer.Dropped && !same && !shadow(f.Feature):
		t.Errorf("%s: dropped, yet it shows:\n%.400s\n%.400s", name, a, b)
	case class == infer.Carried && same:
		t.Errorf("%s: carried, yet nothing of it is sent: %.300s", name, a)
	}
}

// shadow lists the features whose loss shows in what is sent: the place where
// they stood is left over, or filled with what the target has.
func shadow(f infer.Feature) bool {
	switch f {
	case infer.FeatureUnknown, infer.FeatureToolHosted, infer.FeatureToolCallHosted, infer.FeatureThought, infer.FeatureToolCustom,
		infer.FeatureThoughtSignature, infer.FeaturePrefill, infer.FeatureCacheBreakpoint, infer.FeatureFile, infer.FeatureVideo:
		return true
	}
	return false
}

// LOSSES.md is what the tables say.
func TestLossesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# What is lost on the way

Written by ` + "`go test ./appliance/conform -update`" + ` from the tables that decide it; the same test checks each row against what is really sent.

A request that goes to a provider of its own dialect is sent as it came, byte for byte, and loses nothing. Anywhere else each field is **c**arried (under this or another name),
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
			feature := string(f.Feature)
			if f.Feature.Hint() {
				feature += " *hint*"
			}
			fmt.Fprintf(&b, "| `%s` | %s |", f.Path, feature)
			for _, o := range outs {
				class := infer.Dropped
				if f.Feature != infer.FeatureUnknown {
					class = o.class(f.Feature)
				}
				switch {
				case o.client != nil && o.client.Dialect() == in.native && o.name != "vllm" && o.name != "llamacpp":
					b.WriteString(" = |")
				case class == infer.Dropped:
					b.WriteString(" – |")
				default:
					fmt.Fprintf(&b, " %c |", class[0])
				}
			}
			fmt.Fprintf(&b, " %s |\n", strings.ReplaceAll(f.Note, "|", "\\|"))
		}
	}
	conform.Page(t, "../../LOSSES.md", b.String())
}
