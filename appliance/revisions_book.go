package appliance

import (
	"context"
	"sync"
	"time"

	"hearth/appliance/config"
)

// book is what a running server knows of its configuration file.
type book struct {
	revs *revisions
	boot *config.Config // as this process started with it

	mu     sync.Mutex  // guards below
	text   []byte      // in force
	broken *brokenFile // what the file holds now, if that was refused
	undo   *time.Timer // goes back, unless it is stopped

	ending context.Context // ended by Close
	end    context.CancelFunc
	wg     sync.WaitGroup
}

// brokenFile is a change of the file that was refused.
type brokenFile struct {
	At     time.Time      `json:"at"`
	Digest string         `json:"digest"`
	Faults []config.Fault `json:"faults"`
}

func newBook(text []byte, c *config.Config) *book {
	b := &book{text: text, boot: c}
	b.ending, b.end = context.WithCancel(context.Background())
	return b
}

func (b *book) inForce() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text
}

// take notes that text is served now.
func (b *book) take(text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, b.broken = text, nil
}

// refuse notes what is wrong with the file; true if that is news.
func (b *book) refuse(digest string, at time.Time, faults []config.Fault) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.broken == nil || b.broken.Digest != digest
	if news {
		b.broken = &brokenFile{At: at.UTC(), Digest: digest, Faults: faults}
	}
	return news
}

// refused is what is wrong with the file, nil if it is served.
func (b *book) refused() *brokenFile {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}
