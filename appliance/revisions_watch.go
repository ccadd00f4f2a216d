package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
)

const (
	watchEvery    = time.Second      // how often the file is looked at
	readyWithin   = 30 * time.Second // how long models are watched after a change
	maxConfirm    = 24 * time.Hour
	readinessTick = 250 * time.Millisecond
)

// openRevisions keeps what the file held at the start as a revision, if it is
// none yet.
func (a *Appliance) openRevisions(ctx context.Context) error {
	b := a.book
	b.revs = newRevisions(a.store, a.now)
	last, err := b.revs.last(ctx)
	if err != nil {
		return err
	}
	if last.Digest == digestOf(b.text) {
		return nil
	}
	c := a.control()
	_, err = c.record(ctx, change{text: b.text, how: "start", author: authorStart}, c.sinceRevision(ctx, last, b.text))
	return err
}

// openConfigWatch looks at the file from now on, and takes up what waits for a
// confirmation since before this start.
func (a *Appliance) openConfigWatch(ctx context.Context) error {
	b := a.book
	p, err := b.revs.pending(ctx)
	if err != nil {
		return err
	}
	if p != nil {
		last, err := b.revs.last(ctx)
		if err != nil {
			return err
		}
		if last.Number != p.Revision {
			p = nil
			if err := b.revs.setPending(ctx, nil); err != nil {
				return err
			}
		}
	}
	a.onClose(func() error {
		b.end()
		a.reloading.Lock() // what changes it now ends first
		b.stopUndo()
		a.reloading.Unlock()
		b.wg.Wait()
		return nil
	})
	if p != nil {
		a.undoLater(p)
	}
	every := a.opt.Watch
	if every == 0 {
		every = watchEvery
	}
	b.wg.Add(1)
	go a.watchConfig(every)
	return nil
}

// watchConfig takes up changes that are made in the file. It waits until the file
// rests, since an editor may write it in pieces. Size, time and identity are
// asked for: every file system tells these.
func (a *Appliance) watchConfig(every time.Duration) {
	defer a.book.wg.Done()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seen, judged os.FileInfo
	missing := false
	for {
		select {
		case <-a.book.ending.Done():
			return
		case <-tick.C:
		}
		st, err := os.Stat(a.configPath())
		if err != nil {
			if !missing {
				a.log.Warn("the configuration file cannot be looked at; what it said is still served", "error", err)
			}
			missing, seen = true, nil
			continue
		}
		missing = false
		if sameState(st, judged) {
			continue
		}
		if !sameState(st, seen) {
			seen = st
			continue
		}
		judged = st
		a.takeFile(a.book.ending)
	}
}

func sameState(a, b os.FileInfo) bool {
	return a != nil && b != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// takeFile reloads if the file says something new.
func (a *Appliance) takeFile(ctx context.Context) {
	text, err := config.Read(a.configPath())
	if err != nil {
		a.log.Warn("the changed configuration cannot be read", "error", err)
		return
	}
	digest := digestOf(text)
	if digest == digestOf(a.book.inForce()) {
		a.book.take(text) // also where a faulty change has been taken back
		return
	}
	if was := a.book.refused(); was != nil && was.Digest == digest {
		return
	}
	if err := a.Reload(ctx); err != nil && ctx.Err() == nil {
		a.log.Error("the changed configuration is not taken, the old one stays", "error", err)
	}
}

// guard watches over a change that has been made: it goes back if it is not
// confirmed, or if a model fails that answered before.
func (a *Appliance) guard(ctx context.Context, out *applied, back int, ch change, ready bool) error {
	ctx = context.WithoutCancel(ctx)
	a.book.stopUndo()
	if err := a.book.revs.setPending(ctx, nil); err != nil {
		return err
	}
	if back == 0 || ch.how == "undo" {
		return nil
	}
	if ch.confirm > 0 {
		p := &pendingApply{Revision: out.Revision, Back: back, Until: a.now().Add(ch.confirm).UTC()}
		if err := a.book.revs.setPending(ctx, p); err != nil {
			return err
		}
		out.ConfirmBy = &p.Until
		a.undoLater(p)
	}
	if ready && !ch.keep {
		a.book.wg.Add(1)
		go a.watchModels(out.Revision, back)
	}
	return nil
}

func (b *book) stopUndo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.undo != nil && b.undo.Stop() {
		b.wg.Done()
	}
	b.undo = nil
}

