package output

// StopSet is a compiled set of stop strings: an Aho–Corasick automaton over
// bytes (Aho and Corasick, CACM 18(6), 1975). It is safe for concurrent use.
type StopSet struct {
	nodes []stopNode
	first [256]int32 // children of the root
	stops []string
}

type stopNode struct {
	child, sibling int32 // 0: none, since the root is nobody's child
	fail           int32 // longest proper suffix that is a node
	depth          int32 // bytes from the root
	match          int32 // 1 + index of the longest stop that ends here, 0: none
	char           byte
}

// NewStopSet compiles stop strings; empty strings are ignored, and a set of none
// is nil.
func NewStopSet(stops []string) *StopSet {
	total := 1
	for _, s := range stops {
		total += len(s)
	}
	if total == 1 {
		return nil
	}
	s := &StopSet{nodes: make([]stopNode, 1, total), stops: stops}
	for i, stop := range stops {
		if stop != "" {
			s.add(stop, int32(i)+1)
		}
	}
	s.link()
	return s
}

func (s *StopSet) add(stop string, index int32) {
	at := int32(0)
	for i := 0; i < len(stop); i++ {
		c := stop[i]
		next := s.child(at, c)
		if next == 0 {
			next = int32(len(s.nodes))
			n := stopNode{depth: int32(i) + 1, char: c}
			if at == 0 {
				s.first[c] = next
			} else {
				n.sibling = s.nodes[at].child
				s.nodes[at].child = next
			}
			s.nodes = append(s.nodes, n)
		}
		at = next
	}
	if s.nodes[at].match == 0 {
		s.nodes[at].match = index
	}
}

func (s *StopSet) child(at int32, c byte) int32 {
	if at == 0 {
		return s.first[c]
	}
	for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
		if s.nodes[n].char == c {
			return n
		}
	}
	return 0
}

// link fills fail and match breadth first.
func (s *StopSet) link() {
	queue := make([]int32, 0, len(s.nodes))
	for _, n := range s.first {
		if n != 0 {
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if s.nodes[at].match == 0 {
			s.nodes[at].match = s.nodes[s.nodes[at].fail].match
		}
		for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
			s.nodes[n].fail = s.step(s.nodes[at].fail, s.nodes[n].char)
			queue = append(queue, n)
		}
	}
}

// step is the state after byte c.
func (s *StopSet) step(at int32, c byte) int32 {
	for {
		if n := s.child(at, c); n != 0 {
			return n
		}
		if at == 0 {
			return 0
		}
		at = s.nodes[at].fail
	}
}

// StopMatcher looks for the stops of a set in a text that comes in pieces. The
// stop that is complete first wins, whatever else it might have begun; of
// several that end at the same byte, the longest. At any time just the longest
// end of the text that begins a stop is held.
type StopMatcher struct {
	set   *StopSet
	state int32
	buf   []byte
}

// Push takes text and returns what is free to go, valid until the next call.
// When a stop is complete, matched is that stop, the text returned ends before
// it (behind it with include), and the rest of the input is dropped.
func (m *StopMatcher) Push(text []byte, include bool) (free []byte, matched string, ok bool) {
	held := int(m.set.nodes[m.state].depth)
	m.buf = append(m.buf[:copy(m.buf, m.buf[len(m.buf)-held:])], text...)
	for i, c := range text {
		m.state = m.set.step(m.state, c)
		if k := m.set.nodes[m.state].match; k != 0 {
			stop := m.set.stops[k-1]
			end := held + i + 1
			if !include {
				end -= len(stop)
			}
			m.state = 0
			return m.buf[:end], stop, true
		}
	}
	return m.buf[:len(m.buf)-int(m.set.nodes[m.state].depth)], "", false
}

// Flush returns what is held; the text has ended.
func (m *StopMatcher) Flush() []byte {
	held := int(m.set.nodes[m.state].depth)
	m.state = 0
	return m.buf[len(m.buf)-held:]
}
