package appliance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/config/edit"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// configText is the configuration as it is.
type configText struct {
	File     string `json:"file"`
	Text     string `json:"text"`   // of the file
	Digest   string `json:"digest"` // SHA-256 of the text: what if_match wants
	Bytes    int    `json:"bytes"`
	Revision int    `json:"revision"` // in force; 0: there is none yet
	Author   string `json:"author,omitempty"`
	// Changed is when the revision in force was made.
	Changed *time.Time `json:"changed,omitempty"`
	// InForce is the digest of what is served; it differs from Digest where the
	// file was changed by hand and refused, or has not been taken up yet.
	InForce string `json:"in_force"`
	// Faults of the file as it is: these keep it from being taken.
	Faults []config.Fault `json:"faults"`
	Doubts []config.Fault `json:"doubts"`
	// Refused is when a changed file was found to have faults.
	Refused *time.Time `json:"refused,omitempty"`
	// Restart names keys that take effect at the next start only.
	Restart []string      `json:"restart,omitempty"`
	Pending *pendingApply `json:"pending,omitempty"` // what waits to be confirmed
	// Tree is what is served, by key, every default filled in.
	Tree map[string]any `json:"tree"`
}

// ETag names the text, for If-Match.
func (c configText) ETag() string { return c.Digest }

// configCheck asks what a text, or changes of single keys, would do.
type configCheck struct {
	Text    string       `json:"text"`
	IfMatch string       `json:"if_match,omitempty"`
	Changes []configEdit `json:"changes,omitempty"` // of the file as it is, where there is no text
}

// checkedText is the answer to it.
type checkedText struct {
	OK      bool           `json:"ok"` // it can be applied
	Faults  []config.Fault `json:"faults"`
	Doubts  []config.Fault `json:"doubts"`
	Diff    string         `json:"diff"`
	Changed []changedKey   `json:"changed"`
	Restart []string       `json:"restart,omitempty"`
	// Owner names the changes that only an owner may make.
	Owner  []string `json:"owner,omitempty"`
	Digest string   `json:"digest"` // of the text that was checked
	// Against is the digest of the file that it was compared with; Conflict says
	// that this is not what if_match names.
	Against  string `json:"against"`
	Conflict bool   `json:"conflict,omitempty"`
}

// configApply is a whole new text.
type configApply struct {
	Text           string `json:"text"`
	IfMatch        string `json:"if_match,omitempty"` // digest that the file must have; empty: any
	Note           string `json:"note,omitempty"`
	ConfirmWithinS int    `json:"confirm_within_s,omitempty"` // it goes back unless it is confirmed; 0: it stays
	KeepUnready    bool   `json:"keep_unready,omitempty"`     // stay even where a model fails
}

// configEdit is a change of one place of the file.
type configEdit struct {
	Path   string `json:"path"`             // as server.listen or tenant[default].limits.concurrency
	Value  any    `json:"value,omitempty"`  // text is read as what the key takes
	Delete bool   `json:"delete,omitempty"` // the key, the element or the table goes
	Append bool   `json:"append,omitempty"` // the value goes to the end of the list or array of tables
	Rename string `json:"rename,omitempty"` // the last key of path is called this
}

// configSet changes single places of the file. One change may stand beside the
// list.
type configSet struct {
	configEdit
	Changes        []configEdit `json:"changes,omitempty"`
	IfMatch        string       `json:"if_match,omitempty"`
	Note           string       `json:"note,omitempty"`
	DryRun         bool         `json:"dry_run,omitempty"`
	ConfirmWithinS int          `json:"confirm_within_s,omitempty"`
	KeepUnready    bool         `json:"keep_unready,omitempty"`
}

type revisionNumber struct {
	Revision int `json:"revision"` // 0: the newest
}

// revisionText is a revision with its text.
type revisionText struct {
	revision
	Text string `json:"text"`
}

type revisionPair struct {
	From int `json:"from"` // 0: the one before the newest
	To   int `json:"to"`   // 0: the file as it is
}

type configDifference struct {
	From    string       `json:"from"`
	To      string       `json:"to"`
	Diff    string       `json:"diff"` // unified; empty: they are equal
	Changed []changedKey `json:"changed"`
}

