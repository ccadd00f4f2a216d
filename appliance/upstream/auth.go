package upstream

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"hearth/policy"
)

// signer shows a provider who asks. Its errors are *infer.Error of class auth,
// with nothing sent.
type signer interface {
	sign(ctx context.Context, req *http.Request, body []byte) error
	refused() // the provider answered 401 or 403
	close()
}

// scheme makes the signer of a kind of provider; ref is the kind of the
// credential's reference.
type scheme func(u *Upstream, c *policy.UpstreamConfig, ref string, stored source) (signer, error)

// newSigner makes the signer of an upstream; nil where it has no credential.
func newSigner(u *Upstream) (signer, error) {
	if u.c.Credential == "" {
		return nil, nil
	}
	ref, name, err := reference(u.c.Credential)
	if err != nil {
		return nil, err
	}
	src, err := stored(u, ref, name)
	if err != nil {
		return nil, err
	}
	return u.profile.scheme(u, u.c, ref, src)
}

// bearerKey sends the key, or a token got for an identity token, as a bearer
// (RFC 6750).
func bearerKey(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
	if ref == "oidc-file" {
		t, err := exchanged(u, c, src)
		if err != nil {
			return nil, err
		}
		src = t
	}
	return &keyHeader{name: "Authorization", before: "Bearer ", source: src}, nil
}

// headerKey sends the key in a header of the provider's own; a token that was
// got for an identity token goes as a bearer.
func headerKey(name string) scheme {
	return func(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
		if ref == "oidc-file" {
			return bearerKey(u, c, ref, src)
		}
		return &keyHeader{name: name, source: src}, nil
	}
}

// keyHeader puts a secret into a header.
type keyHeader struct {
	name   string
	before string
	source source
	last   atomic.Pointer[headed]
}

type headed struct {
	secret Secret
	value  []string
}

func (k *keyHeader) sign(ctx context.Context, req *http.Request, _ []byte) error {
	s, err := k.source.get(ctx)
	if err != nil {
		return err
	}
	last := k.last.Load()
	if last == nil || last.secret != s {
		if strings.ContainsFunc(s.value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
			return unavailable(errNotOneLine)
		}
		last = &headed{s, []string{k.before + s.value}}
		k.last.Store(last)
	}
	req.Header[k.name] = last.value
	return nil
}

func (k *keyHeader) refused() { k.source.forget() }
func (k *keyHeader) close()   { k.source.close() }
