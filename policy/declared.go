package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

// declaredTool is a tool that a request offers to the model.
type declaredTool struct {
	name string // of a tool that the provider runs itself: its type
	path string
}

// declaredTools lists all tools of a request: functions and tools of free text,
// and those that the provider runs itself, which decoders only note as a use.
func declaredTools(r *infer.Request) []declaredTool {
	var out []declaredTool
	for i := range r.Tools {
		out = append(out, declaredTool{r.Tools[i].Name, fmt.Sprintf("tools[%d]", i)})
	}
	for _, u := range r.Uses {
		switch u.Feature {
		case infer.FeatureToolHosted, infer.FeatureToolHostedOptional, infer.FeatureUnknown:
			if name, ok := hostedName(r.Wire, &u); ok {
				out = append(out, declaredTool{name, u.Path})
			}
		}
	}
	return append(out, besideTools(r.Wire)...)
}

// toolMembers are the members of a request, besides tools, that let the provider
// run something: they go by their own name. A stored prompt of the Responses API
// brings the tools that are stored with it.
var toolMembers = []string{"web_search_options", "search_parameters", "plugins", "container", "prompt"}

// besideTools lists what a body declares in other places than its tools: under a
// member of its own, or in an item of the conversation that adds tools.
func besideTools(w *infer.Wire) []declaredTool {
	var body map[string]json.RawMessage
	if w == nil || json.Unmarshal(w.Body, &body) != nil {
		return nil
	}
	var out []declaredTool
	for _, name := range toolMembers {
		if raw, ok := body[name]; ok && string(raw) != "null" && (name != "prompt" || w.Dialect == dialectResponses) {
			out = append(out, declaredTool{name, name})
		}
	}
	var items []json.RawMessage
	if w.Dialect != dialectResponses || json.Unmarshal(body["input"], &items) != nil {
		return out
	}
	for i, raw := range items {
		var item struct {
			Tools []map[string]json.RawMessage `json:"tools"`
		}
		// What is not of that form has no tools, or some that nobody can name.
		if err := json.Unmarshal(raw, &item); err != nil && len(raw) > 0 && raw[0] == '{' {
			item.Tools = append(item.Tools, nil)
		}
		for _, t := range item.Tools {
			name := ""
			for _, key := range []string{"type", "name"} {
				var s string
				if json.Unmarshal(t[key], &s) == nil && s != "function" && s != "custom" {
					name = s
					break
				}
			}
			out = append(out, declaredTool{name, fmt.Sprintf("input[%d].tools", i)})
		}
	}
	return out
}

// furtherFields is the path of a note that stands for all that there was no more
// room to note.
const furtherFields = "further fields"

// hostedName finds what a tool that is no function is called: its type, or the
// key it stands under (Gemini). ok is false if the use is none of a tool but of
// something about one. The empty name, of what is not found, is matched by "*"
// alone.
func hostedName(w *infer.Wire, u *infer.Use) (name string, ok bool) {
	if u.Path == "mcp_servers" || strings.HasPrefix(u.Path, "mcp_servers[") {
		return "mcp_servers", true
	}
	if u.Path == "tools" || u.Path == furtherFields {
		return "", true
	}
	if rest, one := strings.CutPrefix(u.Path, "tools."); one { // one tool where a list is usual, as Gemini takes it
		name = rest
		if end := strings.IndexAny(rest, ".["); end >= 0 {
			name = rest[:end]
		}
		return name, name != "functionDeclarations" && name != "function_declarations"
	}
	end := strings.IndexByte(u.Path, ']') + 1
	if !strings.HasPrefix(u.Path, "tools[") || end == 0 {
		return "", false
	}
	rest := strings.TrimPrefix(u.Path[end:], ".")
	raw, found := wireValue(w, u.Path[:end])
	var tool struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if !found || json.Unmarshal(raw, &tool) != nil {
		return "", true
	}
	switch {
	case tool.Type == "function" || tool.Type == "custom" || tool.Type == "" && tool.Name != "":
		return "", false // about a function, which is listed by itself
	case tool.Type != "":
		return tool.Type, rest == "" || rest == tool.Type || u.Feature == infer.FeatureToolHosted
	case rest != "":
		return rest, u.Feature != infer.FeatureUnknown || !strings.ContainsAny(rest, ".[")
	}
	return "", true
}

// wireValue finds the value at a path of a request as it came, as
// "messages[2].content[0].x".
func wireValue(w *infer.Wire, path string) (json.RawMessage, bool) {
	if w == nil || path == "" {
		return nil, false
	}
	raw := json.RawMessage(w.Body)
	for path != "" {
		var ok bool
		if rest, index := strings.CutPrefix(path, "["); index {
			var n string
			if n, path, ok = strings.Cut(rest, "]"); !ok {
				return nil, false
			}
			if raw, ok = element(raw, n); !ok {
				return nil, false
			}
			path = strings.TrimPrefix(path, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil, false
		}
		for name := range members {
			if strings.ContainsAny(name, ".[") {
				return nil, false // the path might mean that one
			}
		}
		if raw, ok = members[path[:end]]; !ok {
			return nil, false
		}
		path = strings.TrimPrefix(path[end:], ".")
	}
	return bytes.TrimSpace(raw), true
}

func element(raw json.RawMessage, n string) (json.RawMessage, bool) {
	var elems []json.RawMessage
	i, err := strconv.Atoi(n)
	if err != nil || json.Unmarshal(raw, &elems) != nil || i < 0 || i >= len(elems) {
		return nil, false
	}
	return elems[i], true
}
