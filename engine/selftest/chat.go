package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hearth/engine/chattmpl"
	"hearth/engine/infer"
	"hearth/engine/tokenizer"
)

type chatFile struct {
	Family   string     `json:"family"`
	BOS      string     `json:"bos_token"`
	EOS      string     `json:"eos_token"`
	Template string     `json:"chat_template"`
	Cases    []chatCase `json:"cases"`
}

type chatCase struct {
	Name     string `json:"name"`
	Messages []struct {
		Role       string `json:"role"`
		Content    string `json:"content"`
		Name       string `json:"name"`
		Reasoning  string `json:"reasoning_content"`
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	AddGenerationPrompt bool                       `json:"add_generation_prompt"`
	Args                map[string]json.RawMessage `json:"kwargs"`
	Expected            string                     `json:"expected"`
	Error               string                     `json:"error"`
	IDs                 []int32                    `json:"ids"`
}

// runChat compares rendered prompts byte for byte and, where the family's
// tokenizer is there, their ids.
func runChat(_ context.Context, t *run, path string) error {
	var f chatFile
	if err := readJSON(path, &f); err != nil {
		return err
	}
	tmpl, err := chattmpl.Compile(f.Template)
	if err != nil {
		return err
	}
	tok, err := t.openTokenizer(f.Family)
	if err != nil && !errors.Is(err, errSkip) {
		return err
	}
	for i := range f.Cases {
		t.check(f.Cases[i].Name, f.run(tmpl, tok, &f.Cases[i]))
	}
	return nil
}

func (f *chatFile) run(tmpl *chattmpl.Template, tok *tokenizer.Tokenizer, c *chatCase) string {
	segments, err := tmpl.Render(f.input(c))
	if c.Error != "" {
		want := strings.TrimPrefix(c.Error, "TemplateError: ")
		if err == nil {
			return fmt.Sprintf("rendered, wanted the error %q", want)
		}
		if got := infer.AsError(err).Message; got != want {
			return fmt.Sprintf("refused with %q, wanted %q", got, want)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	text := chattmpl.Text(segments)
	if text != c.Expected {
		return fmt.Sprintf("rendered as %q, wanted %q", text, c.Expected)
	}
	if tok != nil && c.IDs != nil {
		if got := tok.Encode(nil, text, true); !slices.Equal(got, c.IDs) {
			return fmt.Sprintf("ids %v, wanted %v", got, c.IDs)
		}
	}
	return ""
}

func (f *chatFile) input(c *chatCase) chattmpl.Input {
	in := chattmpl.Input{Args: c.Args, BOS: f.BOS, EOS: f.EOS, AddGenerationPrompt: c.AddGenerationPrompt}
	for _, m := range c.Messages {
		im := infer.Message{
			Role: infer.Role(m.Role), Name: m.Name, Reasoning: m.Reasoning, ToolCallID: m.ToolCallID,
			Content: []infer.Part{{Type: "text", Text: m.Content}},
		}
		for _, call := range m.ToolCalls {
			im.ToolCalls = append(im.ToolCalls, infer.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: string(call.Function.Arguments)})
		}
		in.Messages = append(in.Messages, im)
	}
	for _, tool := range c.Tools {
		fn := tool.Function
		in.Tools = append(in.Tools, infer.Tool{Name: fn.Name, Description: fn.Description, Parameters: fn.Parameters})
	}
	return in
}
