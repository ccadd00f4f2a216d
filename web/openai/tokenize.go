package openai

import (
	"math"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// TokenizeOptions are the parts of a tokenize request that only the wire cares
// about.
type TokenizeOptions struct {
	Strings bool // return each token's text too
}

// DecodeTokenize reads the body of POST /tokenize in vLLM's shape: a prompt, or
// messages to be rendered through the template. The model may be left out where
// there is only one; Model is empty then.
func DecodeTokenize(body []byte) (*infer.TokenizeRequest, TokenizeOptions, error) {
	var o TokenizeOptions
	v, err := root(body)
	if err != nil {
		return nil, o, err
	}
	d := newDecoder(infer.Chat)
	d.strict = true
	t := &infer.TokenizeRequest{}
	special := -1 // not given
	var prompt, chat *jsonread.Value
	err = v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "model":
			if m.IsNull() {
				return nil
			}
			return d.setModel(m)
		case "prompt":
			prompt = &m
			return nil
		case "messages":
			chat = &m
			return d.messages(m)
		case "add_special_tokens":
			var b bool
			if m.IsNull() {
				return nil
			}
			err := setBool(&b, m)
			special = 0
			if b {
				special = 1
			}
			return err
		case "return_token_strs":
			return setBool(&o.Strings, m)
		case "tools", "functions", "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "reasoning_effort", "enable_thinking", "chat_template", "mm_processor_kwargs":
			return d.chatField(key, m)
		}
		return m.Unknown()
	})
	if err != nil {
		return nil, o, err
	}
	t.Model = d.r.Model
	switch {
	case prompt == nil && chat == nil:
		err = infer.Invalid("prompt", "cannot tokenize: got neither prompt nor messages")
	case prompt != nil && chat != nil:
		err = infer.Invalid("prompt", "cannot tokenize both prompt and messages: wanted one of them")
	case prompt != nil:
		t.AddSpecial = special != 0
		t.Text, err = prompt.Str()
	case special == 1:
		err = infer.Unsupported("add_special_tokens", "cannot use add_special_tokens with messages: the template decides")
	default:
		d.model = true // it may be left out here
		t.Chat, err = d.r, d.finishChat()
	}
	if err != nil {
		return nil, o, err
	}
	return t, o, nil
}

// EncodeTokenize is the body of the answer. strs is nil unless asked for.
func EncodeTokenize(ids []int32, maxModelLen int, strs []string) []byte {
	dst := jsonwrite.Int([]byte(`{"count":`), int64(len(ids)))
	dst = jsonwrite.Int(append(dst, `,"max_model_len":`...), int64(maxModelLen))
	dst = jsonwrite.Int32s(append(dst, `,"tokens":`...), ids)
	dst = append(dst, `,"token_strs":`...)
	if strs == nil {
		return append(dst, "null}\n"...)
	}
	dst = append(dst, '[')
	for i, s := range strs {
		dst = jsonwrite.String(comma(dst, i), s)
	}
	return append(dst, "]}\n"...)
}

// DecodeDetokenize reads the body of POST /detokenize.
func DecodeDetokenize(body []byte) (model string, ids []int32, err error) {
	v, err := root(body)
	if err != nil {
		return "", nil, err
	}
	d := newDecoder(infer.Completion)
	seen := false
	err = v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "model":
			if m.IsNull() {
				return nil
			}
			return d.setModel(m)
		case "tokens":
			seen = true
			ids, err = m.Int32s(maxIDs, 0, math.MaxInt32)
			return err
		}
		return m.Unknown()
	})
	if err == nil && !seen {
		err = infer.Invalid("tokens", "cannot detokenize: got no tokens")
	}
	return d.r.Model, ids, err
}

// EncodeDetokenize is the body of the answer.
func EncodeDetokenize(text []byte) []byte {
	return append(jsonwrite.String([]byte(`{"prompt":`), string(text)), "}\n"...)
}
