package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/artifact"
)

// completer finds values for flags and arguments of the command at path.
type completer struct {
	ctx  context.Context
	env  *Env
	path string
	data string // --data, as far as it stands on the line
	file string // --config
}

func (c *completer) note(flag, value string) {
	switch flag {
	case "data":
		c.data = value
	case "config":
		c.file = value
	}
}

// choices are the values of flags and arguments that have a fixed set.
var choices = map[string][]string{
	"--device":          {"auto", "cpu", "cuda"},
	"--cuda-graphs":     {"on", "off"},
	"--activations":     {"q8", "bf16", "f32"},
	"--format":          {"jsonl", "csv"},
	"--progress":        {"auto", "bar", "plain", "json", "none"},
	"--role":            {"owner", "operator", "auditor", "tenant-admin"},
	"--dialect":         {"openai", "responses", "anthropic", "gemini", "ollama", "bedrock"},
	"--in":              {"openai", "responses", "anthropic", "gemini", "ollama"},
	"--level":           {"debug", "info", "warn", "error"},
	"--groups":          {"tokenizer", "chat", "quants", "tiny", "tiny-gguf", "real"},
	"--effects":         {"read-only", "effectful"},
	"SHELL":             {"bash", "zsh", "fish", "powershell"},
	"hearth log LEVEL":  {"debug", "info", "warn", "error"},
	"hearth log level ": {"debug", "info", "warn", "error"},
}

// names says what a flag or the placeholder of an argument names.
var names = map[string]func(*completer) []candidate{
	"--tenant":                    (*completer).tenants,
	"--model":                     (*completer).askable,
	"--models":                    (*completer).askable,
	"--upstream":                  (*completer).upstreams,
	"--route":                     (*completer).routes,
	"--key":                       (*completer).keys,
	"hearth key ID":               (*completer).keys,
	"hearth model NAME":           (*completer).models,
	"hearth model MODEL":          (*completer).models,
	"hearth model add PATH":       nil, // files
	"hearth tenant NAME":          (*completer).tenants,
	"hearth upstream NAME":        (*completer).upstreams,
	"hearth route NAME":           (*completer).routes,
	"hearth route MODEL":          (*completer).routes,
	"hearth ledger REQUEST-ID":    (*completer).requests,
	"hearth config REVISION":      (*completer).revisions,
	"hearth account NAME":         (*completer).accounts,
	"hearth account USER":         (*completer).accounts,
	"hearth model job ID":         (*completer).jobs,
	"hearth job ID":               (*completer).jobs,
	"hearth config diff REVISION": (*completer).revisions,
}

// flag completes the value of f. Lists with commas are completed at their last
// name.
func (c *completer) flag(f *flag.Flag, current string) completion {
	placeholder, _ := flag.UnquoteUsage(f)
	return c.value("--"+f.Name, placeholder, current)
}

// argument completes the one of that position by the placeholders of a usage
// line; the last placeholder stands for all that follow if it is repeated.
func (c *completer) argument(args string, at int, current string) completion {
	list := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(args))
	if len(list) == 0 || at >= len(list) && !strings.HasSuffix(list[len(list)-1], "…") {
		return completion{else_: completeNothing}
	}
	placeholder := strings.TrimRight(list[min(at, len(list)-1)], "….")
	// The longest prefix of the command's path that says something of it.
	for path := c.path; path != ""; path = path[:max(0, strings.LastIndexByte(path, ' '))] {
		key := path + " " + placeholder
		if _, ok := names[key]; ok || choices[key] != nil {
			return c.value(key, placeholder, current)
		}
	}
	return c.value(placeholder, placeholder, current)
}

func (c *completer) value(key, placeholder, current string) completion {
	out := completion{else_: completeNothing}
	list, front := current, ""
	if placeholder == "NAMES" || placeholder == "DIALECTS" || placeholder == "CLASSES" {
		cut := strings.LastIndexByte(current, ',') + 1
		front, list = current[:cut], current[cut:]
	}
	if find := names[key]; find != nil {
		for _, n := range find(c) {
			out.add(list, n.word, n.about)
		}
	}
	for _, word := range choices[key] {
		out.add(list, word, "")
	}
	for i := range out.words {
		out.words[i].word = front + out.words[i].word
	}
	switch {
	case strings.Contains(placeholder, "DIR"):
		out.else_ = completeDirs
	case slices.Contains([]string{"FILE", "PATH", "ARCHIVE", "BACKUP"}, placeholder):
		out.else_ = completeFiles
	}
	return out
}

