// Package policy decides who may ask for what, how fast, and for how much
// money. It holds no HTTP and no engine.
//
// The data plane reads an immutable Snapshot that a reload swaps whole. State
// that must survive a reload (rate buckets, running counts, the damping of
// failed logins) lives beside it in Policy and is only re-dimensioned.
//
// A request passes in this order:
//
//	id,  err := p.Authenticate(credential, remoteAddr)
//	adm, err := p.Admit(id)                  // request rate and concurrency; before the body
//	defer adm.Release()
//	route, err := p.Route(id, model)         // alias, authorization
//	res, err := p.Reserve(ctx, adm, ReserveRequest{...})  // token rate, then the durable hold
//	row, err := res.Settle(result)           // or res.Release(result)
//
// Every error is an *infer.Error.
package policy
