package conform

import (
	"encoding/json"
)

type chatUsage struct {
	Prompt     *int `json:"prompt_tokens"`
	Completion *int `json:"completion_tokens"`
	Total      *int `json:"total_tokens"`
	In         *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Out *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *chatUsage) tally(s *Seen) *Tally {
	if u == nil {
		return nil
	}
	if u.Prompt == nil || u.Completion == nil || u.Total == nil {
		s.fault("usage without its three counts")
		return nil
	}
	if *u.Total != *u.Prompt+*u.Completion {
		s.fault("usage whose total is %d with %d and %d", *u.Total, *u.Prompt, *u.Completion)
	}
	t := &Tally{*u.Prompt, -1, *u.Completion, -1}
	if u.In != nil {
		t.Cached = u.In.Cached
	}
	if u.Out != nil {
		t.Reasoning = u.Out.Reasoning
	}
	return t
}

type chatCall struct {
	Index    *int            `json:"index"`
	ID       json.RawMessage `json:"id"`
	Type     json.RawMessage `json:"type"`
	Function *struct {
		Name      json.RawMessage `json:"name"`
		Arguments *string         `json:"arguments"`
	} `json:"function"`
}

type chatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content"`
	Calls     []chatCall `json:"tool_calls"`
}

func text(raw json.RawMessage) string {
	var s string
	json.Unmarshal(raw, &s) // absent, null and others: empty
	return s
}

// wholeChat reads a chat.completion (OpenAI API reference, "The chat completion
// object").
func wholeChat(s *Seen, body []byte) {
	var o struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Model   string `json:"model"`
		Created *int   `json:"created"`
		Choices []struct {
			Index   *int        `json:"index"`
			Message chatMessage `json:"message"`
			Finish  *string     `json:"finish_reason"`
		} `json:"choices"`
		Usage *chatUsage `json:"usage"`
	}
	if !s.decode(body, &o) {
		return
	}
	if o.ID == "" || o.Object != "chat.completion" || o.Model == "" || o.Created == nil {
		s.fault("an answer without id, object, model or time: %.120s", body)
	}
	s.Usage = o.Usage.tally(s)
	for i, c := range o.Choices {
		if c.Index == nil || *c.Index != i || c.Finish == nil || c.Message.Role != "assistant" {
			s.fault("choice %d without index, finish or role", i)
		}
		if i > 0 {
			continue
		}
		if c.Finish != nil {
			s.Finish = *c.Finish
		}
		s.chatMessage(&c.Message)
		for k, t := range c.Message.Calls {
			if t.Function == nil || t.Function.Arguments == nil || text(t.ID) == "" || text(t.Type) != "function" || text(t.Function.Name) == "" {
				s.fault("call %d lacks a member", k)
				continue
			}
			s.Calls = append(s.Calls, Call{text(t.ID), text(t.Function.Name), *t.Function.Arguments})
		}
	}
	if len(o.Choices) == 0 {
		s.fault("an answer without choices")
	}
}

func (s *Seen) chatMessage(m *chatMessage) {
	if m.Content != nil {
		s.Text += *m.Content
	}
	if m.Refusal != nil {
		s.Text += *m.Refusal
	}
	s.Thought += m.Reasoning
}

// chatReader reads chat.completion.chunk objects up to [DONE].
type chatReader struct {
	s        *Seen
	id       string
	role     bool
	finished bool
	usage    bool
	open     map[int]bool // calls that have begun
}

func (r *chatReader) event(name string, data []byte) {
	s := r.s
	if s.End != "" {
		s.fault("an event after the end: %.80s", data)
		return
	}
	if string(data) == "[DONE]" {
		s.End = "done"
		if !r.finished {
			s.fault("[DONE] without a finish_reason")
		}
		return
	}
	if s.failure(Chat, data) {
		s.End = "error"
		return
	}
	if name != "" && name != "message" {
		s.fault("an event named %q", name)
	}
	var o struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Choices *[]struct {
			Index  *int        `json:"index"`
			Delta  chatMessage `json:"delta"`
			Finish *string     `json:"finish_reason"`
		} `json:"choices"`
		Usage *chatUsage `json:"usage"`
	}
	if !s.decode(data, &o) {
		return
	}
	if o.Object != "chat.completion.chunk" && o.Object != "chat.completion.weather" || o.ID == "" || o.Choices == nil {
		s.fault("a chunk without id, object or choices: %.120s", data)
		return
	}
	if r.id != "" && o.ID != r.id {
		s.fault("two ids in one stream")
	}
	r.id = o.ID
	if o.Usage != nil {
		if r.usage {
			s.fault("usage twice")
		}
		r.usage, s.Usage = true, o.Usage.tally(s)
	}
	for _, c := range *o.Choices {
		if c.Index == nil {
			s.fault("a choice without index")
			continue
		}
		if *c.Index != 0 {
			continue
		}
		if r.finished && (c.Finish != nil || c.Delta.Content != nil && *c.Delta.Content != "") {
			s.fault("a delta after the finish")
		}
		r.role = r.role || c.Delta.Role != ""
		s.chatMessage(&c.Delta)
		for k := range c.Delta.Calls {
			r.call(&c.Delta.Calls[k])
		}
		if c.Finish != nil {
			r.finished, s.Finish = true, *c.Finish
		}
	}
}

func (r *chatReader) call(t *chatCall) {
	s := r.s
	if t.Index == nil {
		s.fault("a call delta without index")
		return
	}
	c := s.call(*t.Index)
	if !r.open[*t.Index] {
		r.open[*t.Index] = true
		if text(t.ID) == "" || t.Function == nil || text(t.Function.Name) == "" {
			s.fault("a call whose first delta lacks id or name")
		}
	}
	if v := text(t.ID); v != "" {
		c.ID = v
	}
	if t.Function == nil {
		return
	}
	if v := text(t.Function.Name); v != "" {
		c.Name = v
	}
	if t.Function.Arguments != nil {
		c.Args += *t.Function.Arguments
	}
}

func (r *chatReader) end() {}
