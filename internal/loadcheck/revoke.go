package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// checkRevoke revokes a key that has all its streams open, and looks at them and
// at those of another key.
func checkRevoke(ctx context.Context, o *options) error {
	base, stop, err := provider(o.gap)
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "revoke", base)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.makeOwner(ctx); err != nil {
		return err
	}
	c, err := b.signIn()
	if err != nil {
		return err
	}
	var key struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	if err := b.call(c, "POST", "/keys", map[string]any{"tenant": "default", "name": "to be revoked"}, &key); err != nil {
		return err
	}
	others, err := b.open(ctx, b.key, 100)
	if err != nil {
		return err
	}
	defer others.close()
	s, err := b.open(ctx, key.Secret, o.streams)
	if err != nil {
		return err
	}
	defer s.close()
	time.Sleep(2 * time.Second) // what opening them left to do is done
	began, computed := time.Now(), b.cpu()
	if err := b.call(c, "POST", "/keys/"+key.ID+"/revoke", nil, nil); err != nil {
		return err
	}
	answered := time.Since(began)
	var last time.Duration
	told := 0
	for _, st := range s.list {
		select {
		case <-st.done:
		case <-time.After(time.Until(began.Add(20 * time.Second))):
			return fmt.Errorf("a stream of the revoked key goes on after 20 s")
		}
		last = max(last, st.at.Sub(began))
		if st.whole && strings.Contains(st.text.String(), "revoked") {
			told++
		}
	}
	computed = b.cpu() - computed
	before := others.pieces.Load()
	time.Sleep(2 * time.Second)
	fmt.Printf("revoke: answered after %d ms, the last of %d streams ended after %d ms (%d ms of CPU), %d with the reason in it; %d of 100 streams of another key cut, %d pieces in 2 s\n",
		answered.Milliseconds(), o.streams, last.Milliseconds(), computed.Milliseconds(), told, others.ended(), others.pieces.Load()-before)
	switch {
	case others.ended() > 0:
		return fmt.Errorf("%d streams of another key were cut", others.ended())
	case last > time.Second:
		return fmt.Errorf("the last stream ended after %v, 1 s is promised", last)
	}
	return nil
}