type configRollback struct {
	Revision       int    `json:"revision"` // 0: the one before the newest
	IfMatch        string `json:"if_match,omitempty"`
	Note           string `json:"note,omitempty"`
	ConfirmWithinS int    `json:"confirm_within_s,omitempty"`
	KeepUnready    bool   `json:"keep_unready,omitempty"`
}

var (
	opConfigGet = operation[none, configText]{
		name: "config/get", place: "GET /config", access: admin.Read,
		summary: "the configuration: text, digest, revision, faults, and what is served by key",
		run:     getConfig,
	}
	opConfigCheck = operation[configCheck, checkedText]{
		name: "config/check", place: "POST /config/check", access: admin.Read,
		summary: "what a text would do: faults, doubts, difference, keys that need a restart",
		run:     checkText,
	}
	opConfigApply = operation[configApply, applied]{
		name: "config/apply", place: "POST /config/apply", access: admin.Operate,
		summary: "check a text, write it to the file and serve by it; refused if the file is not as if_match says",
		run: func(ctx context.Context, c *control, r configApply) (applied, error) {
			return c.change(ctx, r.ConfirmWithinS, func(cur []byte) (change, error) {
				return change{text: lineEnds(cur, r.Text), how: "apply", ifMatch: r.IfMatch, note: r.Note, keep: r.KeepUnready}, nil
			})
		},
	}
	opConfigSet = operation[configSet, applied]{
		name: "config/set", place: "POST /config/set", access: admin.Operate,
		summary: "change single keys in place and apply that; comments and order stay",
		run:     setConfig,
	}
	opConfigHistory = operation[none, []revision]{
		name: "config/history", place: "GET /config/revisions", access: admin.Read,
		summary: "the last 50 revisions of the configuration, newest first",
		run: func(ctx context.Context, c *control, _ none) ([]revision, error) {
			revs := c.revisions()
			if revs == nil {
				return []revision{}, nil
			}
			return revs.all(ctx)
		},
	}
	opConfigShow = operation[revisionNumber, revisionText]{
		name: "config/show_revision", place: "GET /config/revisions/{revision}", access: admin.Read,
		summary: "one revision with its text",
		run: func(ctx context.Context, c *control, r revisionNumber) (revisionText, error) {
			revs := c.revisions()
			if revs == nil {
				return revisionText{}, errNoRevisions
			}
			v, text, err := revs.text(ctx, r.Revision)
			return revisionText{v, string(text)}, err
		},
	}
	opConfigDiff = operation[revisionPair, configDifference]{
		name: "config/diff", place: "GET /config/diff", access: admin.Read,
		summary: "what differs between two revisions, or a revision and the file",
		run:     diffConfig,
	}
	opConfigRollback = operation[configRollback, applied]{
		name: "config/rollback", place: "POST /config/rollback", access: admin.Operate,
		summary: "serve by an earlier revision again",
		run:     rollbackConfig,
	}
	opConfigConfirm = operation[none, pendingApply]{
		name: "config/confirm", place: "POST /config/confirm", access: admin.Operate,
		summary: "keep a change that would go back by itself",
		run: func(ctx context.Context, c *control, _ none) (pendingApply, error) {
			if c.server == nil {
				return pendingApply{}, errNoServer
			}
			p, err := c.server.confirm(ctx)
			if err != nil {
				return pendingApply{}, err
			}
			return *p, nil
		},
	}
	opConfigKeys = operation[none, []config.Key]{
		name: "config/keys", place: "GET /config/keys", access: admin.Read,
		summary: "every key that the file may have: type, default, choices, bounds, meaning",
		run: func(_ context.Context, c *control, _ none) ([]config.Key, error) {
			sample := c.sample
			if c.server != nil {
				sample = c.server.env.Sample
			}
			return config.Keys(sample), nil
		},
	}
	opReload = operation[none, none]{
		name: "config/reload", place: "POST /config/reload", access: admin.Operate,
		summary: "take the configuration file anew",
		run: func(ctx context.Context, c *control, _ none) (none, error) {
			if c.server == nil {
				return none{}, errNoServer
			}
			return none{}, c.server.Reload(ctx)
		},
	}
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

func checkText(ctx context.Context, c *control, r configCheck) (checkedText, error) {
	out := checkedText{Faults: []config.Fault{}, Doubts: []config.Fault{}, Changed: []changedKey{}}
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
	out.Owner = ownersOnly(plan.Changed)
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
