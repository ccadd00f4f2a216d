package appliance

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// matrixConfig has one route that is served elsewhere.
const matrixConfig = testConfig + `
[[upstream]]
name = "far"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
region = "eu"
data_classes = ["internal", "public"]
[upstream.health]
probe_interval = "1h"
[[route]]
model = "talk"
effect = "effectful"
data_classes = ["internal"]
[[route.candidate]]
upstream = "far"
model = "x"
`

// axes are what a caller may be allowed: nothing is said, what the request needs,
// something else.
var axes = [5][3][]string{
	{nil, {"ta*"}, {"other"}},            // models
	{nil, {"search"}, {"calc*"}},         // tools
	{nil, {"internal", "x"}, {"public"}}, // data_classes
	{nil, {"us", "eu"}, {"us"}},          // regions
	{nil, {"effectful"}, {"read-only"}},  // effects
}

var axisKeys = [5]string{"models", "tools", "data_classes", "regions", "effects"}

// expected says what a caller is told who may do what the choices say, by the
// order in which a request is judged.
func expected(choice [5]int) string {
	for _, axis := range [5]int{0, 4, 2, 3, 1} {
		if choice[axis] == 2 {
			return map[int]string{0: "model_not_found", 1: "tools", 2: "data_classes", 3: "regions", 4: "effects"}[axis]
		}
	}
	return "ok"
}

func eachChoice(from int, f func(name string, choice [5]int)) {
	for n := range 243 {
		var choice [5]int
		least := 3
		for i, m := 0, n; i < 5; i, m = i+1, m/3 {
			choice[i] = m % 3
			least = min(least, choice[i])
		}
		if least >= from {
			f(fmt.Sprintf("c%d", n), choice)
		}
	}
}

// allowed asks what a caller may do, as a request with a tool would.
func (b *testbed) allowed(c web.Caller) string {
	c.RequestID, c.RemoteAddr, c.Route = "r", "127.0.0.1:1", "POST /x"
	g, err := b.Admit(context.Background(), c)
	if err != nil {
		return "not admitted: " + err.Error()
	}
	defer g.Release()
	id := &b.admission(g).ID
	r := chat("talk")
	r.Tools = []infer.Tool{{Name: "search"}}
	if _, err := b.policy.Route(id, "talk"); err != nil {
		return ruleOf(err)
	}
	if err := b.policy.AllowTools(id, r); err != nil {
		return ruleOf(err)
	}
	return "ok"
}

// ruleOf is the rule that an error names.
func ruleOf(err error) string {
	e := infer.AsError(err)
	if e.Code != infer.CodeForbidden {
		return string(e.Code)
	}
	_, rule, _ := strings.Cut(e.Message, "(")
	return strings.TrimSuffix(rule, ")")
}

