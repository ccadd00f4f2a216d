package admin

import (
	"bytes"
	"sync"
	"time"
)

// sceneKey is what the live part of a page depends on: its address, and who looks.
type sceneKey struct {
	page string
	who  Caller
}

// scene is the live part of a page as it is now, rendered once for all windows
// that one person has it open in. It is safe for concurrent use.
type scene struct {
	key      sceneKey
	watchers int // guarded by scenes.mu

	mu     sync.Mutex // guards below
	at     time.Time  // when it was looked at last
	part   []byte
	framed []byte
	n      uint64 // counts its changes; 0: nothing was rendered yet
}

// scenes are those that are watched.
type scenes struct {
	mu   sync.Mutex // guards below
	list map[sceneKey]*scene
}

func (s *scenes) enter(key sceneKey) *scene {
	key.who.Peer = "" // two windows may use two connections
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.list[key]
	if c == nil {
		if s.list == nil {
			s.list = map[sceneKey]*scene{}
		}
		c = &scene{key: key}
		s.list[key] = c
	}
	c.watchers++
	return c
}

func (s *scenes) leave(c *scene) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.watchers--; c.watchers == 0 {
		delete(s.list, c.key)
	}
}

// event is the scene as an event, and how often it has changed. It is rendered
// anew where it is older than half the time between two looks. What fails is told
// to who asked only: it may be that they have gone.
func (c *scene) event(now func() time.Time, render func() ([]byte, error)) ([]byte, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 && now().Sub(c.at) < liveEvery/2 {
		return c.framed, c.n, nil
	}
	part, err := render()
	if err != nil {
		return nil, 0, err
	}
	c.at = now()
	if c.n == 0 || !bytes.Equal(part, c.part) {
		c.part, c.framed = part, framed(part)
		c.n++
	}
	return c.framed, c.n, nil
}

// framed is the part of a page as a server-sent event.
func framed(part []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(part) + len(part)/16)
	b.WriteString("event: live\n")
	for line := range bytes.Lines(part) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
