package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// revisions is the history, nil where there is no store yet.
func (c *control) revisions() *revisions {
	switch {
	case c.server != nil:
		return c.server.book.revs
	case c.store != nil:
		return newRevisions(c.store, time.Now)
	}
	return nil
}

// parse reads a text as the file would be read, with what the command line of the
// server puts in its place.
func (c *control) parse(text []byte) (*config.Config, error) {
	conf, err := config.Parse(c.file, text)
	if err == nil && c.server != nil {
		err = c.server.override(conf)
	}
	return conf, err
}

// override puts in what the command line says.
func (a *Appliance) override(c *config.Config) error {
	if a.opt.Listen == "" {
		return nil
	}
	c.Server.Listen = a.opt.Listen
	if _, err := c.Plain(a.opt.Listen); err != nil {
		return usagef("cannot use --listen %q: tls.mode %v", a.opt.Listen, err)
	}
	return nil
}

// current is the text of the file. Without a file, which a server always has, it
// is the sample that a first start would write.
func (c *control) current() ([]byte, error) {
	text, err := config.Read(c.file)
	if errors.Is(err, fs.ErrNotExist) && c.server == nil && c.sample != nil {
		return c.sample, nil
	}
	return text, err
}

// change is a new text for the file, and what is asked with it.
type change struct {
	text    []byte
	ifMatch string // digest that the file must have; empty: any
	how     string // as revision.How
	note    string
	author  string // empty: who acts
	confirm time.Duration
	keep    bool // do not go back when a model fails
}

// applied is what came of a change.
type applied struct {
	Revision int          `json:"revision"` // that is in force now; 0: no store
	Digest   string       `json:"digest"`
	Diff     string       `json:"diff,omitempty"`
	Changed  []changedKey `json:"changed"`
	// Restart names the changed keys that take effect at the next start only.
	Restart []string       `json:"restart,omitempty"`
	Doubts  []config.Fault `json:"doubts,omitempty"`
	// ConfirmBy is when it goes back unless it is confirmed.
	ConfirmBy *time.Time `json:"confirm_by,omitempty"`
	Text      string     `json:"text,omitempty"` // of a dry run

	owners []string // changes that only an owner may make
}

// ETag names the text that is in force, for If-Match.
func (a applied) ETag() string { return a.Digest }

// lock keeps all but one from changing the file. It gives the unlock.
func (c *control) lock() (func(), error) {
	if c.server == nil {
		return func() {}, nil
	}
	return c.server.lockConfig()
}

func (a *Appliance) lockConfig() (func(), error) {
	a.reloading.Lock()
	if a.book.ending.Err() != nil {
		a.reloading.Unlock()
		return nil, infer.Errorf(infer.CodeUnavailable, "the server is shutting down")
	}
	return a.reloading.Unlock, nil
}

// plan checks a change against the file as it is, and tells what it would do.
func (c *control) plan(ctx context.Context, cur []byte, ch change) (applied, *config.Config, error) {
	out := applied{Digest: digestOf(ch.text), Changed: []changedKey{}}
	if err := c.matches(ctx, cur, ch); err != nil {
		return out, nil, err
	}
	next, err := c.parse(ch.text)
	if err != nil {
		return out, nil, refusal("text", err)
	}
	out.Diff = textDiff("in the file", "new", cur, ch.text, maxDiffBytes)
	plain, err := config.Parse(c.file, ch.text) // as it is written, without --listen
	if err != nil {
		return out, nil, refusal("text", err)
	}
	old, err := config.Parse(c.file, cur)
	if err != nil && c.server != nil {
		old, err = config.Parse(c.file, c.server.book.inForce())
	}
	if err == nil {
		out.Changed, out.owners = changedKeys(old, plain), ownersOnly(old, plain)
	}
	if c.server != nil {
		out.Restart = restartKeys(c.server.book.boot, next)
		markRestart(out.Changed, out.Restart)
	}
	if who := admin.From(ctx); who != nil && who.Role != admin.Owner && ctx.Value(checkOnly{}) == nil {
		if len(out.owners) > 0 || err != nil {
			return out, nil, infer.Errorf(infer.CodeForbidden, "your role (%s) may not change %s", who.Role, strings.Join(out.owners, ", "))
		}
	}
	return out, next, nil
}

