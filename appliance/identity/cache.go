package identity

import (
	"crypto/sha256"
	"sync"
	"time"

	"hearth/policy"
)

// cache keeps who was verified a short time ago, by a digest of what was shown:
// the credentials themselves are not kept.
type cache struct {
	mu   sync.RWMutex
	held map[[sha256.Size]byte]*verified
	gen  uint64 // changes with clear
}

// verified is a caller who has proved who it is.
type verified struct {
	id    *policy.Identity
	until time.Time // what it has shown is good so long
	trust *trust    // by which a certificate was verified
	bound string    // thumbprint of the certificate that must come with it; empty: none
	src   *source
}

const maxVerified = 20_000

func newCache() *cache { return &cache{held: map[[sha256.Size]byte]*verified{}} }

func (c *cache) get(k [sha256.Size]byte) *verified {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.held[k]
}

// generation is given to put, which keeps nothing that was found before a clear.
func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gen
}

func (c *cache) put(gen uint64, k [sha256.Size]byte, v *verified, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gen != c.gen {
		return
	}
	if len(c.held) >= maxVerified {
		c.makeRoomLocked(now)
	}
	c.held[k] = v
}

// makeRoomLocked drops what is over, and if that is little, an eighth of the rest
// as the map has it.
func (c *cache) makeRoomLocked(now time.Time) {
	for k, v := range c.held {
		if !now.Before(v.until) {
			delete(c.held, k)
		}
	}
	for k := range c.held {
		if len(c.held) <= maxVerified*7/8 {
			return
		}
		delete(c.held, k)
	}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
	c.gen++
}