// ask has the running server carry out an operation and decodes its answer. It
// ends with the context; without a server it fails at once.
func (c *completer) ask(operation string, into any) error {
	dir, err := findDataDir(c.env, c.data)
	if err != nil {
		return err
	}
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialAdmin(ctx, dir) }}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://hearth/"+operation, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	r, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return json.NewDecoder(io.LimitReader(r.Body, maxAdminBody)).Decode(into)
}

// list asks for a list of objects, or an object with one, and names each by the
// first field that it has.
func (c *completer) list(operation string, about string, fields ...string) []candidate {
	var answer any
	if c.ask(operation, &answer) != nil {
		return nil
	}
	rows, _ := answer.([]any)
	if object, ok := answer.(map[string]any); ok {
		for _, v := range object {
			if l, ok := v.([]any); ok {
				rows = l
			}
		}
	}
	var out []candidate
	for _, r := range rows {
		row, _ := r.(map[string]any)
		for _, f := range fields {
			if text := plainText(row[f]); text != "" {
				out = append(out, candidate{text, plainText(row[about])})
				break
			}
		}
	}
	return out
}

func plainText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		b, _ := json.Marshal(x)
		return string(b)
	}
	return ""
}

func (c *completer) keys() []candidate     { return c.list("key/list", "name", "id") }
func (c *completer) requests() []candidate { return c.list("ledger/list", "model", "request_id", "id") }
func (c *completer) revisions() []candidate {
	return c.list("config/history", "author", "revision", "number", "id")
}
func (c *completer) accounts() []candidate {
	return c.list("account/list", "role", "name", "user", "id")
}
func (c *completer) jobs() []candidate { return c.list("job/list", "label", "id") }

// configuration is that of the file, nil if it cannot be read.
func (c *completer) configuration() *config.Config {
	cf := configFlags{data: c.data, file: c.file}
	_, path, err := cf.locate(c.env)
	if err != nil {
		return nil
	}
	if conf, err := config.Load(path); err == nil {
		return conf
	}
	return config.Default()
}

func (c *completer) tenants() (out []candidate) {
	if conf := c.configuration(); conf != nil {
		for i := range conf.Tenants {
			out = append(out, candidate{conf.Tenants[i].Name, ""})
		}
	}
	return out
}

func (c *completer) upstreams() (out []candidate) {
	if conf := c.configuration(); conf != nil {
		for i := range conf.Upstreams {
			out = append(out, candidate{conf.Upstreams[i].Name, conf.Upstreams[i].Kind})
		}
	}
	return out
}

func (c *completer) routes() (out []candidate) {
	if conf := c.configuration(); conf != nil {
		for i := range conf.Routes {
			out = append(out, candidate{conf.Routes[i].Model, "route"})
		}
	}
	return out
}

// models are those of the running server, else the configured and installed ones.
func (c *completer) models() []candidate {
	if out := c.list("model/list", "state", "name"); len(out) > 0 {
		return out
	}
	dir, err := findDataDir(c.env, c.data)
	if err != nil {
		return nil
	}
	var out []candidate
	if conf := c.configuration(); conf != nil {
		for _, name := range localModels(conf, dir) {
			out = append(out, candidate{name, ""})
		}
	}
	if !fileExists(dir.models()) {
		return out
	}
	if lib, err := artifact.Open(dir.models()); err == nil {
		defer lib.Close()
		installed, _ := lib.List() // what can be listed is
		for _, m := range installed {
			if !slices.ContainsFunc(out, func(x candidate) bool { return x.word == m.Name }) {
				out = append(out, candidate{m.Name, m.Architecture + " " + m.Quantization})
			}
		}
	}
	return out
}

// askable are names that a caller may ask for: routes and models.
func (c *completer) askable() []candidate { return append(c.routes(), c.models()...) }