// matches holds the file to what the editor has seen of it.
func (c *control) matches(ctx context.Context, cur []byte, ch change) error {
	is := digestOf(cur)
	if ch.ifMatch == "" || ch.ifMatch == is {
		return nil
	}
	const most = 8 << 10
	by, base := "by hand", []byte(nil)
	if revs := c.revisions(); revs != nil {
		if v := revs.withDigest(ctx, is); v.Number > 0 {
			by = fmt.Sprintf("as revision %d by %s at %s", v.Number, v.Author, v.At.Format(time.RFC3339))
		}
		if v := revs.withDigest(ctx, ch.ifMatch); v.Number > 0 {
			_, base, _ = revs.text(ctx, v.Number)
		}
	}
	what, diff := "what has changed since", textDiff("as you read it", "in the file now", base, cur, most)
	if base == nil {
		what, diff = "what sets your text apart from it", textDiff("in the file now", "yours", cur, ch.text, most)
	}
	return &infer.Error{Code: infer.CodeConflict, Param: "if_match", NoRetry: true,
		Message: fmt.Sprintf("cannot apply this: the file has been changed %s, its digest is %s; %s:\n%s", by, is, what, diff)}
}

// refusal is the error for a text with faults.
func refusal(param string, err error) error {
	var faults *config.Faults
	if errors.As(err, &faults) {
		return &infer.Error{Code: infer.CodeInvalid, Param: param, Message: faults.Error(), Cause: faults}
	}
	return infer.Invalid(param, "%v", err)
}

// apply takes a change: check, write, swap, keep as a revision, audit. If the swap
// fails the old file and the old configuration are put back. The lock is held.
func (c *control) apply(ctx context.Context, ch change) (applied, error) {
	cur, err := c.current()
	if err != nil {
		return applied{}, err
	}
	out, next, err := c.plan(ctx, cur, ch)
	if err != nil {
		return out, err
	}
	if ch.author == "" {
		ch.author = store.Actor(ctx)
	}
	served := c.server == nil || bytes.Equal(c.server.book.inForce(), ch.text)
	if bytes.Equal(cur, ch.text) && served && ch.how != "rollback" {
		out.Revision = c.numberOf(ctx, out.Digest)
		return out, nil // nothing to do
	}
	back, ready, err := c.before(ctx, cur, ch)
	if err != nil {
		return out, err
	}
	if err := replaceFile(c.file, ch.text); err != nil {
		return out, err
	}
	if c.server != nil {
		if err := c.server.takeOrRestore(ctx, next, ch.text, cur); err != nil {
			return out, err
		}
		out.Doubts = config.Locate(ch.text, doubts(next, c.file, specNames(c.server.specs(next)), c.server.env.Getenv))
	}
	rev, err := c.record(ctx, ch, out.Changed)
	if err != nil {
		return out, err
	}
	out.Revision = rev.Number
	if c.server == nil {
		return out, nil
	}
	if err := c.server.guard(ctx, &out, back, ch, ready); err != nil {
		return out, err
	}
	return out, nil
}

// before is what must be known before the file changes: where to go back to, and
// whether every model answers. What was written into the file by hand and nobody
// has taken up yet is kept first.
func (c *control) before(ctx context.Context, cur []byte, ch change) (back int, ready bool, err error) {
	revs := c.revisions()
	if revs == nil {
		return 0, false, os.MkdirAll(filepath.Dir(c.file), 0o700)
	}
	last, err := revs.last(ctx)
	if err != nil {
		return 0, false, err
	}
	if _, perr := config.Parse(c.file, cur); perr == nil && last.Digest != digestOf(cur) && !bytes.Equal(cur, ch.text) {
		if last, err = c.record(ctx, change{text: cur, how: "hand-edit", author: authorHand}, c.sinceRevision(ctx, last, cur)); err != nil {
			return 0, false, err
		}
	}
	if c.server != nil {
		ready, _ = c.server.Ready()
		if last.Number == 0 && ch.confirm > 0 {
			return 0, false, infer.Invalid("confirm_within_s", "cannot be set: there is no revision to go back to")
		}
	}
	return last.Number, ready, nil
}

// sinceRevision lists what differs between a revision and a text; nothing where one
// of them cannot be read, as a revision by a version that knew other keys.
func (c *control) sinceRevision(ctx context.Context, v revision, text []byte) []changedKey {
	if v.Number == 0 {
		return nil
	}
	_, old, err := c.revisions().text(ctx, v.Number)
	if err != nil {
		return nil
	}
	was, errWas := config.Parse(c.file, old)
	is, errIs := config.Parse(c.file, text)
	if errWas != nil || errIs != nil {
		return nil
	}
	return changedKeys(was, is)
}

func (c *control) numberOf(ctx context.Context, digest string) int {
	if revs := c.revisions(); revs != nil {
		return revs.withDigest(ctx, digest).Number
	}
	return 0
}

