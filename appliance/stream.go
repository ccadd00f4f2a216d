package appliance

import (
	"iter"
	"strings"

	"hearth/engine/infer"
)

// stream counts the events of one answer and holds its backend to the contract
// of infer.Event, so that dialects and the ledger can rely on it.
type stream struct {
	choices int         // how many are due
	prompt  infer.Usage // the prompt side, as far as known
	tokens  int         // generated so far
	thought int         // those of them that are reasoning
	started bool
	finish  map[int]infer.FinishReason
	usage   *infer.Usage // as the backend told it
}

// normalize passes on the events of a backend: a start in front even if the
// backend gave none, nothing of a choice after its finish, and usage at the end.
// A backend that just stops is an error: no finish is invented.
func (s *stream) normalize(in iter.Seq2[infer.Event, error], served infer.Served) iter.Seq2[infer.Event, error] {
	s.finish = map[int]infer.FinishReason{}
	return func(yield func(infer.Event, error) bool) {
		for ev, err := range in {
			if err != nil {
				yield(infer.Event{}, err)
				return
			}
			if s.usage != nil {
				continue // nothing follows usage
			}
			if !s.started {
				s.started = true
				if ev.Kind != infer.EventStart {
					prompt := s.prompt
					if !yield(infer.Event{Kind: infer.EventStart, Usage: &prompt, Model: &served}, nil) {
						return
					}
				}
			} else if ev.Kind == infer.EventStart {
				continue
			}
			if !s.take(&ev, &served) {
				continue
			}
			if !yield(ev, nil) {
				return
			}
		}
		s.end(yield)
	}
}

// take counts ev and says whether it is passed on.
func (s *stream) take(ev *infer.Event, served *infer.Served) bool {
	s.tokens += ev.Tokens
	switch ev.Kind {
	case infer.EventStart:
		if ev.Usage != nil {
			s.prompt = *ev.Usage
		}
		if ev.Model == nil {
			ev.Model = served
		}
		return true
	case infer.EventUsage:
		if len(s.finish) < s.choices {
			return false // the end decides: see end
		}
		if ev.Usage == nil {
			total := s.total()
			ev.Usage = &total
		}
		s.usage = ev.Usage
		return true
	}
	if _, over := s.finish[ev.Choice]; over {
		return false
	}
	switch ev.Kind {
	case infer.EventReasoning:
		s.thought += ev.Tokens
	case infer.EventFinish:
		s.finish[ev.Choice] = ev.Finish
	}
	return true
}

// end closes a stream whose backend has ended without error.
func (s *stream) end(yield func(infer.Event, error) bool) {
	switch {
	case s.usage != nil:
	case len(s.finish) < s.choices || !s.started:
		yield(infer.Event{}, infer.Errorf(infer.CodeUpstream, "the model's answer broke off"))
	default:
		total := s.total()
		total.Estimated = true
		s.usage = &total
		yield(infer.Event{Kind: infer.EventUsage, Usage: &total}, nil)
	}
}

// total is the usage so far: the backend's own word if the stream is complete.
func (s *stream) total() infer.Usage {
	if s.usage != nil {
		return *s.usage
	}
	u := s.prompt
	u.CompletionTokens, u.ReasoningTokens = s.tokens, s.thought
	return u
}

// finishes names the finish reasons, each once, in the order of the choices.
func (s *stream) finishes() string {
	var names []string
	for i := range s.choices {
		if f, ok := s.finish[i]; ok && !strings.Contains(strings.Join(names, ","), string(f)) {
			names = append(names, string(f))
		}
	}
	return strings.Join(names, ",")
}
