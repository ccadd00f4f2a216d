package chattmpl

import (
	"strings"

	"hearth/engine/infer"
)

// finalMessage prepares ContinueFinalMessage: the last message must be the
// assistant's. An empty one is dropped and its turn opened instead, since there
// is no text to cut after; reopened tells so.
func finalMessage(in Input) (out Input, reopened bool, err error) {
	if !in.ContinueFinalMessage {
		return in, false, nil
	}
	n := len(in.Messages)
	if n == 0 || in.Messages[n-1].Role != infer.RoleAssistant {
		return in, false, infer.Invalid("continue_final_message", "the last message must be the assistant's")
	}
	last := &in.Messages[n-1]
	if len(last.ToolCalls) > 0 {
		return in, false, infer.Invalid("continue_final_message", "cannot continue a message with tool calls")
	}
	if strings.TrimSpace(last.Text()) != "" {
		return in, false, nil
	}
	in.Messages = in.Messages[:n-1]
	in.AddGenerationPrompt = true
	return in, true, nil
}

// cutAfter ends a rendering behind the last occurrence of the final message,
// keeping its trailing spaces if the template did.
func cutAfter(out text, final string) (text, error) {
	core := strings.TrimFunc(final, isSpace)
	at := strings.LastIndex(out.s, core)
	if at < 0 {
		return text{}, infer.Invalid("continue_final_message", "the model's chat template changes the last message, so it cannot be continued")
	}
	whole := strings.TrimLeftFunc(final, isSpace)
	if strings.HasPrefix(out.s[at:], whole) {
		return out.slice(0, at+len(whole)), nil
	}
	return out.slice(0, at+len(core)), nil
}
