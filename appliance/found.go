package appliance

import (
	"sync"
	"time"
)

// Answers that many records of the ledger were read for are served again for a
// while, so that reading takes a few percent of a core at most however often a
// page is looked at: a second for so many records. Where fewer than keptFrom were
// read, every answer is new.
const (
	keptRecords = 10_000
	keptFrom    = 5_000
)

// keptLife is how long an answer that so many records were read for is good.
func keptLife(records int) time.Duration {
	if records < keptFrom {
		return 0
	}
	return time.Duration(records) * time.Second / keptRecords
}

// maxKept bounds the answers to different questions.
const maxKept = 64

// found keeps answers by question. It is safe for concurrent use; who asks while
// somebody else finds the same out waits for them.
type found[Q comparable, A any] struct {
	mu   sync.Mutex // guards below
	list map[Q]*foundAnswer[A]
}

type foundAnswer[A any] struct {
	mu    sync.Mutex // guards below
	at    time.Time
	until time.Time
	a     A
}

// get gives the answer to q; find finds it out and says how many records it read.
func (k *found[Q, A]) get(q Q, now func() time.Time, find func() (A, int, error)) (A, error) {
	e := k.entry(q)
	e.mu.Lock()
	defer e.mu.Unlock()
	if at := now(); at.Before(e.until) && !at.Before(e.at) {
		return e.a, nil
	}
	a, records, err := find()
	if err != nil {
		return a, err
	}
	e.a, e.at = a, now()
	e.until = e.at.Add(keptLife(records))
	return a, nil
}

// entry finds the place of an answer; where there are too many, one has to go.
func (k *found[Q, A]) entry(q Q) *foundAnswer[A] {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.list[q]
	if e == nil {
		if k.list == nil {
			k.list = map[Q]*foundAnswer[A]{}
		}
		if len(k.list) >= maxKept {
			for old := range k.list {
				delete(k.list, old)
				break
			}
		}
		e = &foundAnswer[A]{}
		k.list[q] = e
	}
	return e
}
