package upstream

import (
	"bytes"
	"net/http"
	"strings"

	"hearth/engine/infer"
)

// credentialHeaders are those in which a signer may have put a secret.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token"}

// minSecret is the length below which a credential is not looked for: it would
// be found in ordinary words.
const minSecret = 6

// secrets calls f with each secret that a request carried, until f says no.
// Some providers repeat them: in the words of an error, or as an id.
func secrets(h http.Header, f func(string) bool) {
	for _, name := range credentialHeaders {
		for _, v := range h[name] {
			_, bare, ok := strings.Cut(v, " ") // "Bearer KEY"
			if !ok {
				bare = v
			}
			if len(bare) >= minSecret && !f(bare) {
				return
			}
		}
	}
}

// discreet is s, or nothing if it holds a secret of the request.
func (a *attempt) discreet(s string) string {
	secrets(a.head, func(secret string) bool {
		if strings.Contains(s, secret) {
			s = ""
		}
		return s != ""
	})
	return s
}

// hide takes the request's secrets out of a piece of an answer. One that comes in
// two pieces is not found; no server that repeats what it was sent cuts it.
func (x *exchange) hide(ev *infer.Event) {
	for _, secret := range x.hidden {
		if ev.Frame != nil && bytes.Contains(ev.Frame.Data, secret) {
			own := *ev.Frame
			own.Data = bytes.ReplaceAll(own.Data, secret, ellipsis)
			ev.Frame = &own
		}
		if len(ev.Text) >= len(secret) && strings.Contains(ev.Text, string(secret)) {
			ev.Text = strings.ReplaceAll(ev.Text, string(secret), string(ellipsis))
		}
	}
}

var ellipsis = []byte("…")

// scrub takes the request's secrets out of what an error tells.
func (a *attempt) scrub(e *infer.Error) {
	secrets(a.head, func(secret string) bool {
		e.Message = strings.ReplaceAll(e.Message, secret, "…")
		e.Param = strings.ReplaceAll(e.Param, secret, "…")
		return true
	})
	e.Upstream.RequestID = a.discreet(e.Upstream.RequestID)
}
