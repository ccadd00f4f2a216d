package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

type clientOptions struct {
	keyFile, model string
	json           bool
}

// clientSetting is what one program needs to speak to this server.
type clientSetting struct {
	Client string `json:"client"`
	Where  string `json:"where"` // file, or "environment"
	Text   string `json:"text"`
}

// probe is one route of ours, asked as its clients do.
type probe struct {
	For    string `json:"for"`
	Route  string `json:"route"`
	State  string `json:"state"` // "ok", "fail" or "skipped"
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
}

type clientReport struct {
	BaseURL  string          `json:"base_url"`
	CAFile   string          `json:"ca_file,omitempty"`
	Model    string          `json:"model"`
	Settings []clientSetting `json:"settings"`
	Probes   []probe         `json:"probes"`
}

// showClients prints the settings, and tries each API.
func showClients(ctx context.Context, env *Env, dir dataDir, path string, o clientOptions) error {
	c, err := loadOrDefault(path)
	if err != nil {
		return err
	}
	key := env.Getenv("HEARTH_API_KEY")
	if o.keyFile != "" {
		if key, err = benchKey(o.keyFile); err != nil {
			return err
		}
	}
	d := &doctor{env: env, dir: dir, path: path, conf: c}
	r := clientReport{BaseURL: d.baseURL(), Model: o.model}
	if conn, err := dialAdmin(ctx, dir); err == nil {
		conn.Close()
		if d.conn, err = connect(env, dir, nil); err != nil {
			return err
		}
		defer d.conn.close()
		if found, err := opDoctor.call(ctx, d.conn, doctorQuery{Quick: true}); err == nil && found.BaseURL != "" {
			r.BaseURL = found.BaseURL
		}
	}
	if strings.HasPrefix(r.BaseURL, "https:") && fileExists(dir.rootPEM()) {
		r.CAFile = dir.rootPEM()
	}
	client := d.client()
	defer client.CloseIdleConnections()
	p := &prober{ctx: ctx, client: client, base: r.BaseURL, key: key, model: r.Model}
	p.run()
	if r.Model = p.model; r.Model == "" {
		r.Model = c.Models[0].Name
	}
	r.Settings, r.Probes = clientSettings(&r), p.probes
	if o.json {
		err = printJSON(env.Stdout, r)
	} else {
		err = r.print(env.Stdout, key != "")
	}
	if err == nil && p.failed {
		err = errFound
	}
	return err
}

func (r *clientReport) print(w io.Writer, keyed bool) error {
	for _, s := range r.Settings {
		fmt.Fprintf(w, "# %s: %s\n%s\n\n", s.Client, s.Where, s.Text)
	}
	err := table(w, func(w io.Writer) {
		for _, p := range r.Probes {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.State, p.Route, p.For, p.Detail)
		}
	})
	if err == nil && !keyed {
		_, err = fmt.Fprintln(w, "put an API key into HEARTH_API_KEY, or name --key-file, to have the rest tried")
	}
	return err
}

// clientSettings writes them as each program's own documents have it.
func clientSettings(r *clientReport) []clientSetting {
	v1 := r.BaseURL + "/v1"
	fill := func(s string) string {
		return strings.NewReplacer("{v1}", v1, "{base}", r.BaseURL, "{model}", r.Model, "{ca}", r.CAFile).Replace(strings.TrimSpace(s))
	}
	trust := func(name string) string {
		if r.CAFile == "" {
			return ""
		}
		return "\nexport " + name + "=" + shellQuote(r.CAFile)
	}
	verify := ""
	if r.CAFile != "" {
		verify = ", http_client=DefaultHttpxClient(verify=ssl.create_default_context(cafile=\"{ca}\"))"
	}
	return []clientSetting{
		{"Codex", "~/.codex/config.toml; the key in HEARTH_API_KEY" + strings.ReplaceAll(trust("SSL_CERT_FILE"), "\n", ", and "), fill(`
model = "{model}"
model_provider = "hearth"
[model_providers.hearth]
name = "Hearth"
base_url = "{v1}"
env_key = "HEARTH_API_KEY"
wire_api = "responses"`)},
		{"Claude Code", "environment", fill(`
export ANTHROPIC_BASE_URL={base}
export ANTHROPIC_API_KEY=$HEARTH_API_KEY
export ANTHROPIC_MODEL={model}` + trust("NODE_EXTRA_CA_CERTS"))},
		{"aider", "environment", fill(`
export OPENAI_API_BASE={v1}
export OPENAI_API_KEY=$HEARTH_API_KEY` + trust("SSL_CERT_FILE") + `
aider --model openai/{model}`)},
		{"llm", "extra-openai-models.yaml in the folder that `llm logs path` names; the key by `llm keys set hearth`" + strings.ReplaceAll(trust("SSL_CERT_FILE"), "\n", ", and "), fill(`
- model_id: hearth
  model_name: {model}
  api_base: "{v1}"
  api_key_name: hearth`)},
		{"Open WebUI", "environment of its server", fill(`
export OPENAI_API_BASE_URL={v1}
export OPENAI_API_KEY=$HEARTH_API_KEY` + trust("SSL_CERT_FILE"))},
		{"Continue", "~/.continue/config.yaml", fill(`
name: Hearth
version: 1.0.0
schema: v1
models:
  - name: {model}
    provider: openai
    model: {model}
    apiBase: {v1}
    apiKey: ${{ secrets.HEARTH_API_KEY }}` + continueTrust(r.CAFile))},
		{"OpenAI SDK", "Python", fill(`
from openai import OpenAI, DefaultHttpxClient
import os, ssl
client = OpenAI(base_url="{v1}", api_key=os.environ["HEARTH_API_KEY"]` + verify + `)
print(client.chat.completions.create(model="{model}", messages=[{"role": "user", "content": "Hello!"}]).choices[0].message.content)`)},
		{"Anthropic SDK", "Python", fill(`
from anthropic import Anthropic, DefaultHttpxClient
import os, ssl
client = Anthropic(base_url="{base}", api_key=os.environ["HEARTH_API_KEY"]` + verify + `)
print(client.messages.create(model="{model}", max_tokens=64, messages=[{"role": "user", "content": "Hello!"}]).content[0].text)`)},
	}
}

