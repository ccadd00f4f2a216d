package upstream

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/wire"
)

// placeAzure gives the paths of Azure OpenAI. With an api_version, and unless
// base_url names the v1 form, a deployment is part of the path:
// /openai/deployments/{deployment}/chat/completions?api-version=…; the v1 form
// has it in the body like everybody else.
func placeAzure(e *endpoint, dialect, model string, o *wire.Outgoing) (string, error) {
	path, query, _ := strings.Cut(o.Path, "?")
	if strings.HasSuffix(e.path, "/v1") || e.version == "" {
		base := e.path
		if base == "" || base == "/openai" {
			base = "/openai/v1"
		}
		return withQuery(join(base, "", dialect, path), query, e.version), nil
	}
	base := strings.TrimSuffix(e.path, "/openai")
	if i := strings.Index(base, "/openai/deployments/"); i >= 0 {
		base = base[:i] // someone copied the whole address of a deployment
	}
	path = strings.TrimPrefix(path, "/v1")
	if dialect == dialectResponses {
		return withQuery(base+"/openai"+path, query, e.version), nil
	}
	if model == "" || strings.ContainsAny(model, "/?#") {
		return "", infer.Errorf(infer.CodeInternal, "cannot use the name of the deployment")
	}
	return withQuery(base+"/openai/deployments/"+url.PathEscape(model)+path, query, e.version), nil
}

func withQuery(path, query, version string) string {
	if version != "" {
		if query != "" {
			query += "&"
		}
		query += "api-version=" + url.QueryEscape(version)
	}
	if query == "" {
		return path
	}
	return path + "?" + query
}

const (
	entraScope = "https://cognitiveservices.azure.com/.default"
	entraLogin = "https://login.microsoftonline.com/"
)

// azureKey sends an api-key, or a token of Entra ID: got with the secret of a
// client where token_url and client_id are set, or with an identity token
// (workload identity federation) for oidc-file.
func azureKey(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
	if ref != "oidc-file" && c.TokenURL == "" && c.ClientID == "" {
		return &keyHeader{name: "Api-Key", source: src}, nil
	}
	if c.TokenURL == "" || c.ClientID == "" {
		return nil, errors.New("cannot ask Entra ID for a token without token_url (" + entraLogin + "TENANT/oauth2/v2.0/token) and client_id")
	}
	to, err := configuredURL(c.TokenURL)
	if err != nil {
		return nil, err
	}
	scope := c.Scope
	if scope == "" {
		scope = entraScope
	}
	issue := newIssuer(u)
	return &keyHeader{name: "Authorization", before: "Bearer ", source: newTokenSource(u, src, func(ctx context.Context, s Secret) (Secret, time.Time, error) {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ClientID}, "scope": {scope}}
		if ref == "oidc-file" {
			form.Set("client_assertion_type", assertionJWT)
			form.Set("client_assertion", s.value)
		} else {
			form.Set("client_secret", s.value)
		}
		return issue.grant(ctx, to, form, u.o.Now())
	})}, nil
}
