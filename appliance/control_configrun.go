package appliance

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"hearth/appliance/config"
	"hearth/appliance/config/edit"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// change makes one change under the lock, from the file as it is then.
func (c *control) change(ctx context.Context, confirmS int, make func(cur []byte) (change, error)) (applied, error) {
	confirm, err := confirmTime(confirmS)
	if err != nil {
		return applied{}, err
	}
	if confirm > 0 && c.server == nil {
		return applied{}, infer.Invalid("confirm_within_s", "cannot be set: no server is running that could go back")
	}
	unlock, err := c.lock()
	if err != nil {
		return applied{}, err
	}
	defer unlock()
	cur, err := c.current()
	if err != nil {
		return applied{}, err
	}
	ch, err := make(cur)
	if err != nil {
		return applied{}, err
	}
	ch.confirm = confirm
	return c.apply(ctx, ch)
}

func getConfig(ctx context.Context, c *control, _ none) (configText, error) {
	text, err := c.current()
	if err != nil && c.server == nil {
		return configText{}, err
	}
	if err != nil { // the file has gone; what it said is served
		text = c.server.book.inForce()
	}
	out := configText{File: c.file, Text: string(text), Digest: digestOf(text), Bytes: len(text), Faults: []config.Fault{}, Doubts: []config.Fault{}}
	out.InForce = out.Digest
	conf, perr := c.parse(text)
	if perr != nil {
		out.Faults = faultsOf(perr)
	}
	if c.server != nil {
		conf = c.server.config()
		out.InForce = digestOf(c.server.book.inForce())
		out.Restart = restartKeys(c.server.book.boot, conf)
		if r := c.server.book.refused(); r != nil {
			out.Refused = &r.At
		}
		if out.Pending, err = c.server.book.revs.pending(ctx); err != nil {
			return out, err
		}
	}
	if conf != nil {
		out.Tree = conf.Tree()
	}
	if perr == nil {
		out.Doubts = c.doubts(conf, text)
	}
	if revs := c.revisions(); revs != nil {
		v := revs.withDigest(ctx, out.InForce)
		if v.Number > 0 {
			out.Revision, out.Author, out.Changed = v.Number, v.Author, &v.At
		}
	}
	return out, nil
}

func faultsOf(err error) []config.Fault {
	if f, ok := err.(*config.Faults); ok {
		return f.List
	}
	return []config.Fault{{Message: err.Error()}}
}

// doubts are those of a valid configuration that stands in text.
func (c *control) doubts(conf *config.Config, text []byte) []config.Fault {
	getenv := func(string) string { return "set" } // of the server to come, not known here
	if c.server != nil {
		getenv = c.server.env.Getenv
	}
	if c.getenv != nil {
		getenv = c.getenv
	}
	return config.Locate(text, doubts(conf, c.file, localModels(conf, c.dir), getenv))
}

// checking bounds how many texts are looked at side by side: a large one takes a
// core for seconds, and everybody who reads the configuration may ask.
var checking = make(chan struct{}, 2)

func checkText(ctx context.Context, c *control, r configCheck) (checkedText, error) {
	out := checkedText{Faults: []config.Fault{}, Doubts: []config.Fault{}, Changed: []changedKey{}}
	select {
	case checking <- struct{}{}:
		defer func() { <-checking }()
	case <-ctx.Done():
		return out, infer.Errorf(infer.CodeUnavailable, "the check was left before its turn")
	}
	cur, err := c.current()
	if err != nil {
		return out, err
	}
	text := lineEnds(cur, r.Text)
	if len(r.Changes) > 0 {
		if r.Text != "" {
			return out, infer.Invalid("changes", "cannot stand beside text")
		}
		if text, err = edited(cur, r.Changes); err != nil {
			return out, err
		}
	}
	out.Against, out.Digest = digestOf(cur), digestOf(text)
	out.Conflict = r.IfMatch != "" && r.IfMatch != out.Against
	conf, err := c.parse(text)
	if err != nil {
		out.Faults = faultsOf(err)
		out.Diff = textDiff("in the file", "new", cur, text, maxDiffBytes)
		return out, nil
	}
	plan, _, err := c.plan(context.WithValue(ctx, checkOnly{}, true), cur, change{text: text})
	if err != nil {
		return out, err
	}
	out.Diff, out.Changed, out.Restart = plan.Diff, plan.Changed, plan.Restart
	out.Owner = plan.owners
	out.Doubts = c.doubts(conf, text)
	who := admin.From(ctx)
	out.OK = !out.Conflict && (who == nil || who.Role == admin.Owner || len(out.Owner) == 0)
	return out, nil
}