// undoLater goes back when the time for a confirmation is over.
func (a *Appliance) undoLater(p *pendingApply) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.book.wg.Add(1)
	a.book.undo = time.AfterFunc(max(0, p.Until.Sub(a.now())), func() {
		defer a.book.wg.Done()
		a.goBack(p.Revision, p.Back, "nobody confirmed it in time")
	})
}

// watchModels goes back if, within readyWithin, a model cannot be loaded or does
// not answer. One that is still loading then is left to load.
func (a *Appliance) watchModels(rev, back int) {
	defer a.book.wg.Done()
	end := time.After(readyWithin)
	tick := time.NewTicker(readinessTick)
	defer tick.Stop()
	for failed := 0; ; {
		select {
		case <-a.book.ending.Done():
			return
		case <-end:
			return
		case <-tick.C:
		}
		if last, err := a.book.revs.last(a.book.ending); err != nil || last.Number != rev || a.draining.Load() {
			return
		}
		ok, reason := a.models.ready(a.book.ending)
		if ok || !gaveUp(reason) {
			failed = 0
			continue
		}
		if failed++; failed >= 3 {
			a.goBack(rev, back, "a model failed: "+reason)
			return
		}
	}
}

// gaveUp says whether a model that is not ready will not become so by waiting.
func gaveUp(reason string) bool {
	return strings.Contains(reason, "cannot load") || strings.Contains(reason, "does not answer") || reason == "no model is served"
}

// goBack puts an earlier revision in the place of rev, if that is still in force.
func (a *Appliance) goBack(rev, back int, why string) {
	ctx := context.WithoutCancel(a.book.ending)
	unlock, err := a.lockConfig()
	if err != nil {
		return
	}
	defer unlock()
	last, err := a.book.revs.last(ctx)
	if err != nil || last.Number != rev {
		return
	}
	_, text, err := a.book.revs.text(ctx, back)
	if err == nil {
		_, err = a.control().apply(ctx, change{text: text, how: "undo", author: authorUndo,
			note: fmt.Sprintf("back to revision %d: %s", back, why)})
	}
	if err != nil {
		a.log.Error("the configuration cannot go back by itself", "revision", rev, "back_to", back, "reason", why, "error", err)
		return
	}
	a.log.Warn("the configuration went back by itself", "revision", rev, "back_to", back, "reason", why)
}

// confirm keeps what waits for it.
func (a *Appliance) confirm(ctx context.Context) (*pendingApply, error) {
	unlock, err := a.lockConfig()
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := a.book.revs.pending(ctx)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, infer.Errorf(infer.CodeConflict, "nothing waits to be confirmed")
	}
	a.book.stopUndo()
	if err := a.book.revs.setPending(ctx, nil); err != nil {
		return nil, err
	}
	return p, a.store.Audit(ctx, store.Audit{Action: "config/confirm", Subject: "configuration", Detail: fmt.Sprintf("revision %d stays", p.Revision)})
}

// markRestart notes which changes take effect at the next start only.
func markRestart(changed []changedKey, keys []string) {
	for i := range changed {
		changed[i].Restart = slices.ContainsFunc(keys, func(k string) bool {
			return changed[i].Path == k || strings.HasPrefix(changed[i].Path, k+".")
		})
	}
}

// confirmTime reads the seconds in which a change must be confirmed; 0: it need not.
func confirmTime(seconds int) (time.Duration, error) {
	d := time.Duration(seconds) * time.Second
	if seconds < 0 || d > maxConfirm {
		return 0, infer.Invalid("confirm_within_s", "got %d, wanted 1 to %d seconds, or 0 for a change that stays", seconds, int(maxConfirm.Seconds()))
	}
	return d, nil
}

var errNoRevisions = errors.New("there are no revisions before a first start")
