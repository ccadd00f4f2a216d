package grammar

import "strings"

const (
	maxTriggers     = 64
	maxTriggerBytes = 1024
	maxTriggerCount = 64 // written out, as minimum and maximum of Triggered
)

// triggered is free text in which each of words, wherever it occurs, must be
// followed by its then. With free the text may go on after that, and end where
// no word has begun to be obeyed and minimum is reached; without, it ends with
// the last then.
//
// The rules are the states of the Aho-Corasick automaton of words, once for
// each number of triggers seen; each goes on to the next by a call in the last
// place, so no stack builds up.
func (bd *builder) triggered(words []string, thens []*ir, minimum, maximum int, free bool) (*ir, error) {
	if err := checkTriggers(words, minimum, maximum); err != nil {
		return nil, err
	}
	ac := newPrefixes(words)
	rounds := max(minimum, maximum) + 1
	rules := make([][]*rule, rounds)
	for k := range rules {
		rules[k] = make([]*rule, len(ac.prefix))
		for q := range ac.prefix {
			r, err := bd.g.newRule("free text")
			if err != nil {
				return nil, err
			}
			rules[k][q] = r
		}
	}
	done := make([]*ir, len(words))
	for w := range words {
		done[w] = thens[w]
		if thens[w].kind != irEmpty {
			r, err := bd.g.newRule("triggered")
			if err != nil {
				return nil, err
			}
			r.body, done[w] = thens[w], ref(r)
		}
	}
	for k := range rules {
		after := min(k+1, rounds-1)
		for q := range ac.prefix {
			var alts []*ir
			if free && k >= minimum && !ac.control(q) {
				alts = append(alts, empty)
			}
			for to, set := range ac.moves(q) {
				x := &ir{kind: irByte, bytes: *set}
				if to < len(ac.prefix) {
					alts = append(alts, seq(x, ref(rules[k][to])))
					continue
				}
				x = seq(x, done[to-len(ac.prefix)])
				switch {
				case maximum >= 0 && k >= maximum:
					continue
				case free:
					x = seq(x, ref(rules[after][0]))
				}
				alts = append(alts, x)
			}
			rules[k][q].body = alt(alts...)
		}
	}
	return ref(rules[0][0]), nil
}

func checkTriggers(words []string, minimum, maximum int) error {
	if len(words) == 0 || len(words) > maxTriggers {
		return faultf("there are %d triggers, want 1 to %d", len(words), maxTriggers)
	}
	if minimum < 0 || maximum >= 0 && maximum < minimum || max(minimum, maximum) > maxTriggerCount {
		return faultf("cannot ask for %d to %d triggers, the limit is %d", minimum, maximum, maxTriggerCount)
	}
	total := 0
	for i, w := range words {
		if w == "" || w[0] != controlMark && strings.IndexByte(w, controlMark) > 0 {
			return faultf("trigger %d is empty or not text", i)
		}
		total += len(w)
		for j, o := range words {
			if i != j && strings.Contains(o, w) {
				return faultf("trigger %d is part of trigger %d", i, j)
			}
		}
	}
	if total > maxTriggerBytes {
		return faultf("the triggers have more than %d bytes", maxTriggerBytes)
	}
	return nil
}

// prefixes is the Aho-Corasick automaton of some words: its states are the
// proper prefixes, the empty one first.
type prefixes struct {
	words  []string
	prefix []string
	number map[string]int
}

func newPrefixes(words []string) *prefixes {
	ac := &prefixes{words: words, number: map[string]int{}}
	for _, w := range words {
		for n := 0; n < len(w); n++ {
			if _, ok := ac.number[w[:n]]; !ok {
				ac.number[w[:n]] = len(ac.prefix)
				ac.prefix = append(ac.prefix, w[:n])
			}
		}
	}
	return ac
}

// control reports whether state q is within the spelling of a control token,
// which is no text: nothing but that token may be meant.
func (ac *prefixes) control(q int) bool { return ac.prefix[q] != "" && ac.prefix[q][0] == controlMark }

// moves lists what each byte leads to from state q: a state, or the end of word
// k as len(prefix)+k.
func (ac *prefixes) moves(q int) []*[256]bool {
	out := make([]*[256]bool, len(ac.prefix)+len(ac.words))
	for i := range out {
		out[i] = new([256]bool)
	}
	free := freeBytes()
	special := [256]bool{}
	for _, w := range ac.words {
		for i := 0; i < len(w); i++ {
			special[w[i]] = true
		}
	}
	for b := 0; b < 256; b++ {
		if free[b] || special[b] {
			to := 0
			if special[b] {
				to = ac.after(ac.prefix[q] + string([]byte{byte(b)}))
			}
			if ac.control(q) && to < len(ac.prefix) && len(ac.prefix[to]) != len(ac.prefix[q])+1 {
				continue
			}
			out[to][b] = true
		}
	}
	return out
}

// after is the state for text read so far: a word that ends it, else its
// longest suffix that begins a word.
func (ac *prefixes) after(text string) int {
	for i := 0; i <= len(text); i++ {
		for k, w := range ac.words {
			if text[i:] == w {
				return len(ac.prefix) + k
			}
		}
		if n, ok := ac.number[text[i:]]; ok {
			return n
		}
	}
	return 0
}