// lineEnds gives text the line ends of the file: what comes from a form of a page
// has those of Windows.
func lineEnds(cur []byte, text string) []byte {
	if !bytes.Contains(cur, []byte("\r\n")) {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return []byte(text)
}

// checkOnly marks a context in which a plan is made that nobody carries out.
type checkOnly struct{}

// edited changes places of a text.
func edited(text []byte, edits []configEdit) ([]byte, error) {
	d, err := edit.Parse(text)
	if err != nil {
		return nil, infer.Errorf(infer.CodeConflict, "cannot change keys of a file that is no TOML now: %v", err)
	}
	for i, e := range edits {
		if err := e.do(d); err != nil {
			return nil, infer.Invalid(fmt.Sprintf("changes[%d]", i), "%v", err)
		}
	}
	return d.Bytes(), nil
}

func (e configEdit) do(d *edit.Doc) error {
	path, err := config.ResolvePath(d, e.Path)
	if err != nil {
		return err
	}
	asked := 0
	for _, is := range []bool{e.Delete, e.Rename != "", e.Value != nil} {
		if is {
			asked++
		}
	}
	if asked != 1 {
		return fmt.Errorf("cannot change %s: wanted a value, or delete, or rename", e.Path)
	}
	switch {
	case e.Delete:
		return d.Delete(path)
	case e.Rename != "":
		return d.Rename(path, e.Rename)
	}
	at := path
	if e.Append {
		at = append(append(edit.Path{}, path...), edit.Index(d.Len(path)))
	}
	v, err := config.ValueFor(at, e.Value)
	if err != nil {
		return err
	}
	return d.Set(at, v)
}

func setConfig(ctx context.Context, c *control, r configSet) (applied, error) {
	edits := r.Changes
	if r.Path != "" {
		edits = append([]configEdit{r.configEdit}, edits...)
	}
	if len(edits) == 0 {
		return applied{}, infer.Invalid("changes", "are none")
	}
	make := func(cur []byte) (change, error) {
		ch := change{how: "set", ifMatch: r.IfMatch, note: r.Note, keep: r.KeepUnready}
		// A second editor is told what has changed, not that their path has gone.
		if err := c.matches(ctx, cur, change{text: cur, ifMatch: r.IfMatch}); err != nil {
			return ch, err
		}
		var err error
		ch.text, err = edited(cur, edits)
		return ch, err
	}
	if !r.DryRun {
		return c.change(ctx, r.ConfirmWithinS, make)
	}
	cur, err := c.current()
	if err != nil {
		return applied{}, err
	}
	ch, err := make(cur)
	if err != nil {
		return applied{}, err
	}
	out, _, err := c.plan(ctx, cur, ch)
	out.Text = string(ch.text)
	return out, err
}

func rollbackConfig(ctx context.Context, c *control, r configRollback) (applied, error) {
	revs := c.revisions()
	if revs == nil {
		return applied{}, errNoRevisions
	}
	return c.change(ctx, r.ConfirmWithinS, func([]byte) (change, error) {
		number := r.Revision
		if number == 0 {
			all, err := revs.all(ctx)
			if err != nil {
				return change{}, err
			}
			if len(all) < 2 {
				return change{}, infer.Errorf(infer.CodeConflict, "there is no revision to go back to")
			}
			number = all[1].Number
		}
		v, text, err := revs.text(ctx, number)
		note := strings.TrimSuffix(fmt.Sprintf("back to revision %d: %s", v.Number, r.Note), ": ")
		return change{text: text, how: "rollback", ifMatch: r.IfMatch, note: note, keep: r.KeepUnready}, err
	})
}

func diffConfig(ctx context.Context, c *control, r revisionPair) (configDifference, error) {
	out := configDifference{Changed: []changedKey{}}
	revs := c.revisions()
	if revs == nil {
		return out, errNoRevisions
	}
	from, to := r.From, r.To
	all, err := revs.all(ctx)
	if err != nil {
		return out, err
	}
	if from == 0 && len(all) > 1 && to == 0 {
		if cur, err := c.current(); err == nil && digestOf(cur) != all[0].Digest {
			from = all[0].Number // what was changed by hand, and is not served
		} else {
			from = all[1].Number
		}
	}
	a, textA, err := revs.text(ctx, from)
	if err != nil {
		return out, err
	}
	var textB []byte
	out.From, out.To = fmt.Sprintf("revision %d", a.Number), "the file"
	if to == 0 {
		textB, err = c.current()
	} else {
		_, textB, err = revs.text(ctx, to)
		out.To = fmt.Sprintf("revision %d", to)
	}
	if err != nil {
		return out, err
	}
	out.Diff = textDiff(out.From, out.To, textA, textB, maxDiffBytes)
	was, errA := config.Parse(out.From, textA)
	is, errB := config.Parse(out.To, textB)
	if errA == nil && errB == nil { // else the texts must do
		out.Changed = changedKeys(was, is)
	}
	return out, nil
}
