package openai

import (
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
	d.r.Wire = &infer.Wire{Dialect: DialectChat, Body: body}
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
		return d.flag(infer.FeatureToolSerial, &d.r.ParallelToolCalls, v)
	case "logprobs":
		return d.flag(infer.FeatureLogprobs, &d.r.Sampling.Logprobs, v)
	case "top_logprobs":
		return d.int("", &d.topLogprobs, v, 0, maxTopLogprob)
	case "chat_template_kwargs":
		return d.templateArgs(v)
	case "add_generation_prompt":
		return setBool(&d.r.AddGenerationPrompt, v)
	case "continue_final_message":
		return d.flag(infer.FeaturePrefill, &d.r.ContinueFinalMessage, v)
	case "reasoning_effort", "enable_thinking", "thinking", "reasoning", "thinking_budget":
		return d.thinking(key, v)
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
		return d.lost(infer.FeatureUnknown, v, v.Unsupported("cannot use %s: only false is offered on chat", key))
	}
	known, err := d.shared(key, v)
	if !known && err == nil {
		err = d.unknownMember(key, v)
	}
	return err
}

func (d *decoder) templateArgs(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	err := v.Members(func(key string, m jsonread.Value) error {
		return d.templateArg(m, key, m.Clone())
	})
	if len(d.r.TemplateArgs) > 0 {
		d.use(infer.FeatureTemplateArgs, v)
	}
	return err
}

func (d *decoder) finishChat() error {
	s := &d.r.Sampling
	if d.topLogprobs > 0 && !s.Logprobs {
		return infer.Invalid("top_logprobs", "cannot use top_logprobs %d without logprobs: true", d.topLogprobs)
	}
	if s.TopLogprobs = max(0, d.topLogprobs); s.TopLogprobs > 0 {
		if err := d.note(infer.Use{Feature: infer.FeatureLogprobs, Path: "top_logprobs"}); err != nil {
			return err
		}
	}
	if err := d.finishTools(); err != nil {
		return err
	}
	if _, both := d.r.TemplateArgs["enable_thinking"]; both && d.switched != "" {
		return infer.Invalid(d.switched, "cannot use %s: chat_template_kwargs sets enable_thinking too", d.switched)
	}
	if !d.r.AddGenerationPrompt && !d.r.ContinueFinalMessage {
		if err := d.note(infer.Use{Feature: infer.FeatureTurnUnopened, Path: "add_generation_prompt"}); err != nil {
			return err
		}
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
