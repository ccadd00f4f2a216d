package chattmpl

import (
	"errors"
	"slices"
	"strings"

	"hearth/engine/infer"
)

// Prompt renders in, after adapting what the template cannot express to what it
// can: tools and their calls and results become plain text (generic.go), a
// system message goes into the first user turn, several calls in one turn
// become turns of one call each, and a system message in a place where the
// template refuses it becomes a tagged part of a user turn. What the template
// can express reaches it unchanged. The engine calls this one.
func (t *Template) Prompt(in Input) (*Prompt, error) {
	in.Messages = slices.Clone(in.Messages)
	p := &Prompt{}
	if len(in.Tools) > 0 && !t.caps.Tools || hasCalls(in.Messages) && !(t.caps.ToolCalls && t.caps.ToolResults) {
		p.GenericTools = len(in.Tools) > 0
		if err := foldTools(&in); err != nil {
			return nil, err
		}
	} else if !t.caps.ParallelCalls {
		in.Messages = splitCalls(in.Messages)
	}
	if !t.caps.System {
		in.Messages = foldSystem(in.Messages)
	}
	segs, err := t.Render(in)
	if errors.Is(err, errRaised) {
		if late, ok := foldLateSystem(in.Messages); ok {
			in.Messages = late
			segs, err = t.Render(in)
		}
	}
	if err != nil {
		return nil, err
	}
	p.Segments = segs
	p.OpenThink = openThink(segs, &in)
	return p, nil
}

// openThink finds the reasoning mark that the prompt leaves open: written by
// the template at the very end, or begun in the message that is continued.
func openThink(segs []Segment, in *Input) string {
	if in.ContinueFinalMessage {
		final := in.Messages[len(in.Messages)-1].Text()
		for _, m := range thinkMarks {
			if at := strings.LastIndex(final, m[0]); at >= 0 && !strings.Contains(final[at:], m[1]) {
				return m[0]
			}
		}
	}
	if len(segs) > 0 && segs[len(segs)-1].Trusted {
		return openMark(segs[len(segs)-1].Text)
	}
	return ""
}

func hasCalls(ms []infer.Message) bool {
	for i := range ms {
		if len(ms[i].ToolCalls) > 0 || ms[i].Role == infer.RoleTool {
			return true
		}
	}
	return false
}

func isSystem(m *infer.Message) bool {
	return m.Role == infer.RoleSystem || m.Role == infer.RoleDeveloper
}

// setText replaces the content of a copied message.
func setText(m *infer.Message, s string) {
	m.Content = []infer.Part{{Type: "text", Text: s}}
}

// textOnly refuses to fold a message that holds more than text.
func textOnly(ms []infer.Message) error {
	for i := range ms {
		for j := range ms[i].Content {
			if p := ms[i].Content[j].Type; p != "text" && p != "" {
				return infer.Unsupported("messages", "this model takes text only, got a part of another type")
			}
		}
	}
	return nil
}

// splitCalls turns an assistant's n calls into n turns, each followed by its
// result, for templates that allow one call a turn.
func splitCalls(ms []infer.Message) []infer.Message {
	var out []infer.Message
	for i := 0; i < len(ms); i++ {
		m := ms[i]
		if len(m.ToolCalls) < 2 {
			out = append(out, m)
			continue
		}
		end := i + 1
		for end < len(ms) && ms[end].Role == infer.RoleTool {
			end++
		}
		results := slices.Clone(ms[i+1 : end])
		for k, c := range m.ToolCalls {
			turn := m
			turn.ToolCalls = []infer.ToolCall{c}
			if k > 0 {
				turn.Content, turn.Reasoning = nil, ""
			}
			out = append(out, turn)
			for r := range results {
				if results[r].ToolCallID == c.ID {
					out = append(out, results[r])
					results = slices.Delete(results, r, r+1)
					break
				}
			}
		}
		out = append(out, results...)
		i = end - 1
	}
	return out
}

// foldSystem puts the system messages in front into the first user turn.
func foldSystem(ms []infer.Message) []infer.Message {
	n := 0
	for n < len(ms) && isSystem(&ms[n]) {
		n++
	}
	if n == 0 {
		return ms
	}
	var texts []string
	for i := range ms[:n] {
		texts = append(texts, ms[i].Text())
	}
	system, rest := strings.Join(texts, "\n\n"), ms[n:]
	if len(rest) > 0 && rest[0].Role == infer.RoleUser {
		setText(&rest[0], system+"\n\n"+rest[0].Text())
		return rest
	}
	first := infer.Message{Role: infer.RoleUser}
	setText(&first, system)
	return append([]infer.Message{first}, rest...)
}

// foldLateSystem makes every system message but a first one a tagged part of
// the user turn beside it, or a user turn if there is none.
func foldLateSystem(ms []infer.Message) ([]infer.Message, bool) {
	var out []infer.Message
	pending, found := "", false
	for i := range ms {
		m := ms[i]
		switch {
		case i > 0 && isSystem(&m):
			found = true
			tagged := "<system>\n" + m.Text() + "\n</system>"
			if n := len(out) - 1; pending == "" && out[n].Role == infer.RoleUser {
				setText(&out[n], out[n].Text()+"\n\n"+tagged)
			} else {
				pending += tagged + "\n\n"
			}
			continue
		case pending != "" && m.Role == infer.RoleUser:
			setText(&m, pending+m.Text())
			pending = ""
		case pending != "":
			out = append(out, taggedTurn(pending))
			pending = ""
		}
		out = append(out, m)
	}
	if pending != "" {
		out = append(out, taggedTurn(pending))
	}
	return out, found
}

func taggedTurn(pending string) infer.Message {
	m := infer.Message{Role: infer.RoleUser}
	setText(&m, strings.TrimSuffix(pending, "\n\n"))
	return m
}
