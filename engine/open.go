package engine

import (
	"errors"
	"fmt"
	"slices"

	"hearth/engine/chattmpl"
	"hearth/engine/model"
	"hearth/engine/output"
	"hearth/engine/tokenizer"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
	"hearth/kernels/ref"
)

// openDevice makes a device that this build carries.
func openDevice(o Options) (kernels.Device, error) {
	switch o.Device {
	case "ref":
		return ref.New(), nil
	case "cpu":
		return cpu.New(cpu.Options{Threads: o.Threads, Activations: o.Activations, Path: o.KernelPath, Release: o.release, Progress: o.loaded})
	}
	return nil, fmt.Errorf("cannot open device %q: this build has cpu and ref", o.Device)
}

// openTokenizer builds the tokenizer from whatever the model file carries.
func openTokenizer(f *weights.File) (*tokenizer.Tokenizer, error) {
	src := &f.Tokenizer
	switch {
	case src.Vocabulary != nil:
		architecture, err := f.Meta.String("general.architecture", "")
		if err != nil {
			return nil, err
		}
		return tokenizer.FromGGUF(vocab(src.Vocabulary, architecture))
	case src.JSON != nil:
		return tokenizer.FromJSON(src.JSON, src.Config)
	}
	return nil, errors.New("the model has no tokenizer")
}

// openTemplate compiles the model's chat template, or a known one that suits
// its vocabulary.
func (e *Engine) openTemplate() error {
	src, ok := e.file.Template("")
	has := func(tok string) bool { _, ok := e.tok.ID(tok); return ok }
	if !ok {
		_, src = chattmpl.Fallback(has)
	}
	t, err := chattmpl.Compile(src)
	if err != nil {
		return err
	}
	e.tmpl = t
	e.tools = output.DetectToolFormat(src, has)
	e.reasoning, e.reasons = output.DetectReasoning(src, has)
	names := append(slices.Clone(e.tools.Markers), e.reasoning.Open, e.reasoning.Close)
	for _, name := range names {
		if id, ok := e.tok.ID(name); ok && name != "" && e.tok.IsControl(id) {
			e.markers = append(e.markers, marker{name, id})
		}
	}
	return nil
}

// marker is a control token whose text belongs to the answer's syntax.
type marker struct {
	name string
	id   int32
}

// endIDs joins the end tokens that tokenizer and model name.
func endIDs(tok *tokenizer.Tokenizer, cfg *model.Config) []int32 {
	ids := slices.Clone(tok.EndIDs())
	for _, id := range cfg.EOS {
		if id >= 0 && int(id) < cfg.Vocab {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
