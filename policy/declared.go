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

// declaredTools lists all tools of a request, those that the dialect's decoder
// has no name for included.
func declaredTools(r *infer.Request) []declaredTool {
	var out []declaredTool
	for i := range r.Tools {
		out = append(out, declaredTool{r.Tools[i].Name, fmt.Sprintf("tools[%d]", i)})
	}
	for _, u := range r.Uses {
		switch u.Feature {
		case infer.FeatureToolHosted, infer.FeatureToolHostedOptional, infer.FeatureToolCustom:
			out = append(out, declaredTool{hostedName(r.Wire, u.Path), u.Path})
		}
	}
	return out
}

// hostedName finds what a tool without a function is called: its type, its name,
// or the key it stands under. The empty name is matched by "*" alone.
func hostedName(w *infer.Wire, path string) string {
	raw, ok := wireValue(w, path)
	if !ok {
		return ""
	}
	var tool struct{ Type, Name string }
	if json.Unmarshal(raw, &tool) == nil {
		switch {
		case tool.Type != "" && tool.Type != "custom":
			return tool.Type
		case tool.Name != "":
			return tool.Name
		}
	}
	return path[strings.LastIndexAny(path, ".]")+1:]
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
