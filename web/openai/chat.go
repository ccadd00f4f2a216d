package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Chat is the dialect of POST /v1/chat/completions.
type Chat struct{}

var _ wire.Dialect = Chat{}

// DecodeRequest implements wire.Dialect.
func (Chat) DecodeRequest(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := root(body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d := newDecoder(infer.Chat)
	seen := false
	err = v.Members(func(key string, m jsonread.Value) error {
		seen = seen || key == "messages"
		return d.chatField(key, m)
	})
	if err == nil && !seen {
		err = infer.Invalid("messages", "cannot answer a conversation: got no messages")
	}
	if err == nil {
		err = d.finishChat()
	}
	if err != nil {
		return nil, wire.Options{}, err
	}
	d.o.Created = time.Now()
	return d.r, d.o, nil
}

// chatField takes one member of a chat request.
func (d *decoder) chatField(key string, v jsonread.Value) error {
	switch key {
	case "messages":
		return d.messages(v)
	case "tools":
		return d.setTools(v)
	case "functions":
		return d.setFunctions(v)
	case "tool_choice":
		d.choice = &v
		return nil
	case "function_call":
		d.legacy = &v
		return nil
	case "parallel_tool_calls":
		return setBool(&d.r.ParallelToolCalls, v)
	case "logprobs":
		return setBool(&d.r.Sampling.Logprobs, v)
	case "top_logprobs":
		return setInt(&d.topLogprobs, v, 0, maxTopLogprob)
	case "chat_template_kwargs":
		return d.templateArgs(v)
	case "add_generation_prompt":
		return setBool(&d.r.AddGenerationPrompt, v)
	case "continue_final_message":
		return setBool(&d.r.ContinueFinalMessage, v)
	case "reasoning_effort":
		d.effort = &v
		return nil
	case "enable_thinking":
		if v.IsNull() {
			return nil
		}
		if _, err := v.Bool(); err != nil {
			return err
		}
		return d.templateArg(v, "enable_thinking", v.Clone())
	case "include_reasoning":
		show := true
		err := setBool(&show, v)
		d.o.HideReasoning = !show
		return err
	case "echo", "add_special_tokens": // vLLM's: the template decides here
		var b bool
		if err := setBool(&b, v); err != nil || !b {
			return err
		}
		return v.Unsupported("cannot use %s: only false is offered on chat", key)
	}
	known, err := d.shared(key, v)
	if !known && err == nil {
		err = v.Unknown()
	}
	return err
}

func (d *decoder) templateArgs(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	return v.Members(func(key string, m jsonread.Value) error {
		return d.templateArg(m, key, m.Clone())
	})
}

func (d *decoder) finishChat() error {
	s := &d.r.Sampling
	if d.topLogprobs > 0 && !s.Logprobs {
		return infer.Invalid("top_logprobs", "cannot use top_logprobs %d without logprobs: true", d.topLogprobs)
	}
	s.TopLogprobs = max(0, d.topLogprobs)
	if err := d.finishTools(); err != nil {
		return err
	}
	if err := d.reasoningEffort(); err != nil {
		return err
	}
	if d.r.ContinueFinalMessage {
		last := d.r.Messages[len(d.r.Messages)-1]
		if d.r.AddGenerationPrompt {
			return infer.Invalid("continue_final_message", "cannot use continue_final_message with add_generation_prompt: set the latter to false")
		}
		if last.Role != infer.RoleAssistant {
			return infer.Invalid("continue_final_message", "cannot continue the final message: it is of role %s, wanted assistant", last.Role)
		}
	}
	return d.finish()
}

// reasoningEffort becomes a template variable, which the engine takes only for
// a template that reads it.
func (d *decoder) reasoningEffort() error {
	if d.effort == nil || d.effort.IsNull() {
		return nil
	}
	e, err := d.effort.Enum("none", "minimal", "low", "medium", "high", "xhigh")
	if err != nil {
		return err
	}
	if e == "none" {
		return d.templateArg(*d.effort, "enable_thinking", json.RawMessage("false"))
	}
	return d.templateArg(*d.effort, "reasoning_effort", json.RawMessage(`"`+e+`"`))
}

// EncodeError implements wire.Dialect.
func (Chat) EncodeError(e *infer.Error, requestID string) (int, []byte) {
	return EncodeError(e, requestID)
}

// EncodeResponse implements wire.Dialect.
func (Chat) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	_, err := w.Write(appendChat(nil, r, o, a))
	return err
}

// NewStream implements wire.Dialect.
func (Chat) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return newChatStream(r, o)
}
