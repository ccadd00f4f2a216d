package core

// Speculation by n-grams, also known as prompt lookup (arXiv 2304.04487): where the last tokens of a sequence have stood before, what
// followed them then is guessed to follow now. The guesses are computed in the
// same step; at each the token is chosen as always, and the answer goes on for as
// long as the choice is the guess. A row's logits do not depend on the rows
// beside it, so an answer is the same, token for token, with and without.

const (
	ngram        = 3   // tokens that must match
	draftStart   = 4   // guesses at first
	pauseAtFirst = 16  // tokens without guesses after guesses were wrong
	pauseAtMost  = 512 // a pause doubles for as long as guesses are wrong
)

// drafter guesses the continuation of one sequence. A nil drafter never does.
type drafter struct {
	seen   map[[ngram]int32]int // the position behind the latest occurrence
	known  int                  // tokens of which all n-grams but the last are in seen
	length int                  // guesses that are worth it now
	most   int
	pause  int // tokens to go without a guess
	next   int // how long the next pause is
}

func newDrafter(most int) *drafter {
	return &drafter{seen: map[[ngram]int32]int{}, length: min(draftStart, most), most: most, next: pauseAtFirst}
}

// draft appends to dst what is guessed to follow tokens, at most limit.
func (d *drafter) draft(dst, tokens []int32, limit int) []int32 {
	if d == nil || len(tokens) < ngram {
		return dst
	}
	for end := max(d.known, ngram); end < len(tokens); end++ {
		d.seen[[ngram]int32(tokens[end-ngram:end])] = end
	}
	d.known = len(tokens)
	at, ok := d.seen[[ngram]int32(tokens[len(tokens)-ngram:])]
	switch {
	case d.pause > 0:
		d.pause--
		return dst
	case !ok:
		return dst
	}
	n := min(d.length, limit, len(tokens)-at)
	return append(dst, tokens[at:at+max(0, n)]...)
}

// learn is told how many of n guesses were right.
func (d *drafter) learn(right, n int) {
	switch {
	case n == 0:
	case right == n:
		d.length, d.next = min(2*d.length, d.most), pauseAtFirst
	case right == 0:
		d.length = max(1, d.length/2)
		d.pause, d.next = d.next, min(2*d.next, pauseAtMost)
	default:
		d.length = max(1, min(d.most, right+1))
	}
}

// guess gives the running sequences their guesses, if few enough run: in a large
// step a row more costs as much as any.
func (c *Core) guess() {
	running := c.sched.List()
	on := c.cfg.Draft > 0 && len(running) <= c.cfg.DraftBatch
	for _, q := range running {
		r := q.Data.(*run)
		q.Draft = q.Draft[:0]
		if on && r.drafter != nil && q.Pending() == 1 && !r.over {
			q.Draft = r.drafter.draft(q.Draft, q.Tokens, r.Max-r.made-1)
		}
	}
}

// speculates says whether the choice can be guessed ahead: the chances of a token
// must depend on nothing but the text before it that the device knows.
func (c *Core) speculates(ch *Choice) bool {
	p := &ch.Sampling
	return c.cfg.Draft > 0 && ch.Embed == nil && ch.Matcher == nil && p.FrequencyPenalty == 0 && p.PresencePenalty == 0 &&
		(p.RepetitionPenalty == 0 || p.RepetitionPenalty == 1)
}
