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
	return out
}

// hostedName finds what a tool that is no function is called: its type, or the
// key it stands under (Gemini). ok is false if the use is none of a tool but of
// something about one. The empty name, of what is not found, is matched by "*"
// alone.
func hostedName(w *infer.Wire, u *infer.Use) (name string, ok bool) {
	if u.Path == "mcp_servers" || strings.HasPrefix(u.Path, "mcp_servers[") {
		return "mcp_servers", true
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
