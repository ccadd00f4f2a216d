package policy

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hearth/engine/infer"
)

// errKey is the one answer to every failed authentication.
func errKey() *infer.Error {
	return infer.Errorf(infer.CodeUnauthorized, "a valid api key is required")
}

// Authenticate finds the caller behind a credential (the value of a bearer
// token or x-api-key). Every failure is the same CodeUnauthorized; too many from
// one address become CodeRateLimited. A right credential always passes, so that
// nobody can lock out others behind the same address; the secrets have 256 bits,
// damping spares the machine and the log. No credential at all is no guess and
// is not counted. A live key of a tenant that is
// disabled or gone is CodeForbidden.
func (p *Policy) Authenticate(credential, remoteAddr string) (*Identity, error) {
	k, secret, ok := p.store.VerifySecret(credential)
	if !ok {
		if credential == "" {
			return nil, errKey() // nothing was guessed
		}
		return nil, p.Refuse(remoteAddr)
	}
	if _, err := p.tenantOf(p.snap.Load(), &k); err != nil {
		return nil, err
	}
	return &Identity{KeyID: k.ID, Name: k.Name, Tenant: k.Tenant, Secret: secret}, nil
}

// Refuse counts a failed attempt to authenticate, by whatever credential, and
// gives the error that answers it.
func (p *Policy) Refuse(remoteAddr string) error {
	if wait, damped := p.failed.note(remoteAddr); damped {
		return &infer.Error{Code: infer.CodeRateLimited, RetryAfter: wait,
			Message: "too many failed attempts to authenticate from this address"}
	}
	return errKey()
}

// maxAddresses bounds the memory of failed attempts.
const maxAddresses = 10_000

// failures damps failed attempts by network address.
type failures struct {
	elapsed func() time.Duration

	mu     sync.Mutex // guards what follows
	per    rate.Limit
	burst  int
	byAddr map[string]*rate.Limiter
	swept  time.Time
}

func (f *failures) configure(c AuthConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.per, f.burst = rate.Limit(float64(c.FailuresPerMinute)/60), c.FailureBurst
	now := epoch.Add(f.elapsed())
	for _, b := range f.byAddr {
		b.SetLimitAt(now, f.per)
		b.SetBurstAt(now, f.burst)
	}
}

// note counts a failed attempt and says whether it is one too many.
func (f *failures) note(remoteAddr string) (wait time.Duration, damped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, addr := epoch.Add(f.elapsed()), network(remoteAddr)
	b := f.byAddr[addr]
	if b == nil {
		f.makeRoomLocked(now)
		b = rate.NewLimiter(f.per, f.burst)
		f.byAddr[addr] = b
	}
	if b.AllowN(now, 1) {
		return 0, false
	}
	return clampRetry(time.Duration((1 - b.TokensAt(now)) / float64(f.per) * float64(time.Second))), true
}

// makeRoomLocked keeps the table bounded: now and then it drops the addresses
// that have been quiet, else any one. Looking at all each time would let a
// flood of addresses burn the CPU.
func (f *failures) makeRoomLocked(now time.Time) {
	if len(f.byAddr) < maxAddresses {
		return
	}
	if now.Sub(f.swept) > 10*time.Second {
		f.swept = now
		for a, b := range f.byAddr {
			if b.TokensAt(now) >= float64(f.burst) {
				delete(f.byAddr, a)
			}
		}
	}
	for a := range f.byAddr {
		if len(f.byAddr) < maxAddresses {
			return
		}
		delete(f.byAddr, a)
	}
}

// network is what counts as one place: an IPv4 address or an IPv6 /64, which
// is what one customer is given.
func network(remoteAddr string) string {
	ap, err := netip.ParseAddrPort(remoteAddr)
	addr := ap.Addr()
	if err != nil {
		if addr, err = netip.ParseAddr(remoteAddr); err != nil {
			return "?"
		}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	prefix, _ := addr.Prefix(64)
	return prefix.String()
}
