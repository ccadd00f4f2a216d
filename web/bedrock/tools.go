package bedrock

import (
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// tools makes the member toolConfig, and puts into the system prompt what it
// cannot say. Converse demands it wherever the conversation holds calls: where
// the request has no tools, those that were called are named.
func (c *conversation) tools(r *infer.Request) []byte {
	none := r.ToolChoice.Mode == "none" || len(r.Tools) == 0
	if none && len(c.called) == 0 {
		return nil
	}
	dst := []byte(`,"toolConfig":{"tools":[`)
	n := 0
	for i := range r.Tools {
		t := &r.Tools[i]
		if len(r.ToolChoice.Allowed) > 0 && !slices.Contains(r.ToolChoice.Allowed, t.Name) {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = appendTool(dst, t)
	}
	if n == 0 {
		slices.Sort(c.called)
		for i, name := range slices.Compact(c.called) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTool(dst, &infer.Tool{Name: name})
		}
	}
	dst = append(dst, ']')
	switch {
	case none:
		c.system = block(c.system, text(nil, noneWords))
	case r.ToolChoice.Mode == "required":
		dst = append(dst, `,"toolChoice":{"any":{}}`...)
	case r.ToolChoice.Mode == "function":
		dst = append(dst, `,"toolChoice":{"tool":{"name":`...)
		dst = append(jsonwrite.String(dst, r.ToolChoice.Name), "}}"...)
	}
	if !none && !r.ParallelToolCalls {
		c.system = block(c.system, text(nil, serialWords))
	}
	return append(dst, '}')
}

func appendTool(dst []byte, t *infer.Tool) []byte {
	dst = append(dst, `{"toolSpec":{"name":`...)
	dst = jsonwrite.String(dst, t.Name)
	if t.Description != "" {
		dst = jsonwrite.String(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"inputSchema":{"json":`...)
	if len(t.Parameters) > 0 {
		dst = append(dst, t.Parameters...)
	} else {
		dst = append(dst, `{"type":"object","properties":{}}`...)
	}
	dst = append(dst, '}')
	if t.Strict {
		dst = append(dst, `,"strict":true`...)
	}
	dst = append(dst, "}}"...)
	if t.Cache != "" {
		dst = cachePoint(append(dst, ','), t.Cache)
	}
	return dst
}
