package appliance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// contentQuery asks for what content is kept.
type contentQuery struct {
	Tenant    string    `json:"tenant,omitempty"`
	Retention string    `json:"retention,omitempty"`
	Model     string    `json:"model,omitempty"`
	Before    time.Time `json:"before,omitzero"` // requests that began earlier; zero: the newest
	Limit     int       `json:"limit,omitempty"` // 0: 100
}

type contentPage struct {
	Items []keptItem  `json:"items"`         // newest first
	Next  time.Time   `json:"next,omitzero"` // Before of the next page; zero: there is none
	Rules []ruleState `json:"retentions"`    // the tables in force
}

// ruleState is a [[retention]] table with what is kept under it.
type ruleState struct {
	Name    string   `json:"name"`
	Tenants []string `json:"tenants"`
	Routes  []string `json:"routes"`
	What    []string `json:"what"`
	PII     []string `json:"pii"`
	Rules   []string `json:"rules"`
	Sample  float64  `json:"sample"`
	TTLms   int64    `json:"ttl_ms"`
	Readers []string `json:"readers"`
	Items   int      `json:"items"`
	Bytes   int64    `json:"bytes"`
}

// contentView is one request's content.
type contentView struct {
	keptItem
	keptContent
}

// contentPurge says what to delete before its time; at least one field is set.
type contentPurge struct {
	ID        string    `json:"id,omitempty"` // of one request
	Tenant    string    `json:"tenant,omitempty"`
	Retention string    `json:"retention,omitempty"`
	Before    time.Time `json:"before,omitzero"`
	All       bool      `json:"all,omitempty"`
}

type purged struct {
	Requests int `json:"requests"`
}

var (
	opContentList = operation[contentQuery, contentPage]{
		name: "content/list", place: "GET /content", access: admin.ReadTenant,
		summary: "of which requests content is kept, under which authority and until when; not the content",
		tenant:  func(q *contentQuery) *string { return &q.Tenant },
		run:     listContent,
	}
	opContentShow = operation[requestID, contentView]{
		name: "content/show", place: "GET /content/{id}", access: admin.ReadTenant,
		summary: "the content that is kept of a request; each reading is in the audit trail",
		owner:   tenantOfContent,
		run:     showContent,
		subject: func(r requestID) string { return r.ID },
		detail: func(_ requestID, v contentView) string {
			return "read what retention " + v.Retention + " keeps of tenant " + v.Tenant
		},
	}
	opContentPurge = operation[contentPurge, purged]{
		name: "content/purge", place: "POST /content/purge", access: admin.Own,
		summary: "delete kept content before its time: of a request, a tenant, a retention, before a time, or all",
		run:     purgeContent,
		subject: func(p contentPurge) string { return "content of " + p.words() },
		detail:  func(_ contentPurge, out purged) string { return fmt.Sprintf("%d requests", out.Requests) },
	}
)

// mayRead says whether the caller of ctx may read what a table keeps. The owner
// of the machine, on the socket, is no one's guest.
func mayRead(ctx context.Context, r *retention, name string) bool {
	c := admin.From(ctx)
	return c == nil || slices.Contains(r.readers(name), string(c.Role))
}

func tenantOfContent(_ context.Context, c *control, r requestID) (string, error) {
	if c.server == nil {
		return "", errNoServer
	}
	it, ok := c.server.retained.vault.head(r.ID)
	if !ok {
		return "", infer.Errorf(infer.CodeNotFound, "no content is kept of %.64q", r.ID)
	}
	return it.Tenant, nil
}

func listContent(ctx context.Context, c *control, q contentQuery) (contentPage, error) {
	if c.server == nil {
		return contentPage{}, errNoServer
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.Limit < 1 || q.Limit > 1000 {
		return contentPage{}, infer.Invalid("limit", "got %d, wanted 1 to 1000", q.Limit)
	}
	r := c.server.retained
	items := r.vault.list(func(it *keptItem) bool {
		return (q.Tenant == "" || it.Tenant == q.Tenant) && (q.Retention == "" || it.Retention == q.Retention) &&
			(q.Model == "" || it.Model == q.Model) && (q.Before.IsZero() || it.At.Before(q.Before)) && mayRead(ctx, r, it.Retention)
	})
	p := contentPage{Items: items, Rules: []ruleState{}}
	if len(items) > q.Limit {
		p.Items = items[:q.Limit]
		p.Next = p.Items[q.Limit-1].At
	}
	sums := r.vault.sums()
	for _, t := range *r.rules.Load() {
		if q.Tenant != "" && !slices.Contains(t.Tenants, "*") && !slices.Contains(t.Tenants, q.Tenant) {
			continue
		}
		s := ruleState{Name: t.Name, Tenants: t.Tenants, Routes: t.Routes, What: t.What, PII: t.PII, Rules: t.Rules, Sample: t.Sample, TTLms: t.TTL.Std().Milliseconds(), Readers: t.Readers}
		if q.Tenant != "" {
			s.Tenants = []string{q.Tenant} // not who else
		} else if i := slices.IndexFunc(sums, func(b retainedBy) bool { return b.name == t.Name }); i >= 0 {
			s.Items, s.Bytes = sums[i].items, sums[i].bytes
		}
		p.Rules = append(p.Rules, s)
	}
	return p, nil
}

func showContent(ctx context.Context, c *control, r requestID) (contentView, error) {
	if c.server == nil {
		return contentView{}, errNoServer
	}
	kept := c.server.retained
	it, ok := kept.vault.head(r.ID)
	if !ok {
		return contentView{}, infer.Errorf(infer.CodeNotFound, "no content is kept of %.64q", r.ID)
	}
	if !mayRead(ctx, kept, it.Retention) {
		return contentView{}, infer.Errorf(infer.CodeForbidden, "your role may not read what retention %q keeps", it.Retention)
	}
	content, err := kept.vault.open(r.ID)
	if err != nil {
		return contentView{}, err
	}
	return contentView{it, *content}, nil
}

func (p *contentPurge) words() string {
	var w []string
	for _, x := range [][2]string{{"request ", p.ID}, {"tenant ", p.Tenant}, {"retention ", p.Retention}} {
		if x[1] != "" {
			w = append(w, x[0]+x[1])
		}
	}
	if !p.Before.IsZero() {
		w = append(w, "before "+p.Before.UTC().Format(time.RFC3339))
	}
	if len(w) == 0 {
		return "everybody"
	}
	return strings.Join(w, ", ")
}

func purgeContent(_ context.Context, c *control, p contentPurge) (purged, error) {
	if c.server == nil {
		return purged{}, errNoServer
	}
	chosen := p.ID != "" || p.Tenant != "" || p.Retention != "" || !p.Before.IsZero()
	if chosen == p.All {
		return purged{}, infer.Invalid("all", "wanted a request, a tenant, a retention or a time, or all: true for everything")
	}
	n, err := c.server.retained.vault.remove(func(h *keptHead) bool {
		return (p.ID == "" || h.Request == p.ID) && (p.Tenant == "" || h.Tenant == p.Tenant) &&
			(p.Retention == "" || h.Retention == p.Retention) && (p.Before.IsZero() || h.At.Before(p.Before))
	})
	if err != nil {
		err = fmt.Errorf("cannot delete all of the kept content: %w", err)
	}
	return purged{n}, err
}
