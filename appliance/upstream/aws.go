package upstream

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// awsSignature signs with a key ("ID:SECRET[:TOKEN]" or JSON with the names that
// AWS's tools print), with a role that an identity token stands for (oidc-file),
// or sends a Bedrock API key as a bearer.
func awsSignature(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
	s := &aws{u: u, source: src, signer: awsSigner{region: u.target.region, service: "bedrock"}}
	if ref != "oidc-file" {
		return s, nil
	}
	if u.target.region == "" {
		return nil, errNoRegion
	}
	if !strings.HasPrefix(c.ClientID, "arn:") {
		return nil, errors.New("cannot assume a role without client_id: the role's ARN, arn:aws:iam::ACCOUNT:role/NAME")
	}
	to, err := configuredURL(or(c.TokenURL, "https://sts."+u.target.region+".amazonaws.com/"))
	if err != nil {
		return nil, err
	}
	issue := newIssuer(u)
	s.role = &tokens[awsKey]{now: u.o.Now, fetch: func(ctx context.Context) (awsKey, time.Time, error) {
		identity, err := src.get(ctx)
		if err != nil {
			return awsKey{}, time.Time{}, err
		}
		return assumeRole(ctx, issue, to, c.ClientID, identity)
	}}
	return s, nil
}

type aws struct {
	u      *Upstream
	source source
	role   *tokens[awsKey] // instead of a key, where a role is assumed
	signer awsSigner
	last   atomic.Pointer[awsParsed]
	seen   atomic.Pointer[Secret] // the identity token that the role was assumed with
}

type awsParsed struct {
	secret Secret
	key    awsKey
	bearer []string
}

func (s *aws) sign(ctx context.Context, req *http.Request, body []byte) error {
	if s.role != nil {
		if id, err := s.source.get(ctx); err == nil {
			if old := s.seen.Swap(&id); old != nil && *old != id {
				s.role.renewNow()
			}
		}
		key, err := s.role.get(ctx)
		if err != nil {
			return err
		}
		s.signer.sign(req, body, key, s.u.o.Now())
		return nil
	}
	secret, err := s.source.get(ctx)
	if err != nil {
		return err
	}
	p := s.last.Load()
	if p == nil || p.secret != secret {
		if p, err = parseAWS(secret); err != nil {
			return unavailable(err)
		}
		s.last.Store(p)
	}
	if p.bearer != nil {
		req.Header["Authorization"] = p.bearer
		return nil
	}
	if s.signer.region == "" {
		return unavailable(errNoRegion)
	}
	s.signer.sign(req, body, p.key, s.u.o.Now())
	return nil
}

var errNoRegion = errors.New("cannot sign for AWS without region: base_url names none")

func (s *aws) refused() {
	s.source.forget()
	if s.role != nil {
		s.role.forget()
	}
}

func (s *aws) close() {
	if s.role != nil {
		s.role.close()
	}
	s.source.close()
}

// parseAWS reads a credential in one of the forms in which AWS's are handed on.
func parseAWS(s Secret) (*awsParsed, error) {
	p := &awsParsed{secret: s}
	if strings.HasPrefix(s.value, "{") {
		v, err := jsonread.Parse([]byte(s.value), jsonread.Limits{})
		if err != nil {
			return nil, errors.New("cannot read the AWS credential as JSON")
		}
		if inner, ok := v.Get("Credentials"); ok { // as "aws sts assume-role" prints it
			v = inner
		}
		first := func(names ...string) string {
			for _, n := range names {
				if t := member(v, n); t != "" {
					return t
				}
			}
			return ""
		}
		p.key = awsKey{
			first("AccessKeyId", "aws_access_key_id", "access_key_id"),
			first("SecretAccessKey", "aws_secret_access_key", "secret_access_key"),
			first("SessionToken", "Token", "aws_session_token", "session_token"),
		}
	} else {
		parts := strings.SplitN(s.value, ":", 3)
		if len(parts) == 1 {
			if strings.ContainsFunc(s.value, notGraphic) {
				return nil, errNotOneLine
			}
			p.bearer = []string{"Bearer " + s.value}
			return p, nil
		}
		p.key.id, p.key.secret = parts[0], parts[1]
		if len(parts) == 3 {
			p.key.session = parts[2]
		}
	}
	if p.key.id == "" || p.key.secret == "" || strings.ContainsFunc(p.key.id+p.key.secret+p.key.session, notGraphic) {
		return nil, errors.New("cannot use the AWS credential: want ID:SECRET, ID:SECRET:TOKEN, or JSON with AccessKeyId and SecretAccessKey")
	}
	return p, nil
}

// assumeRole trades an identity token for a temporary key (AWS STS,
// AssumeRoleWithWebIdentity, which is not signed).
func assumeRole(ctx context.Context, i *issuer, to, role string, identity Secret) (awsKey, time.Time, error) {
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {"hearth"},
		"WebIdentityToken": {identity.value},
	}
	fail := func(format string, args ...any) (awsKey, time.Time, error) {
		return awsKey{}, time.Time{}, fmt.Errorf("cannot assume the role: "+format, args...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return fail("the address of the token service cannot be used")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := i.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fail("%w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	if err != nil {
		return fail("the answer cannot be read")
	}
	if resp.StatusCode != http.StatusOK {
		return fail("the token service refused: status %d", resp.StatusCode)
	}
	var answer struct {
		Key struct {
			ID      string    `xml:"AccessKeyId"`
			Secret  string    `xml:"SecretAccessKey"`
			Session string    `xml:"SessionToken"`
			End     time.Time `xml:"Expiration"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(text, &answer); err != nil {
		return fail("the answer is not the XML that is documented")
	}
	k := answer.Key
	if k.ID == "" || k.Secret == "" || k.End.IsZero() {
		return fail("the answer has no key")
	}
	return awsKey{k.ID, k.Secret, k.Session}, k.End, nil
}

// placeBedrock gives the paths of Bedrock: the Converse client writes its own;
// Anthropic's dialect goes to InvokeModel.
func placeBedrock(e *endpoint, dialect, model string, o *wire.Outgoing) (string, error) {
	switch {
	case dialect != dialectAnthropic:
		return e.path + o.Path, nil
	case strings.Contains(o.Path, "count_tokens"):
		return "", infer.Unsupported("model", "the provider of this model counts no tokens in this dialect")
	case o.Stream:
		return e.path + "/model/" + awsEscape(model, true) + "/invoke-with-response-stream", nil
	}
	return e.path + "/model/" + awsEscape(model, true) + "/invoke", nil
}

// rewriteBedrock moves what Anthropic's dialect has elsewhere on Bedrock: the
// model and the wish for a stream are in the path, the version and the betas in
// the body.
func rewriteBedrock(dialect string, o *wire.Outgoing, h http.Header) ([]byte, error) {
	if dialect != dialectAnthropic {
		return o.Body, nil
	}
	head := []byte(`"anthropic_version":"bedrock-2023-05-31"`)
	n := 0
	for _, line := range h["Anthropic-Beta"] {
		for _, beta := range strings.Split(line, ",") {
			if beta = strings.TrimSpace(beta); beta == "" {
				continue
			}
			if n++; n == 1 {
				head = append(head, `,"anthropic_beta":[`...)
			} else {
				head = append(head, ',')
			}
			head = jsonwrite.String(head, beta)
		}
	}
	drop := []string{"model", "stream"}
	if n > 0 {
		head, drop = append(head, ']'), append(drop, "anthropic_beta")
	}
	delete(h, "Anthropic-Beta")
	delete(h, "Anthropic-Version")
	return restated(o.Body, string(head), drop)
}
