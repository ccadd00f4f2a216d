package responses

import (
	"slices"
	"strconv"
	"strings"

	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// SetIDs gives ids to those of a response's input items that have none, and
// spells out short forms, so that the items can be listed.
func SetIDs(items [][]byte, response string) {
	for i := range items {
		items[i] = listed(items[i], response, i)
	}
}

// itemPrefix is how ids of a kind of item begin.
func itemPrefix(kind string) string {
	switch kind {
	case "message":
		return "msg"
	case "reasoning":
		return "rs"
	case "function_call":
		return "fc"
	case "custom_tool_call":
		return "ctc"
	case "function_call_output":
		return "fco"
	case "custom_tool_call_output":
		return "ctco"
	}
	return "item"
}

// itemID makes the id of the n-th input or output item of a response.
func itemID(kind, response string, n int, in bool) string {
	id := itemPrefix(kind) + "_" + strings.TrimPrefix(response, "resp_") + "_"
	if in {
		id += "i"
	}
	return id + strconv.Itoa(n)
}

// listed is an input item as the list of input items shows it.
func listed(raw []byte, response string, n int) []byte {
	v, err := jsonread.Parse(raw, jsonread.Limits{})
	if err != nil || v.Kind() != jsonread.Object {
		return raw
	}
	kind, err := itemType(v)
	if err != nil {
		return raw
	}
	var have []string
	_ = v.Members(func(key string, m jsonread.Value) error {
		if !m.IsNull() {
			have = append(have, key)
		}
		return nil
	})
	out := append(make([]byte, 0, len(raw)+96), '{')
	if !slices.Contains(have, "id") {
		out = append(jsonwrite.String(append(out, `"id":`...), itemID(kind, response, n, true)), ',')
	}
	if !slices.Contains(have, "type") {
		out = append(jsonwrite.String(append(out, `"type":`...), kind), ',')
	}
	if kind == "message" && !slices.Contains(have, "status") {
		out = append(out, `"status":"completed",`...)
	}
	role := member(v, "role")
	_ = v.Members(func(key string, m jsonread.Value) error {
		if !slices.Contains(have, key) {
			return nil
		}
		out = append(jsonwrite.String(out, key), ':')
		if key == "content" && kind == "message" && m.Kind() == jsonread.String {
			out = appendTextPart(out, role, m.Raw())
		} else {
			out = append(out, m.Raw()...)
		}
		out = append(out, ',')
		return nil
	})
	out[len(out)-1] = '}'
	return out
}

// appendTextPart appends content that was a plain text in its long form.
func appendTextPart(dst []byte, role string, text []byte) []byte {
	if role == "assistant" {
		dst = append(append(dst, `[{"type":"output_text","text":`...), text...)
		return append(dst, `,"annotations":[]}]`...)
	}
	dst = append(append(dst, `[{"type":"input_text","text":`...), text...)
	return append(dst, "}]"...)
}