// Models × tools × classes of data × regions × effects × kinds of callers: what
// is not allowed is refused, by whatever a caller has shown.
func TestAuthorizationMatrix(t *testing.T) {
	var grants strings.Builder
	eachChoice(0, func(name string, choice [5]int) {
		fmt.Fprintf(&grants, "[[identity.grant]]\nmatch = [%q]\n", "KEY="+name)
		for i, k := range axisKeys {
			if l := axes[i][choice[i]]; l != nil {
				fmt.Fprintf(&grants, "%s = [\"%s\"]\n", k, strings.Join(l, `", "`))
			}
		}
	})
	table := func(name, kind, rest, key string) string {
		return fmt.Sprintf("[[identity]]\nname = %q\nkind = %q\ntenant = \"default\"\n%s\n", name, kind, rest) + strings.ReplaceAll(grants.String(), "KEY=", key+"=")
	}
	jwt := "audiences = [\"hearth\"]\njwks_file = \"jwks.json\"\nissuer = "
	b := newIdentityBed(t, matrixConfig+table("staff", "jwt", jwt+`"https://login.example.com"`, "sub")+
		table("mesh", "certificate", `ca_file = "ca.pem"`, "cn")+
		"[[identity]]\nname = \"self\"\nkind = \"jwt\"\ntenant = \"default\"\n"+jwt+"\"https://claims.example.com\"\n"+
		"models_claim = \"scope\"\ntools_claim = \"may.tools\"\ndata_classes_claim = \"classes\"\nregions_claim = \"regions\"\neffects_claim = \"scope\"\n")
	ctx, n := context.Background(), 0
	check := func(kind string, choice [5]int, c web.Caller) {
		n++
		if got, want := b.allowed(c), expected(choice); got != want {
			t.Errorf("%s %v: got %q, want %q", kind, choice, got, want)
		}
	}
	eachChoice(0, func(name string, choice [5]int) {
		k, err := b.store.CreateKey(ctx, store.Key{Tenant: "default", Name: name, Models: axes[0][choice[0]], Tools: axes[1][choice[1]],
			DataClasses: axes[2][choice[2]], Regions: axes[3][choice[3]], Effects: axes[4][choice[4]]})
		if err != nil {
			t.Fatal(err)
		}
		check("key", choice, web.Caller{Credential: k.Secret, Bearer: true})
		check("jwt", choice, web.Caller{Credential: b.tokens.sign(map[string]any{"sub": name}), Bearer: true})
		cert := b.ca.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		check("certificate", choice, web.Caller{Certificates: []*x509.Certificate{cert.Leaf}})
	})
	// By claims of the token itself, where to say nothing allows nothing.
	eachChoice(0, func(_ string, choice [5]int) {
		claims := map[string]any{"sub": "x", "iss": "https://claims.example.com"}
		scope := []string{"openid"}
		for _, axis := range []int{0, 4} {
			for _, s := range axes[axis][choice[axis]] {
				scope = append(scope, axisKeys[axis]+":"+s)
			}
		}
		claims["scope"] = strings.Join(scope, " ")
		if l := axes[1][choice[1]]; l != nil {
			claims["may"] = map[string]any{"tools": l}
		}
		if l := axes[2][choice[2]]; l != nil {
			claims["classes"] = l
		}
		if l := axes[3][choice[3]]; l != nil {
			claims["regions"] = strings.Join(l, " ")
		}
		for i := range choice {
			if choice[i] == 0 {
				choice[i] = 2
			}
		}
		check("claims", choice, web.Caller{Credential: b.tokens.sign(claims), Bearer: true})
	})
	t.Logf("%d combinations", n)
}

// What a tenant does not allow no identity of it can allow.
func TestTenantBounds(t *testing.T) {
	bounds := [5]string{`models = ["m"]`, `tools = ["calc"]`, `data_classes = ["public"]`, `regions = ["us"]`, `effects = ["read-only"]`}
	file := matrixConfig
	for axis, line := range bounds {
		file += fmt.Sprintf("[[tenant]]\nname = \"t%d\"\n%s\n", axis, line)
	}
	b := newIdentityBed(t, file+
		"[[identity]]\nname = \"staff\"\nkind = \"jwt\"\nissuer = \"https://login.example.com\"\naudiences = [\"hearth\"]\njwks_file = \"jwks.json\"\ntenant_claim = \"org\"\n"+
		"models = [\"*\"]\ntools = [\"*\"]\ndata_classes = [\"internal\"]\nregions = [\"eu\"]\neffects = [\"effectful\"]\n")
	for axis, line := range bounds {
		tenant := fmt.Sprintf("t%d", axis)
		choice := [5]int{}
		choice[axis] = 2
		k, err := b.store.CreateKey(context.Background(), store.Key{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]web.Caller{"key": {Credential: k.Secret}, "jwt": {Credential: b.tokens.sign(map[string]any{"sub": "a", "org": tenant}), Bearer: true},
			"console": {Principal: &web.Principal{User: "a", Tenant: tenant}}} {
			if got, want := b.allowed(c), expected(choice); got != want {
				t.Errorf("%s, %s: got %q, want %q", line, what, got, want)
			}
		}
	}
}
