package accounts

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Guessing is damped twice: by the network that it comes from, and by the
// account that it is about. A few failures are free; from then on each doubles
// the wait, and time heals one failure every few minutes. Nothing is ever locked
// for good: a stranger who guesses at an account can delay a sign-in from a
// network that has never been good for it by accountMost, and from the networks
// of its owner not at all. Passkeys, the OpenID provider and certificates know no
// guessing, so the account's wait is not asked there.
const (
	freeFailures = 5
	firstWait    = time.Second
	networkMost  = 15 * time.Minute
	// accountMost is the longest wait that strangers can cause to others; also
	// that of loopback, where a proxy may stand for everyone.
	accountMost = time.Minute
	// heals is how long it takes for one failure to be forgotten.
	heals = 3 * time.Minute
	// maxCounters bounds each table; the one that failed longest ago goes.
	maxCounters = 4096
)

// counter is the failures of one network or account.
type counter struct {
	failures int
	last     time.Time // of failures, or of the last healing
	until    time.Time // no try before
}

// heal forgets what is long ago.
func (c *counter) heal(now time.Time) {
	if n := int(now.Sub(c.last) / heals); n > 0 {
		c.failures = max(0, c.failures-n)
		c.last = c.last.Add(time.Duration(n) * heals)
	}
}

// fail counts a failure.
func (c *counter) fail(now time.Time, most time.Duration) {
	if c.failures == 0 {
		c.last = now
	}
	c.failures++
	if over := c.failures - freeFailures; over > 0 {
		wait := most
		if over < 16 {
			wait = min(most, firstWait<<(over-1))
		}
		c.until = now.Add(wait)
	}
}

// table is a bounded set of counters.
type table map[string]*counter

func (t table) get(key string, now time.Time) *counter {
	c := t[key]
	if c == nil {
		if len(t) >= maxCounters {
			t.evict()
		}
		c = &counter{last: now}
		t[key] = c
	}
	c.heal(now)
	return c
}

// evict drops the counter of the fewest failures among a sample: going over all
// of them at each guess would be work that strangers can order.
func (t table) evict() {
	var worst string
	least, n := int(^uint(0)>>1), 0
	for k, c := range t { // the order of a map is random enough for a sample
		if c.failures < least {
			worst, least = k, c.failures
		}
		if n++; n == 32 {
			break
		}
	}
	delete(t, worst)
}

// damper slows guessing down.
type damper struct {
	now func() time.Time

	mu       sync.Mutex // guards what follows
	networks table
	accounts table // of accounts that exist: as many as there are
	unknown  table // of names that no account has: apart, so that they push out none of those
}

func newDamper(now func() time.Time) *damper {
	return &damper{now: now, networks: table{}, accounts: table{}, unknown: table{}}
}

// try is one attempt under way. It counts as failed until it is known to be
// good, so that many at once are held like one after the other.
type try struct {
	d       *damper
	network *counter
	account *counter // nil: not asked
	most    time.Duration
}

// attempt begins a try from network, at the account where name is set; known
// says that there is one, trusted that it was good from that network before.
// wait is positive if the try may not be made yet.
func (d *damper) attempt(network, name string, known, trusted bool) (t *try, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	t = &try{d: d, network: d.networks.get(network, now), most: networkMost}
	if network == loopbackNetwork {
		t.most = accountMost
	}
	if name != "" && !trusted {
		of := d.unknown
		if known {
			of = d.accounts
		}
		t.account = of.get(name, now)
	}
	wait = t.network.until.Sub(now)
	if t.account != nil {
		wait = max(wait, t.account.until.Sub(now))
	}
	if wait > 0 {
		return nil, wait
	}
	t.network.fail(now, t.most)
	if t.account != nil {
		t.account.fail(now, accountMost)
	}
	return t, 0
}

// good takes back that a try failed. The account is forgiven everything, the
// network this one only: who has an account there guesses at others' no faster.
func (t *try) good() {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	t.network.failures = max(0, t.network.failures-1)
	if t.network.failures <= freeFailures {
		t.network.until = time.Time{}
	}
	if t.account != nil {
		*t.account = counter{}
	}
}

// forget drops what is known of an account that has changed or gone.
func (d *damper) forget(name string) {
	d.mu.Lock()
	delete(d.accounts, name)
	delete(d.unknown, name)
	d.mu.Unlock()
}

const loopbackNetwork = "loopback"

// networkOf is the network that an address, with or without a port, counts for:
// an IPv4 address, or the /56 that a site commonly has of IPv6 (RFC 6177).
func networkOf(peer string) string {
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	addr, err := netip.ParseAddr(strings.Trim(peer, "[]"))
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	switch {
	case addr.IsLoopback():
		return loopbackNetwork
	case addr.Is6():
		p, _ := addr.Prefix(56) // 56 is a length that IPv6 has
		return p.String()
	}
	return addr.String()
}
