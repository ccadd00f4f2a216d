package chattmpl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine/infer"
)

type vectorFile struct {
	Family   string       `json:"family"`
	BOS      string       `json:"bos_token"`
	EOS      string       `json:"eos_token"`
	Template string       `json:"chat_template"`
	Cases    []vectorCase `json:"cases"`
}

type vectorCase struct {
	Name                string                     `json:"name"`
	Messages            []vectorMessage            `json:"messages"`
	Tools               []vectorTool               `json:"tools"`
	AddGenerationPrompt bool                       `json:"add_generation_prompt"`
	Args                map[string]json.RawMessage `json:"kwargs"`
	Expected            string                     `json:"expected"`
	Error               string                     `json:"error"`
}

type vectorMessage struct {
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
}

type vectorTool struct {
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func (f *vectorFile) input(c *vectorCase) Input {
	in := Input{Args: c.Args, BOS: f.BOS, EOS: f.EOS, AddGenerationPrompt: c.AddGenerationPrompt}
	for _, m := range c.Messages {
		im := infer.Message{Role: infer.Role(m.Role), Name: m.Name, Reasoning: m.Reasoning, ToolCallID: m.ToolCallID}
		im.Content = []infer.Part{{Type: "text", Text: m.Content}}
		for _, tc := range m.ToolCalls {
			im.ToolCalls = append(im.ToolCalls, infer.ToolCall{ID: tc.ID, Name: tc.Function.Name, Arguments: string(tc.Function.Arguments)})
		}
		in.Messages = append(in.Messages, im)
	}
	for _, tl := range c.Tools {
		in.Tools = append(in.Tools, infer.Tool{Name: tl.Function.Name, Description: tl.Function.Description, Parameters: tl.Function.Parameters})
	}
	return in
}

// sharedVectors finds ../shared/vectors/chat beside the module.
func sharedVectors(t testing.TB) []string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "..", "shared", "vectors", "chat", "*.json"))
	if len(files) == 0 {
		t.Skip("SKIPPED: no shared vectors beside the repository; the chat renderings are not checked")
	}
	return files
}

func readVectors(t testing.TB, path string) *vectorFile {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &vectorFile{}
	if err := json.Unmarshal(raw, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// Every rendering of transformers is reproduced byte for byte, and every
// refusal refused with the same words.
func TestSharedVectors(t *testing.T) {
	passed := 0
	for _, path := range sharedVectors(t) {
		f := readVectors(t, path)
		tm, err := Compile(f.Template)
		if err != nil {
			t.Errorf("%s: %v", f.Family, err)
			continue
		}
		for i := range f.Cases {
			c := &f.Cases[i]
			segs, err := tm.Render(f.input(c))
			if c.Error != "" {
				want := strings.TrimPrefix(c.Error, "TemplateError: ")
				if err == nil || infer.AsError(err).Code != infer.CodeInvalid || infer.AsError(err).Message != want {
					t.Errorf("%s/%s: got error %v, want %q", f.Family, c.Name, err, want)
					continue
				}
			} else if err != nil {
				t.Errorf("%s/%s: %v", f.Family, c.Name, err)
				continue
			} else if got := Text(segs); got != c.Expected {
				t.Errorf("%s/%s:\n got %q\nwant %q", f.Family, c.Name, got, c.Expected)
				continue
			}
			passed++
		}
	}
	t.Logf("%d cases exact", passed)
}
