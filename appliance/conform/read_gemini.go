package conform

import "encoding/json"

type geminiObject struct {
	Candidates []struct {
		Index   int `json:"index"`
		Content *struct {
			Role  string `json:"role"`
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
				Call    *struct {
					ID   string          `json:"id"`
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Usage *struct {
		Prompt     int  `json:"promptTokenCount"`
		Cached     int  `json:"cachedContentTokenCount"`
		Candidates int  `json:"candidatesTokenCount"`
		Thoughts   int  `json:"thoughtsTokenCount"`
		Total      *int `json:"totalTokenCount"`
	} `json:"usageMetadata"`
	Feedback json.RawMessage `json:"promptFeedback"`
}

func geminiFinish(s string) string {
	switch s {
	case "STOP":
		return "stop"
	case "MAX_TOKENS":
		return "length"
	case "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII":
		return "content_filter"
	}
	return s
}

// take adds a GenerateContentResponse to s.
func (o *geminiObject) take(s *Seen) {
	for _, c := range o.Candidates {
		if c.Index != 0 {
			continue
		}
		if c.Content != nil {
			for _, p := range c.Content.Parts {
				switch {
				case p.Call != nil:
					if p.Call.Name == "" || len(p.Call.Args) > 0 && p.Call.Args[0] != '{' {
						s.fault("a call without name, or with arguments that are no object")
					}
					args := string(p.Call.Args)
					if args == "" {
						args = "{}"
					}
					s.Calls = append(s.Calls, Call{p.Call.ID, p.Call.Name, args})
				case p.Thought:
					s.Thought += p.Text
				default:
					s.Text += p.Text
				}
			}
		}
		if c.Finish != "" {
			if s.Finish != "" {
				s.fault("two finish reasons")
			}
			s.Finish = geminiFinish(c.Finish)
		}
	}
	if u := o.Usage; u != nil {
		s.Usage = &Tally{u.Prompt, u.Cached, u.Candidates + u.Thoughts, u.Thoughts}
		if u.Total != nil && *u.Total != s.Usage.Prompt+s.Usage.Output && s.Finish != "" {
			s.fault("usage whose total is %d with %d and %d", *u.Total, s.Usage.Prompt, s.Usage.Output)
		}
	}
}

func wholeGemini(s *Seen, body []byte) {
	var o geminiObject
	if !s.decode(body, &o) {
		return
	}
	o.take(s)
	if len(o.Candidates) == 0 && o.Feedback == nil {
		s.fault("an answer without candidates")
	}
}

// geminiReader reads a stream whose end is a finish reason and the end of the
// transport.
type geminiReader struct{ s *Seen }

func (r *geminiReader) event(_ string, data []byte) {
	s := r.s
	if s.End == "error" {
		s.fault("an event after the error")
		return
	}
	if s.failure(Gemini, data) {
		s.End = "error"
		return
	}
	var o geminiObject
	if s.decode(data, &o) {
		o.take(s)
	}
}

func (r *geminiReader) end() {
	if r.s.End == "" && r.s.Finish != "" {
		r.s.End = "done"
	}
}