func continueTrust(ca string) string {
	if ca == "" {
		return ""
	}
	return "\n    requestOptions:\n      caBundlePath: " + ca
}

// prober asks our own routes.
type prober struct {
	ctx    context.Context
	client *http.Client
	base   string
	key    string
	model  string
	probes []probe
	failed bool
}

// maxProbe bounds what is read of an answer.
const maxProbe = 1 << 20

// run asks every route that clients begin with.
func (p *prober) run() {
	p.ask("load balancers", "GET", "/health", "", "", false)
	p.ask("Claude Code, at its start", "HEAD", "/", "", "", false)
	list := p.ask("lists of models", "GET", "/v1/models", "", `"data"`, true)
	if p.model == "" {
		var models struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if json.Unmarshal(list, &models) == nil && len(models.Data) > 0 {
			p.model = models.Data[0].ID
		}
	}
	m, _ := json.Marshal(p.model)
	chat := `{"model":` + string(m) + `,"stream":true,"stream_options":{"include_usage":true},"max_tokens":4,"messages":[{"role":"user","content":"Hi"}]}`
	p.ask("OpenAI SDKs, aider, llm, Continue, Open WebUI", "POST", "/v1/chat/completions", chat, "data: [DONE]", true)
	p.ask("Codex", "POST", "/v1/responses", `{"model":`+string(m)+`,"stream":true,"store":false,"max_output_tokens":16,"input":[{"role":"user","content":"Hi"}]}`, "event: response.", true)
	messages := `{"model":` + string(m) + `,"stream":true,"max_tokens":4,"messages":[{"role":"user","content":"Hi"}]}`
	p.ask("Anthropic SDKs, Claude Code", "POST", "/v1/messages?beta=true", messages, "event: message_stop", true)
	p.ask("Claude Code, counting", "POST", "/v1/messages/count_tokens", `{"model":`+string(m)+`,"messages":[{"role":"user","content":"Hi"}]}`, "input_tokens", true)
}

// ask makes one request, which must succeed with an answer that has a text.
func (p *prober) ask(who, method, route, body, wants string, keyed bool) []byte {
	r := probe{For: who, Route: method + " " + route, State: "skipped"}
	defer func() { p.probes = append(p.probes, r) }()
	if keyed && p.key == "" {
		r.Detail = "no key"
		return nil
	}
	bad := func(format string, args ...any) {
		r.State, r.Detail, p.failed = stateFail, fmt.Sprintf(format, args...), true
	}
	req, err := http.NewRequestWithContext(p.ctx, method, p.base+route, bytes.NewReader([]byte(body)))
	if err != nil {
		bad("%v", err)
		return nil
	}
	if keyed {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(route, "/v1/messages") {
		req.Header.Set("anthropic-version", "2023-06-01")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		bad("%v", err)
		return nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	r.Status = resp.StatusCode
	switch {
	case resp.StatusCode >= 300:
		bad("status %d: %s", resp.StatusCode, errorText(answer))
	case err != nil:
		bad("the answer broke off: %v", err)
	case !bytes.Contains(answer, []byte(wants)):
		bad("the answer has no %q", wants)
	default:
		r.State = stateOK
	}
	return answer
}

// errorText finds the sentence in an error of any dialect.
func errorText(b []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(b, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	text := strings.TrimSpace(string(b))
	return text[:min(len(text), 200)]
}