// record keeps a change as a revision and in the audit trail.
func (c *control) record(ctx context.Context, ch change, changed []changedKey) (revision, error) {
	revs := c.revisions()
	if revs == nil {
		return revision{}, nil
	}
	// The change stands; a caller who leaves now does not undo it.
	ctx = context.WithoutCancel(ctx)
	rev, err := revs.add(ctx, revision{Author: ch.author, How: ch.how, Note: ch.note, Changed: pathsOf(changed, 20)}, ch.text)
	if err != nil {
		return rev, err
	}
	detail := fmt.Sprintf("revision %d, sha256 %s", rev.Number, rev.Digest)
	if len(changed) > 0 {
		detail += fmt.Sprintf(", %d changed: %s", len(changed), strings.Join(pathsOf(changed, 20), ", "))
	}
	if rev.Note != "" {
		detail += "; " + rev.Note
	}
	return rev, c.store.Audit(ctx, store.Audit{Actor: ch.author, Action: "config/" + ch.how, Subject: "configuration", Detail: detail})
}

// takeOrRestore swaps in a configuration whose text is in the file already. If
// that fails, file and configuration are as before.
func (a *Appliance) takeOrRestore(ctx context.Context, next *config.Config, text, oldText []byte) error {
	old := a.config()
	err := a.swap(ctx, old, next)
	if err == nil {
		a.book.take(text)
		return nil
	}
	if werr := replaceFile(a.configPath(), oldText); werr != nil {
		a.log.Error("the configuration cannot be swapped, and the old file cannot be put back", "error", werr)
	}
	if serr := a.swap(context.WithoutCancel(ctx), next, old); serr != nil {
		a.log.Error("the old configuration cannot be swapped back whole", "error", serr)
	}
	return swapFault(err)
}

// swapFault is the error for a configuration without a fault in itself that this
// machine does not let be: a file that is not there, a port that is taken.
func swapFault(err error) error {
	return &infer.Error{Code: infer.CodeInvalid, Message: fmt.Sprintf("cannot swap the configuration, the old one stays: %v", err), Cause: err}
}

// Reload takes the configuration file anew, by whoever it was changed. A file
// with a fault changes nothing; otherwise everything is swapped and no stream is
// cut.
func (a *Appliance) Reload(ctx context.Context) error {
	unlock, err := a.lockConfig()
	if err != nil {
		return err
	}
	defer unlock()
	c := a.control()
	text, err := config.Read(a.configPath())
	if err != nil {
		return err
	}
	next, err := c.parse(text)
	if err != nil {
		return a.refuseFile(ctx, text, err)
	}
	was, err := config.Parse(c.file, a.book.inForce())
	if err != nil {
		return err
	}
	plain, err := config.Parse(c.file, text)
	if err != nil {
		return err
	}
	changed := changedKeys(was, plain)
	if err := a.swap(ctx, a.config(), next); err != nil {
		if serr := a.swap(context.WithoutCancel(ctx), next, a.config()); serr != nil {
			a.log.Error("the old configuration cannot be swapped back whole", "error", serr)
		}
		return swapFault(err)
	}
	a.book.take(text)
	last, err := a.book.revs.last(ctx)
	if err != nil {
		return err
	}
	ch := change{text: text, how: "hand-edit", author: authorHand}
	if by := store.Actor(ctx); by != "" {
		ch.author, ch.note = by, "changed in the file"
	}
	if last.Digest == digestOf(text) {
		return a.store.Audit(ctx, store.Audit{Actor: ch.author, Action: "config/reload", Subject: "configuration",
			Detail: fmt.Sprintf("revision %d, sha256 %s", last.Number, last.Digest)})
	}
	_, err = c.record(ctx, ch, changed)
	return err
}

// refuseFile notes that the file has faults, once for each state of it.
func (a *Appliance) refuseFile(ctx context.Context, text []byte, err error) error {
	found := []config.Fault{{Message: err.Error()}}
	var faults *config.Faults
	if errors.As(err, &faults) {
		found = faults.List
	}
	digest := digestOf(text)
	if !a.book.refuse(digest, a.now(), found) {
		return err
	}
	where := ""
	if f := found[0]; f.Line > 0 {
		where = fmt.Sprintf(", the first in line %d: %s", f.Line, f.Key)
	}
	by := store.Actor(ctx)
	if by == "" {
		by = authorHand
	}
	aerr := a.store.Audit(ctx, store.Audit{Actor: by, Action: "config/refuse", Subject: "configuration",
		Detail: fmt.Sprintf("sha256 %s: %d faults%s; the old one stays", digest, len(found), where)})
	return errors.Join(err, aerr)
}

// replaceFile puts text in the place of a configuration file in one step, with
// its mode; a link goes on pointing to it.
func replaceFile(path string, text []byte) error {
	mode := os.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	return writeFile(path, text, mode)
}
