package appliance

import (
	"context"
	"time"

	"hearth/appliance/config"
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
