package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Template is a chat template. The unnamed one of a file is "default"; others
// are for a purpose, for instance "tool_use".
type Template struct {
	Name string
	Text string // Jinja source
}

// DefaultTemplate is the name of a file's main chat template.
const DefaultTemplate = "default"

// templates collects chat templates, at most one of a name, and keeps their
// bounds. A later one of the same name replaces an earlier one.
type templates []Template

func (t *templates) set(name, text string) error {
	if len(text) > maxTemplateSize {
		return fmt.Errorf("chat template %q has %d bytes, more than the %d allowed", name, len(text), maxTemplateSize)
	}
	for i := range *t {
		if (*t)[i].Name == name {
			(*t)[i].Text = text
			return nil
		}
	}
	if len(*t) >= maxTemplates {
		return fmt.Errorf("more than %d chat templates", maxTemplates)
	}
	*t = append(*t, Template{name, text})
	return nil
}

// ordered puts the default template first.
func (t templates) ordered() []Template {
	for i := range t {
		if t[i].Name == DefaultTemplate {
			out := append([]Template{t[i]}, t[:i]...)
			return append(out, t[i+1:]...)
		}
	}
	return t
}

// ggufTemplates reads tokenizer.chat_template and, for every further name,
// tokenizer.chat_template.NAME.
func ggufTemplates(m *Metadata) ([]Template, error) {
	const key = "tokenizer.chat_template"
	var t templates
	for _, k := range m.keys {
		name := DefaultTemplate
		if k != key {
			rest, ok := strings.CutPrefix(k, key+".")
			if !ok {
				continue
			}
			name = rest
		}
		text, err := m.String(k, "")
		if err == nil {
			err = t.set(name, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return t.ordered(), nil
}

// directoryTemplates reads the templates of a Hugging Face directory. They may
// be in tokenizer_config.json (a text, or a list of named ones), in
// chat_template.json, or, where newer releases write them, in
// chat_template.jinja and additional_chat_templates/NAME.jinja; the later place
// wins.
func directoryTemplates(dir string, tokenizerConfig []byte) ([]Template, error) {
	var t templates
	if err := t.fromJSON(tokenizerConfig); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	processor, err := readSmall(filepath.Join(dir, "chat_template.json"), maxConfigBytes)
	if err == nil {
		err = t.fromJSON(processor)
	}
	if err != nil {
		return nil, fmt.Errorf("chat_template.json: %w", err)
	}
	text, err := readSmall(filepath.Join(dir, "chat_template.jinja"), maxTemplateSize)
	if err == nil && text != nil {
		err = t.set(DefaultTemplate, string(text))
	}
	if err != nil {
		return nil, err
	}
	const more = "additional_chat_templates"
	entries, err := os.ReadDir(filepath.Join(dir, more)) // sorted by name
	if errors.Is(err, os.ErrNotExist) {
		return t.ordered(), nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".jinja")
		if !ok {
			continue
		}
		text, err := readSmall(filepath.Join(dir, more, e.Name()), maxTemplateSize)
		if err == nil {
			err = t.set(name, string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return t.ordered(), nil
}

// fromJSON reads the member chat_template of an object.
func (t *templates) fromJSON(object []byte) error {
	if object == nil {
		return nil
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(object, &c); err != nil {
		return err
	}
	if len(c.Template) == 0 || string(c.Template) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(c.Template, &text) == nil {
		return t.set(DefaultTemplate, text)
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(c.Template, &named); err != nil {
		return fmt.Errorf("chat_template is neither a text nor a list of named templates: %w", err)
	}
	for _, n := range named {
		if n.Name == "" {
			return errors.New("a chat template in the list has no name")
		}
		if err := t.set(n.Name, n.Template); err != nil {
			return err
		}
	}
	return nil
}
