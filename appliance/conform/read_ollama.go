package conform

import "encoding/json"

type ollamaObject struct {
	Model   string `json:"model"`
	Created string `json:"created_at"`
	Message *struct {
		Role     string `json:"role"`
		Content  string `json:"content"`
		Thinking string `json:"thinking"`
		Calls    []struct {
			ID       string `json:"id"`
			Function struct {
				Name string          `json:"name"`
				Args json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done   *bool  `json:"done"`
	Reason string `json:"done_reason"`
	Prompt *int   `json:"prompt_eval_count"`
	Eval   *int   `json:"eval_count"`
}

func (o *ollamaObject) take(s *Seen) {
	if o.Model == "" || o.Created == "" || o.Done == nil {
		s.fault("a line without model, time or done")
		return
	}
	if m := o.Message; m != nil {
		if m.Role != "assistant" {
			s.fault("a message of role %q", m.Role)
		}
		s.Text += m.Content
		s.Thought += m.Thinking
		for _, c := range m.Calls {
			if c.Function.Name == "" || len(c.Function.Args) == 0 || c.Function.Args[0] != '{' {
				s.fault("a call without name, or with arguments that are no object")
			}
			s.Calls = append(s.Calls, Call{c.ID, c.Function.Name, string(c.Function.Args)})
		}
	} else if !*o.Done {
		s.fault("a line without a message")
	}
	if !*o.Done {
		return
	}
	s.Finish = o.Reason
	if s.Finish == "" {
		s.fault("an end without done_reason")
	}
	if o.Prompt != nil || o.Eval != nil {
		s.Usage = &Tally{deref(o.Prompt), -1, deref(o.Eval), -1}
	}
	s.End = "done"
}

func wholeOllama(s *Seen, body []byte) {
	var o ollamaObject
	if s.decode(body, &o) {
		o.take(s)
		if s.End != "done" {
			s.fault("a whole answer that is not done")
		}
	}
}

// ollamaReader reads lines of JSON up to the one that is done.
type ollamaReader struct{ s *Seen }

func (r *ollamaReader) event(_ string, data []byte) {
	s := r.s
	if s.End != "" {
		s.fault("a line after the end: %.80s", data)
		return
	}
	if s.failure(Ollama, data) {
		s.End = "error"
		return
	}
	var o ollamaObject
	if s.decode(data, &o) {
		o.take(s)
	}
}

func (r *ollamaReader) end() {}
