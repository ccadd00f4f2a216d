package policy

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hearth/engine/infer"
)

// Waits that clients are told. Both official SDK families honour up to 60 s.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// LimitState is one limit as told to the client; convertible to web.LimitState.
type LimitState struct {
	Kind      string // "requests" or "tokens"
	Limit     int
	Remaining int
	Reset     time.Duration // until full
}

// limits is the state of all rate and concurrency limits. It outlives
// snapshots: each use brings the limit that is in force then, and the level of
// the bucket stays.
type limits struct {
	elapsed func() time.Duration // monotonic: wall clock jumps refill nothing

	mu      sync.Mutex // guards what follows
	buckets map[bucketKey]*rate.Limiter
	running map[string]int // by owner
	swept   time.Time
}

type bucketKey struct {
	owner string // "key/…" or "tenant/…"
	kind  string // "requests" or "tokens"
}

func newLimits(elapsed func() time.Duration) *limits {
	return &limits{elapsed: elapsed, buckets: map[bucketKey]*rate.Limiter{}, running: map[string]int{}}
}

// sweepAt is the number of buckets from which a new one first makes room.
const sweepAt = 50_000

// epoch is an arbitrary origin: rate.Limiter wants instants, we have spans.
var epoch = time.Unix(1<<31, 0)

func (l *limits) now() time.Time { return epoch.Add(l.elapsed()) }

// bucketLocked gives the bucket of a limit per minute, dimensioned anew if the
// limit has changed. A full minute's worth may come at once.
func (l *limits) bucketLocked(k bucketKey, perMinute int) *rate.Limiter {
	b, now := l.buckets[k], l.now()
	per := rate.Limit(float64(perMinute) / 60)
	if b == nil {
		if len(l.buckets) >= sweepAt && now.Sub(l.swept) > 10*time.Second {
			l.sweepLocked()
		}
		b = rate.NewLimiter(per, perMinute)
		l.buckets[k] = b
	} else if b.Burst() != perMinute {
		b.SetLimitAt(now, per)
		b.SetBurstAt(now, perMinute)
	}
	return b
}

// limit is one rate limit that a request meets.
type limit struct {
	owner     string
	perMinute int // 0: none
}

// take takes n of kind from all limits or from none.
func (l *limits) takeLocked(kind string, n int, ls []limit) error {
	now := l.now()
	for _, lim := range ls {
		if lim.perMinute == 0 {
			continue
		}
		if n > lim.perMinute {
			return &infer.Error{Code: infer.CodeRateLimited, NoRetry: true, Message: "the request alone needs more " + kind +
				" than the limit allows in a minute: shorten it or lower its maximum output"}
		}
		b := l.bucketLocked(bucketKey{lim.owner, kind}, lim.perMinute)
		if missing := float64(n) - b.TokensAt(now); missing > 0 {
			wait := time.Duration(math.Ceil(missing / float64(b.Limit()) * float64(time.Second)))
			return &infer.Error{Code: infer.CodeRateLimited, RetryAfter: clampRetry(wait),
				Message: "too many " + kind + " in the last minute"}
		}
	}
	for _, lim := range ls {
		if lim.perMinute != 0 {
			l.bucketLocked(bucketKey{lim.owner, kind}, lim.perMinute).ReserveN(now, n)
		}
	}
	return nil
}

// correct changes what was taken by n: less if negative. What was used beyond
// what was taken becomes debt, which later requests wait for.
func (l *limits) correct(kind string, n int, ls []limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, lim := range ls {
		b := l.buckets[bucketKey{lim.owner, kind}] // as it is: the limit may have changed since
		if lim.perMinute == 0 || b == nil {
			continue // without limit, or so full that it was forgotten
		}
		for rest := n; rest != 0; {
			step := min(rest, b.Burst()) // a bucket lends at most its size at a time
			b.ReserveN(now, step)
			rest -= step
		}
	}
}

// states gives the tightest limit of a kind, as of now; none if unlimited.
func (l *limits) statesLocked(dst []LimitState, kind string, ls []limit) []LimitState {
	best := -1
	now := l.now()
	for _, lim := range ls {
		if lim.perMinute == 0 {
			continue
		}
		b := l.bucketLocked(bucketKey{lim.owner, kind}, lim.perMinute)
		level := b.TokensAt(now)
		st := LimitState{Kind: kind, Limit: lim.perMinute, Remaining: max(0, int(math.Floor(level+1e-9)))}
		st.Reset = time.Duration((float64(lim.perMinute) - level) / float64(b.Limit()) * float64(time.Second))
		switch {
		case best < 0:
			best = len(dst)
			dst = append(dst, st)
		case st.Remaining < dst[best].Remaining:
			dst[best] = st
		}
	}
	return dst
}

// slot is one concurrency limit.
type slot struct {
	owner string
	most  int // 0: none
}

// enterLocked takes a place among the running requests of all owners or none.
func (l *limits) enterLocked(slots []slot) error {
	for _, s := range slots {
		if s.most != 0 && l.running[s.owner] >= s.most {
			return &infer.Error{Code: infer.CodeRateLimited, RetryAfter: minRetryAfter,
				Message: "too many requests are running at once"}
		}
	}
	for _, s := range slots {
		l.running[s.owner]++
	}
	return nil
}

func (l *limits) leave(slots []slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(slots)
}

func (l *limits) leaveLocked(slots []slot) {
	for _, s := range slots {
		if l.running[s.owner]--; l.running[s.owner] <= 0 {
			delete(l.running, s.owner)
		}
	}
}

// sweepLocked forgets buckets that are full: a new one would be as well.
func (l *limits) sweepLocked() {
	now := l.now()
	l.swept = now
	for k, b := range l.buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(l.buckets, k)
		}
	}
}

func clampRetry(d time.Duration) time.Duration { return min(max(d, minRetryAfter), maxRetryAfter) }
