package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// operation is one thing that can be done to the appliance, with its argument
// and its result. One table of them serves the admin API, the pages, the socket
// and, through that or beside it, the command line.
type operation[Req, Resp any] struct {
	name    string       // "key/create": on the socket, in forms and in the audit trail
	place   string       // "POST /keys": in the admin API; empty: on the socket only
	access  admin.Access // who may
	fresh   bool         // and must have proved who they are a short time ago
	summary string       // one line for the document
	run     func(ctx context.Context, c *control, r Req) (Resp, error)
	// subject, if set, has a call written into the audit trail once it has
	// succeeded: what was changed, and detail. Operations of the store that write
	// their own record leave it nil.
	subject func(r Req) string
	detail  func(r Req, out Resp) string
	// One of these holds a tenant admin to their tenant, where access is open to
	// them: the field of the input that names it; or whose the thing is that the
	// input names; or a check of its own.
	tenant func(*Req) *string
	owner  func(ctx context.Context, c *control, r Req) (string, error)
	scope  func(ctx context.Context, c *control, tenant string, r *Req) error
}

// anyOperation is an operation of whatever types.
type anyOperation interface {
	describe(c *control) *admin.Operation
	socket(mux *http.ServeMux, c *control)
}

// everyTenant is the scope of what is the same for all.
func everyTenant[Req any](context.Context, *control, string, *Req) error { return nil }

// describe binds op to what it works on.
func (op operation[Req, Resp]) describe(c *control) *admin.Operation {
	d := &admin.Operation{
		Name: op.name, Summary: op.summary, Access: op.access, Fresh: op.fresh,
		In: reflect.TypeFor[Req](), Out: reflect.TypeFor[Resp](),
		Run: func(ctx context.Context, in any) (any, error) {
			return op.do(store.As(ctx, admin.From(ctx).Actor()), c, *in.(*Req))
		},
	}
	if op.place != "" {
		if _, err := fmt.Sscanf(op.place, "%s %s", &d.Method, &d.Path); err != nil {
			panic("BUG: operation " + op.name + " is placed at " + op.place)
		}
	}
	if op.access.Tenants() {
		d.Scope = func(ctx context.Context, tenant string, in any) error { return op.hold(ctx, c, tenant, in.(*Req)) }
	}
	return d
}

// hold keeps a tenant admin within their tenant.
func (op operation[Req, Resp]) hold(ctx context.Context, c *control, tenant string, r *Req) error {
	switch {
	case op.tenant != nil:
		named := op.tenant(r)
		if *named != "" && *named != tenant {
			return infer.Errorf(infer.CodeNotFound, "there is no tenant %.64q", *named)
		}
		*named = tenant
		return nil
	case op.owner != nil:
		of, err := op.owner(ctx, c, *r)
		if err == nil && of != tenant {
			err = infer.Errorf(infer.CodeNotFound, "there is no such thing here")
		}
		return err
	case op.scope != nil:
		return op.scope(ctx, c, tenant, r)
	}
	panic("BUG: operation " + op.name + " is open to tenants and does not hold them")
}

// do runs op and notes it in the audit trail.
func (op operation[Req, Resp]) do(ctx context.Context, c *control, r Req) (Resp, error) {
	out, err := op.run(ctx, c, r)
	if err != nil || op.subject == nil {
		return out, err
	}
	note := store.Audit{Action: op.name, Subject: op.subject(r)}
	if op.detail != nil {
		note.Detail = op.detail(r, out)
	}
	return out, c.store.Audit(ctx, note)
}

// socket serves op to the machine's owner.
func (op operation[Req, Resp]) socket(mux *http.ServeMux, c *control) {
	mux.HandleFunc("POST /"+op.name, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if err := readAdmin(w, r, &req); err != nil {
			writeAdminError(w, err)
			return
		}
		resp, err := op.do(store.As(r.Context(), operator("admin socket")), c, req)
		if err != nil {
			writeAdminError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(resp) // the caller has gone
	})
}

// call runs an operation where the store is.
func (op operation[Req, Resp]) call(ctx context.Context, c *connection, req Req) (resp Resp, err error) {
	if c.local != nil {
		return op.do(store.As(ctx, operator("command line")), c.local, req)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return resp, err
	}
	r, err := c.post(ctx, "/"+op.name, body)
	if err != nil {
		return resp, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&resp); err != nil {
		return resp, fmt.Errorf("cannot read the server's answer: %w", err)
	}
	return resp, nil
}
