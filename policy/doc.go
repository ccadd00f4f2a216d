// Package policy decides who may ask for what, how fast, for how much money, of
// whom, and what is asked of the content. It holds no HTTP and no engine.
//
// The data plane reads an immutable Snapshot that a reload swaps whole. State
// that must survive a reload lives beside it in Policy and is only
// re-dimensioned: rate buckets, running counts, the damping of failed logins, and
// of every deployment its open requests, its health and its provider's waits.
//
// A request passes in this order:
//
//	id,  err := p.Authenticate(credential, remoteAddr)
//	adm, err := p.Admit(id)                  // request rate and concurrency; before the body
//	defer adm.Release()
//	route, err := p.Route(id, model)         // alias, authorization, candidates for this caller
//	err = p.AllowTools(id, request)
//	request, decisions, err := route.Rules.Before(request)
//	res, err := p.Reserve(ctx, adm, ReserveRequest{...})  // token rate, then the durable hold
//	d := p.Dispatch(route, DispatchRequest{...})
//	for {
//		attempt, err := d.Next(ctx)          // waits for a candidate; an error ends the request
//		filter := route.Rules.After(request) // nil: the answer passes as it is
//		...
//		attempt.Done(AttemptResult{...})
//	}
//	row, err := res.Settle(result)           // or res.Release(result)
//
// Every error is an *infer.Error.
package policy
