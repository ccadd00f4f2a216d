package responses

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// itemKind is the type of an output item.
type itemKind uint8

const (
	itemMessage itemKind = iota
	itemReasoning
	itemCall
	itemCustom
)

var kindNames = [...]string{"message", "reasoning", "function_call", "custom_tool_call"}

// output is one output item as far as it has come.
type output struct {
	kind   itemKind
	id     string
	index  int
	status string // empty while it is open

	parts []part // of a message or of reasoning
	seal  string // of reasoning, ready to be sent

	callID, name string // name as the provider knows it
	args         []byte
}

// part is a piece of the content of a message, or the text of reasoning.
type part struct {
	refusal bool
	text    []byte
	lps     []infer.TokenLogprob
}

// append appends the item as JSON. An item that has just been added shows
// nothing of its content yet: its deltas do.
func (it *output) append(dst []byte, t *Turn, logprobs bool) []byte {
	dst = append(append(append(dst, `{"type":"`...), kindNames[it.kind]...), `","id":`...)
	dst = jsonwrite.String(dst, it.id)
	switch it.kind {
	case itemMessage:
		dst = append(append(append(dst, `,"status":"`...), it.state()...), `","role":"assistant","content":[`...)
		for i := range it.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = it.parts[i].append(dst, logprobs)
		}
		return append(dst, "]}"...)
	case itemReasoning:
		return it.appendReasoning(dst, t)
	}
	dst = append(append(append(dst, `,"status":"`...), it.state()...), `","call_id":`...)
	dst = jsonwrite.String(dst, it.callID)
	name := namespaced{"", it.name}
	if n, ok := t.spaces[it.name]; ok {
		name = n
	}
	dst = jsonwrite.String(append(dst, `,"name":`...), name.name)
	if name.space != "" {
		dst = jsonwrite.String(append(dst, `,"namespace":`...), name.space)
	}
	switch {
	case it.kind == itemCall:
		dst = jsonwrite.String(append(dst, `,"arguments":`...), string(it.args))
	case it.status == "":
		dst = append(dst, `,"input":""`...)
	default:
		dst = jsonwrite.String(append(dst, `,"input":`...), freeText(it.args))
	}
	return append(dst, '}')
}

func (it *output) state() string {
	if it.status == "" {
		return statusInProgress
	}
	return it.status
}

// appendReasoning appends reasoning in the form that was asked for: as a
// summary, or as the text itself.
func (it *output) appendReasoning(dst []byte, t *Turn) []byte {
	field, kind := "content", "reasoning_text"
	if t.summary {
		field, kind = "summary", "summary_text"
	} else {
		dst = append(dst, `,"summary":[]`...)
	}
	dst = append(append(append(dst, `,"`...), field...), `":[`...)
	for i := range it.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"type":"`...), kind...), `","text":`...)
		dst = append(jsonwrite.String(dst, string(it.parts[i].text)), '}')
	}
	dst = append(dst, ']')
	if it.seal != "" && it.status != "" {
		dst = jsonwrite.String(append(dst, `,"encrypted_content":`...), it.seal)
	}
	return append(dst, '}')
}

// append appends a content part.
func (p *part) append(dst []byte, logprobs bool) []byte {
	if p.refusal {
		dst = jsonwrite.String(append(dst, `{"type":"refusal","refusal":`...), string(p.text))
		return append(dst, '}')
	}
	dst = jsonwrite.String(append(dst, `{"type":"output_text","text":`...), string(p.text))
	dst = append(dst, `,"annotations":[],"logprobs":[`...)
	if logprobs {
		dst = appendLogprobs(dst, p.lps)
	}
	return append(dst, "]}"...)
}

// appendLogprobs appends the tokens with their log-probabilities, as the
// members of an array.
func appendLogprobs(dst []byte, lps []infer.TokenLogprob) []byte {
	for i := range lps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendToken(dst, lps[i].Bytes, lps[i].Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, top := range lps[i].Top {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(dst, top.Bytes, top.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return dst
}

func appendToken(dst, text []byte, lp float64) []byte {
	dst = jsonwrite.String(append(dst, `{"token":`...), string(text))
	dst = jsonwrite.Bytes(append(dst, `,"bytes":`...), text)
	return jsonwrite.Float(append(dst, `,"logprob":`...), lp)
}

// freeText is the text that a model has put into the one argument that a tool
// of free text has where there are functions only. What is not of that form is
// passed on as it is, for the caller to see.
func freeText(args []byte) string {
	v, err := jsonread.Parse(args, jsonread.Limits{})
	if err == nil {
		if in, ok := v.Get("input"); ok && in.Kind() == jsonread.String {
			s, _ := in.Str()
			return s
		}
	}
	return string(args)
}
