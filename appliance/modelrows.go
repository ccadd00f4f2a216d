package appliance

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/artifact"
	"hearth/engine/infer"
)

// States of a model.
const (
	modelInstalled  = "installed" // and not served
	modelUnloaded   = "unloaded"
	modelLoading    = "loading"
	modelLoaded     = "loaded"
	modelRestarting = "restarting" // its worker was lost; another one starts
	modelFailed     = "failed"
)

// modelRow is everything that is known of one model.
type modelRow struct {
	Name       string  `json:"name"`
	State      string  `json:"state"`
	Reason     string  `json:"reason,omitempty"`
	Degraded   string  `json:"degraded,omitempty"` // why it runs on less than it was meant to
	Progress   float64 `json:"progress"`           // of loading, 0 to 1
	Installed  bool    `json:"installed"`          // in the library of the data directory
	Configured bool    `json:"configured"`         // a [[model]] table names it
	Served     bool    `json:"served"`             // callers may ask for it
	Origin     string  `json:"origin"`             // "embedded", "library" or "file"
	Path       string  `json:"path,omitempty"`

	Format        string `json:"format,omitempty"`
	Architecture  string `json:"architecture,omitempty"`
	Quantization  string `json:"quantization,omitempty"`
	Parameters    int64  `json:"parameters,omitempty"`
	SizeBytes     int64  `json:"size_bytes,omitempty"`
	Context       int    `json:"context,omitempty"`       // tokens of a sequence, as served
	ModelContext  int    `json:"model_context,omitempty"` // as the model was made for
	Vocabulary    int    `json:"vocabulary,omitempty"`
	ChatTemplate  bool   `json:"chat_template,omitempty"`
	Tools         bool   `json:"tools,omitempty"`
	Reasoning     bool   `json:"reasoning,omitempty"`
	Digest        string `json:"digest,omitempty"`
	TokenizerHash string `json:"tokenizer_hash,omitempty"`
	TemplateHash  string `json:"template_hash,omitempty"`
	Fingerprint   string `json:"fingerprint,omitempty"` // of the contract's terms

	Licence      string    `json:"licence,omitempty"`
	LicenceLink  string    `json:"licence_link,omitempty"`
	LicenceFrom  string    `json:"licence_from,omitempty"` // what stated it
	Source       string    `json:"source,omitempty"`       // file that it was installed from
	SourceDigest string    `json:"source_digest,omitempty"`
	Added        time.Time `json:"added,omitzero"`

	Device   string      `json:"device,omitempty"`
	Settings *modelTable `json:"settings,omitempty"` // in force
	Override *override   `json:"override,omitempty"`
	LoadedAt time.Time   `json:"loaded_at,omitzero"`
	LoadMS   int64       `json:"load_ms,omitempty"`  // from start to the first answer
	Load     *modelLoad  `json:"load,omitempty"`     // of a loaded one, now
	Draining int         `json:"draining,omitempty"` // requests that an unloaded or replaced one still serves

	Terms    []modelTerm   `json:"terms,omitempty"`    // in model/show
	Licences []licenceText `json:"licences,omitempty"` // in model/show
}

// modelTable is how a model is served: its [[model]] table with overrides.
type modelTable struct {
	Device       string `json:"device"`
	Context      int    `json:"context"`
	KVMemory     int64  `json:"kv_memory"`
	Threads      int    `json:"threads"`
	Activations  string `json:"activations"`
	MaxSequences int    `json:"max_sequences"`
	StepTokens   int    `json:"step_tokens"`
	Queue        int    `json:"queue"`
	PrefixCache  bool   `json:"prefix_cache"`
	Speculation  int    `json:"speculation"`
	InProcess    bool   `json:"in_process"`
}

// modelLoad is what a loaded model holds and does.
type modelLoad struct {
	Running        int    `json:"running"`
	Waiting        int    `json:"waiting"`
	KVBlocks       int    `json:"kv_blocks"`
	KVBlocksUsed   int    `json:"kv_blocks_used"`
	KVBlocksCached int    `json:"kv_blocks_cached"`
	WeightBytes    int64  `json:"weight_bytes"`
	KVBytes        int64  `json:"kv_bytes"`
	Steps          uint64 `json:"steps"`
	PromptTokens   uint64 `json:"prompt_tokens"`
	OutputTokens   uint64 `json:"output_tokens"`
	PrefixQueries  uint64 `json:"prefix_queries"`
	PrefixHits     uint64 `json:"prefix_hits"`
	Preemptions    uint64 `json:"preemptions"`
	Restarts       uint64 `json:"worker_restarts"`
	PID            int    `json:"pid,omitempty"` // of the worker process
	Note           string `json:"note,omitempty"`
}

type modelTerm struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type licenceText struct {
	File string `json:"file"`
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"` // Text is only the beginning
}

