package conform

import (
	"encoding/json"
	"strings"
)

type responsesItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Role      string `json:"role"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

type responsesObject struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Status  string          `json:"status"`
	Model   string          `json:"model"`
	Output  []responsesItem `json:"output"`
	Error   *Failure        `json:"error"`
	Details *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input  *int `json:"input_tokens"`
		Output *int `json:"output_tokens"`
		In     *struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Out *struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// take reads a finished response into s.
func (o *responsesObject) take(s *Seen) {
	if !strings.HasPrefix(o.ID, "resp_") && o.ID == "" || o.Object != "response" || o.Model == "" {
		s.fault("a response without id, object or model")
	}
	s.Text, s.Thought, s.Calls = "", "", nil
	for i, it := range o.Output {
		switch it.Type {
		case "message":
			if it.Role != "assistant" || it.ID == "" {
				s.fault("message %d without role or id", i)
			}
			for _, p := range it.Content {
				if p.Type != "output_text" && p.Type != "refusal" {
					s.fault("a part of type %q", p.Type)
				}
				s.Text += p.Text + p.Refusal
			}
		case "reasoning":
			for _, p := range it.Summary {
				s.Thought += p.Text
			}
			for _, p := range it.Content {
				s.Thought += p.Text
			}
		case "function_call":
			if it.CallID == "" || it.Name == "" || it.ID == "" {
				s.fault("call %d lacks an id or name", i)
			}
			s.Calls = append(s.Calls, Call{it.CallID, it.Name, it.Arguments})
		default:
			s.fault("an item of type %q", it.Type)
		}
	}
	switch o.Status {
	case "completed":
		s.Finish = "stop"
		if len(s.Calls) > 0 {
			s.Finish = "tool_calls"
		}
	case "incomplete":
		if o.Details == nil || o.Details.Reason == "" {
			s.fault("an incomplete response without a reason")
		} else if s.Finish = o.Details.Reason; s.Finish == "max_output_tokens" {
			s.Finish = "length"
		}
	case "failed":
	default:
		s.fault("a finished response with status %q", o.Status)
	}
	if u := o.Usage; u != nil {
		if u.Input == nil || u.Output == nil || u.In == nil || u.Out == nil {
			s.fault("usage that lacks a count")
			return
		}
		s.Usage = &Tally{*u.Input, u.In.Cached, *u.Output, u.Out.Reasoning}
	}
}

func wholeResponses(s *Seen, body []byte) {
	var o responsesObject
	if s.decode(body, &o) {
		o.take(s)
	}
}

// responsesReader holds the stream to its order: created first, numbers that
// rise by one, items that open and close, and a terminal event last.
type responsesReader struct {
	s      *Seen
	seq    int
	begun  bool
	open   map[int]string // item id by output index
	closed int
	text   map[int]string
	args   map[int]string
	calls  map[int]int
}

func (r *responsesReader) event(name string, data []byte) {
	s := r.s
	var o struct {
		Type     string           `json:"type"`
		Seq      *int             `json:"sequence_number"`
		Index    *int             `json:"output_index"`
		ItemID   string           `json:"item_id"`
		Delta    json.RawMessage  `json:"delta"`
		Item     *responsesItem   `json:"item"`
		Text     string           `json:"text"`
		Args     string           `json:"arguments"`
		Response *responsesObject `json:"response"`
	}
	if !s.decode(data, &o) {
		return
	}
	if s.End != "" {
		s.fault("an event after the end: %.80s", data)
		return
	}
	if name != "" && name != o.Type {
		s.fault("event %q of type %q", name, o.Type)
	}
	if o.Seq == nil || *o.Seq != r.seq && o.Type != "error" {
		s.fault("%s has number %d, wanted %d", o.Type, deref(o.Seq), r.seq)
	}
	if o.Seq != nil {
		r.seq = *o.Seq + 1
	}
	if !r.begun && o.Type != "response.created" && o.Type != "error" {
		s.fault("%s before response.created", o.Type)
	}
	r.begun = true
	switch o.Type {
	case "response.output_item.added":
		if o.Index == nil || o.Item == nil || *o.Index != len(r.open) {
			s.fault("an item out of turn: %.100s", data)
			return
		}
		r.open[*o.Index] = o.Item.ID
		if o.Item.Type == "function_call" {
			r.calls[*o.Index] = len(s.Calls)
			s.Calls = append(s.Calls, Call{ID: o.Item.CallID, Name: o.Item.Name})
		}
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta":
		if o.Index == nil || r.open[*o.Index] != o.ItemID || o.ItemID == "" {
			s.fault("a delta for an item that is not open: %.100s", data)
			return
		}
		r.delta(o.Type, *o.Index, text(o.Delta))
	case "response.output_text.done":
		if o.Index != nil && r.text[*o.Index] != o.Text {
			s.fault("text that is done differs from its deltas")
		}
	case "response.function_call_arguments.done":
		if o.Index != nil && r.args[*o.Index] != o.Args {
			s.fault("arguments that are done differ from their deltas: %q and %q", o.Args, r.args[*o.Index])
		}
	case "response.output_item.done":
		r.closed++
	case "response.completed", "response.incomplete", "response.failed":
		r.terminal(o.Type, o.Response)
	case "error":
		s.failure(Responses, data)
		s.End = "error"
	}
}

func (r *responsesReader) delta(kind string, index int, d string) {
	s := r.s
	switch {
	case strings.Contains(kind, "reasoning"):
		s.Thought += d
	case strings.Contains(kind, "arguments"):
		r.args[index] += d
		if i, ok := r.calls[index]; ok {
			s.Calls[i].Args += d
		}
	default:
		r.text[index] += d
		s.Text += d
	}
}

func (r *responsesReader) terminal(kind string, o *responsesObject) {
	s := r.s
	if o == nil || "response."+o.Status != kind {
		s.fault("%s without its response", kind)
		return
	}
	if kind == "response.failed" {
		s.End = "error"
		s.Error = &Failure{}
		if o.Error == nil || o.Error.Message == "" {
			s.fault("a failed response without an error")
		} else {
			s.Error = o.Error
		}
		return
	}
	s.End = "done"
	if r.closed != len(r.open) {
		s.fault("%d items began and %d ended", len(r.open), r.closed)
	}
	streamed := s.Text
	o.take(s)
	if s.Text != streamed {
		s.fault("the text of the last event differs from the deltas")
	}
}

func (r *responsesReader) end() {}
