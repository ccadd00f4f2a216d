// Package admin is the control plane: every operation that the owner of the box
// and those beside them may carry out, as an API with roles, and the pages that
// use it. It has a listener and credentials of its own and shares nothing with
// the data plane but the process.
package admin

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hearth/engine/infer"
)

// Role is what a person, or a token of theirs, is here for.
type Role string

// The roles. An auditor reads everything and changes nothing; a tenant admin
// reads and changes what is their tenant's, and learns of nothing else.
const (
	Owner       Role = "owner"
	Operator    Role = "operator"
	Auditor     Role = "auditor"
	TenantAdmin Role = "tenant-admin"
)

// Roles lists every role.
func Roles() []Role { return []Role{Owner, Operator, Auditor, TenantAdmin} }

// Caller is who uses the control plane.
type Caller struct {
	User   string // account or token; the audit trail and the log name it
	Role   Role
	Tenant string // of a tenant admin, empty with every other role
	Method string // how they signed in: "password", "passkey", "oidc", "certificate", "token", "set-up", "socket"
	Peer   string // network address, empty on the socket
	// Account and Session are ids, empty where there is none: of who signed in
	// without an account of ours, and of a token.
	Account, Session string
	// Fresh says that they have proved who they are a short time ago.
	Fresh bool
}

// Actor names the caller in the audit trail.
func (c *Caller) Actor() string {
	s := c.User + " (" + string(c.Role)
	if c.Method != "" {
		s += ", " + c.Method
	}
	s += ")"
	if c.Peer != "" {
		s += " from " + c.Peer
	}
	return s
}

type callerKey struct{}

// With gives a context under which operations act for c.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the caller of ctx, nil if there is none.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Access says who may carry out an operation.
type Access uint8

// The levels. Those of tenants are open to tenant admins too, who are held to
// their own tenant.
const (
	Nobody        Access = iota // no role: on the socket of the machine's owner only
	Own                         // the owner
	Operate                     // and operators
	OperateTenant               // and tenant admins
	Read                        // owner, operator, auditor
	ReadTenant                  // and tenant admins
	Self                        // everyone, for what is their own
)

// Allows says whether role may do what needs a.
func (a Access) Allows(r Role) bool {
	switch a {
	case Own:
		return r == Owner
	case Operate:
		return r == Owner || r == Operator
	case OperateTenant:
		return r == Owner || r == Operator || r == TenantAdmin
	case Read:
		return r == Owner || r == Operator || r == Auditor
	case ReadTenant, Self:
		return slices.Contains(Roles(), r)
	}
	return false
}

// Tenants says whether tenant admins may, within their tenant.
func (a Access) Tenants() bool { return a == OperateTenant || a == ReadTenant || a == Self }

// Operation is one thing that can be done. The same operation serves the admin
// API, the pages, the socket and so the command line.
type Operation struct {
	// Name is a path of words, "key/create": on the socket, in forms of the pages
	// and in the document.
	Name string
	// Method and Path place it in the API, below /api: "POST", "/keys/{id}/rotate".
	// Parts in braces are fields of the input; GET takes the rest of them from the
	// query, the other methods from a JSON body. GET changes nothing.
	Method, Path string
	Summary      string // one line, for the document
	Access       Access
	// Fresh asks for a recent proof of who it is: for what would let a thief of a
	// session or of a token stay.
	Fresh bool
	// In and Out are structs, or what they become as JSON.
	In, Out reflect.Type
	// Run carries it out. in is a pointer to an In. For tenant admins Scope has
	// been called before.
	Run func(ctx context.Context, in any) (any, error)
	// Scope holds the input to one tenant: it fills in the tenant where none is
	// named, and fails with CodeNotFound where the input names something of
	// another one. Nil where Access is not open to tenant admins.
	Scope func(ctx context.Context, tenant string, in any) error
	// Stream writes a large answer by itself, in place of Run's result: it is the
	// body, of the given media type. Nil for everything else.
	Stream func(ctx context.Context, in any, w Writer) error
}

// Writer receives the answer of a streamed operation. Begin comes first.
type Writer interface {
	Begin(mediaType, fileName string)
	Write(b []byte) (int, error)
}

// Registry holds all operations by name.
type Registry struct {
	byName map[string]*Operation
	list   []*Operation
}

// NewRegistry checks ops against each other; a fault in them is one of ours.
func NewRegistry(ops ...*Operation) *Registry {
	r := &Registry{byName: map[string]*Operation{}}
	places := map[string]bool{}
	for _, op := range ops {
		place := op.Method + " " + op.Path
		switch {
		case op.Name == "" || r.byName[op.Name] != nil:
			panic(fmt.Sprintf("BUG: operation %q has no name of its own", op.Name))
		case op.Path != "" && places[place]:
			panic(fmt.Sprintf("BUG: two operations are at %s", place))
		case op.Access.Tenants() != (op.Scope != nil):
			panic(fmt.Sprintf("BUG: operation %s is open to tenants and not scoped, or scoped and not open", op.Name))
		case (op.Run == nil) == (op.Stream == nil):
			panic(fmt.Sprintf("BUG: operation %s must either run or stream", op.Name))
		case op.Path != "" && !strings.HasPrefix(op.Path, "/"):
			panic(fmt.Sprintf("BUG: operation %s has path %q", op.Name, op.Path))
		}
		places[place] = true
		r.byName[op.Name] = op
		r.list = append(r.list, op)
	}
	return r
}

// All lists the operations in the order of the document.
func (r *Registry) All() []*Operation { return r.list }

// Find gives the operation of that name, nil if there is none.
func (r *Registry) Find(name string) *Operation { return r.byName[name] }

// Permit checks whether the caller of ctx may carry out op on in, and holds in
// to the caller's tenant.
func (r *Registry) Permit(ctx context.Context, op *Operation, in any) error {
	c := From(ctx)
	if c == nil {
		return infer.Errorf(infer.CodeUnauthorized, "please sign in")
	}
	if !op.Access.Allows(c.Role) {
		return infer.Errorf(infer.CodeForbidden, "your role (%s) may not do this", c.Role)
	}
	if op.Fresh && !c.Fresh {
		return NotFresh(c)
	}
	if c.Role != TenantAdmin {
		return nil
	}
	if c.Tenant == "" {
		return infer.Errorf(infer.CodeForbidden, "your account has no tenant")
	}
	return op.Scope(ctx, c.Tenant, in)
}

// NotFresh is the error for a caller who must prove again who they are. Its
// Param is "reauthenticate": a page leads to /signin?again from there.
func NotFresh(c *Caller) error {
	e := &infer.Error{Code: infer.CodeForbidden, Param: "reauthenticate", Message: "please sign in once more: this asks for a recent proof that it is you"}
	if c.Method == "token" {
		e.Message = "a token may not do this: sign in, or use the command line of the machine"
	}
	return e
}

// Call carries out op for the caller of ctx. in is a pointer to an op.In.
func (r *Registry) Call(ctx context.Context, op *Operation, in any) (any, error) {
	if err := r.Permit(ctx, op, in); err != nil {
		return nil, err
	}
	return op.Run(ctx, in)
}
