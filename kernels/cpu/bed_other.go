//go:build !linux

package cpu

import (
	"sync"
	"sync/atomic"
)

// bed lets threads sleep until a word changes.
type bed struct {
	mu      sync.Mutex
	changed sync.Cond
}

// sleep returns when the word is not value.
func (b *bed) sleep(word *atomic.Uint32, value uint32) {
	b.mu.Lock()
	b.changed.L = &b.mu
	for word.Load() == value {
		b.changed.Wait()
	}
	b.mu.Unlock()
}

// rouse wakes all that sleep on the word, which has changed.
func (b *bed) rouse(*atomic.Uint32) {
	b.mu.Lock() // a sleeper is now either before its look or in Wait
	b.changed.Broadcast()
	b.mu.Unlock()
}
