package appliance

import (
	"context"
	"errors"
	"time"

	"hearth/engine/infer"
)

// errRevoked ends the requests of a caller who may ask no more.
var errRevoked = errors.New("revoked")

// revokeTick is how long a request of such a caller may go on, at most, where
// nothing announces the end: a key that expires, a secret whose time of grace is
// over, a list of revoked certificates that was replaced.
const revokeTick = 500 * time.Millisecond

// openRevocation begins to end what callers have open who may ask no more.
func (a *Appliance) openRevocation(context.Context) error {
	stop, done := make(chan struct{}), make(chan struct{})
	a.store.OnKeyChange(a.callersChanged)
	go func() {
		defer close(done)
		tick := time.NewTicker(revokeTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-a.revoked:
			case <-stop:
				return
			}
			a.endRevoked()
		}
	}()
	a.onClose(func() error {
		a.store.OnKeyChange(nil)
		close(stop)
		<-done
		return nil
	})
	return nil
}

// callersChanged has open requests judged again, soon.
func (a *Appliance) callersChanged() {
	select {
	case a.revoked <- struct{}{}:
	default: // somebody has said so already
	}
}

// endRevoked ends every open request whose caller may ask no more.
func (a *Appliance) endRevoked() {
	a.grants.Range(func(_, v any) bool {
		adm := v.(*admission)
		if adm.ended.Err() == nil && a.policy.Live(&adm.ID) != nil {
			adm.end(errRevoked)
		}
		return true
	})
}

// revokedError is what is told of it. After the first word it stands in the
// stream, as the dialect writes errors there.
func revokedError() *infer.Error {
	e := infer.Errorf(infer.CodeUnauthorized, "the credential of this request was revoked or has expired")
	e.NoRetry = true
	return e
}