// modelRows lists the models of a library and of a configuration, and where m is
// a running server's what it says of them. The order is that of the names.
func modelRows(ctx context.Context, lib *artifact.Store, c *config.Config, m *models) []modelRow {
	installed, _ := lib.List() // doctor names what is damaged
	rows := map[string]*modelRow{}
	row := func(name string) *modelRow {
		if rows[name] == nil {
			rows[name] = &modelRow{Name: name, State: modelInstalled}
		}
		return rows[name]
	}
	for i := range installed {
		r := row(installed[i].Name)
		r.Installed, r.Origin = true, "library"
		r.artifact(&installed[i])
	}
	for i := range c.Models {
		t := &c.Models[i]
		r := row(t.Name)
		r.Configured, r.State, r.Path = true, modelUnloaded, t.Path
		r.Origin = "file"
		if t.Path == config.EmbeddedPath {
			r.Origin = "embedded"
		}
		for j := range installed {
			if installed[j].Name == t.Path {
				r.Origin = "library"
				r.artifact(&installed[j])
			}
		}
		r.Settings = settingsOf(*t)
	}
	if m != nil {
		for _, name := range m.names() {
			if lm := m.get(name); lm != nil {
				row(name).serving(ctx, m, lm)
			}
		}
	}
	out := make([]modelRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b modelRow) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// artifact fills in what the library knows.
func (r *modelRow) artifact(m *artifact.Manifest) {
	r.Format, r.Architecture, r.Quantization, r.Parameters = m.Format, m.Architecture, m.Quantization, m.Parameters
	r.SizeBytes, r.ModelContext, r.ChatTemplate, r.Digest = m.Size, m.ContextLength, m.ChatTemplate, m.Digest
	r.Licence, r.LicenceLink, r.LicenceFrom = licenceName(m.Licence), m.Licence.Link, m.Licence.From
	r.Source, r.SourceDigest, r.Added = m.Source, m.SourceDigest, m.Added
}

func settingsOf(m config.Model) *modelTable {
	return &modelTable{
		Device: m.Device, Context: m.Context, KVMemory: int64(m.KVMemory), Threads: m.Threads, Activations: m.Activations,
		MaxSequences: m.MaxSequences, StepTokens: m.StepTokens, Queue: m.Queue, PrefixCache: m.PrefixCache, Speculation: m.Speculation, InProcess: m.InProcess,
	}
}

// serving fills in what the running server knows.
func (r *modelRow) serving(ctx context.Context, m *models, lm *localModel) {
	r.Served, r.Settings = true, settingsOf(lm.spec.Model)
	if r.Origin == "" {
		r.Origin = "library"
	}
	if r.Path == "" {
		r.Path = lm.spec.Path
	}
	info, h := lm.describe(), lm.health(ctx)
	lm.mu.Lock()
	failed, answered, took, at, backend := lm.failed, !lm.loaded.IsZero(), lm.took, lm.loaded, lm.backend
	lm.mu.Unlock()
	r.Reason, r.Degraded, r.Progress = h.Reason, h.Degraded, h.Progress
	switch {
	case lm.spec.Unloaded:
		r.State = modelUnloaded
	case failed:
		r.State = modelFailed
	case h.Ready:
		r.State, r.Progress = modelLoaded, 1
	case answered:
		r.State = modelRestarting
	default:
		r.State = modelLoading
		if h.Reason == reasonWarming {
			r.Progress = 1
		}
	}
	if o, ok := m.overrides.get(r.Name); ok {
		r.Override = &o
	}
	_, r.Draining = m.draining(r.Name)
	if answered {
		r.LoadedAt, r.LoadMS = at, took.Milliseconds()
		r.described(&info)
	}
	if h.Ready {
		r.Load = loadOf(&h.Stats)
		if w, ok := backend.(interface {
			PID() int
			Note() string
		}); ok {
			r.Load.PID, r.Load.Note = w.PID(), w.Note()
		}
	}
}

// described fills in what the engine says of the model.
func (r *modelRow) described(i *infer.Model) {
	r.Architecture, r.Quantization, r.Parameters, r.SizeBytes = i.Architecture, i.Quantization, i.ParameterSize, i.FileBytes
	r.Context, r.Vocabulary, r.Device, r.Tools, r.Reasoning = i.ContextLength, i.Vocabulary, i.Device, i.Tools, i.Reasoning
	r.Digest, r.TokenizerHash, r.TemplateHash, r.Fingerprint = i.Digest, i.TokenizerHash, i.TemplateHash, i.Fingerprint
	if r.Licence == "" {
		r.Licence = i.Licence
	}
	for _, t := range i.Terms {
		r.Terms = append(r.Terms, modelTerm(t))
	}
}

func loadOf(s *infer.Stats) *modelLoad {
	return &modelLoad{
		Running: s.Running, Waiting: s.Waiting, KVBlocks: s.BlocksTotal, KVBlocksUsed: s.BlocksUsed, KVBlocksCached: s.BlocksCached,
		WeightBytes: s.WeightBytes, KVBytes: s.KVBytes, Steps: s.Steps, PromptTokens: s.PromptTokens, OutputTokens: s.OutputTokens,
		PrefixQueries: s.PrefixQueries, PrefixHits: s.PrefixHits, Preemptions: s.Preemptions, Restarts: s.WorkerRestarts,
	}
}

// Bounds on the licence texts that are shown.
const (
	maxLicenceBytes = 64 << 10
	maxLicences     = 4
)

// readLicences gives the texts that were installed beside a model.
func readLicences(dir dataDir, m *artifact.Manifest) ([]licenceText, error) {
	var out []licenceText
	var errs []error
	root, err := os.OpenRoot(filepath.Join(dir.models(), m.Name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, name := range m.Licence.Files[:min(maxLicences, len(m.Licence.Files))] {
		f, err := root.Open(filepath.FromSlash(name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, maxLicenceBytes+1))
		errs = append(errs, err, f.Close())
		t := licenceText{File: filepath.Base(name), Cut: len(b) > maxLicenceBytes}
		t.Text = strings.ToValidUTF8(string(b[:min(len(b), maxLicenceBytes)]), "\uFFFD")
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}
