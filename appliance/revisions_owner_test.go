package appliance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// What only an owner changes stays theirs, however much else a text changes and
// wherever it stands.
func TestOwnersChangesCannotBeHidden(t *testing.T) {
	b := newTestbed(t)
	table := `
[[retention]]
name = "spy"
tenants = ["default"]
what = ["prompts", "answers"]
readers = ["operator"]
`
	var crowd strings.Builder
	for i := range maxChanged + 20 {
		fmt.Fprintf(&crowd, "[[price]]\nmodel = \"m%d\"\ninput_usd_per_m = \"0.1\"\noutput_usd_per_m = \"0.1\"\n", i)
	}
	op := as(admin.Operator)
	text := strings.Replace(testConfig, "\n[", "\nprice_version = \"x\"\n[", 1)
	if strings.Contains(testConfig, "price_version") {
		text = testConfig
	}
	for what, add := range map[string]string{"alone": table, "behind a crowd": crowd.String() + table} {
		_, err := opConfigApply.do(op, b.control(), configApply{Text: text + add})
		if codeOf(err) != infer.CodeForbidden || !strings.Contains(err.Error(), "retention") {
			t.Errorf("%s: an operator got %v", what, err)
		}
		if c := runOp(t, op, b, opConfigCheck, configCheck{Text: text + add}); c.OK || len(c.Owner) == 0 {
			t.Errorf("%s: the check is %v, for owners %q", what, c.OK, c.Owner)
		}
	}
	runOp(t, op, b, opConfigApply, configApply{Text: text + crowd.String()}) // it is the table that was refused
}

// A reference to a secret can name any file of the process: who pairs it with an
// address of their own reads that file.
func TestOnlyAnOwnerSendsSecrets(t *testing.T) {
	b := newTestbed(t)
	up := func(name, url, ref string) string {
		return fmt.Sprintf("\n[[upstream]]\nname = %q\nkind = \"openai\"\nbase_url = %q\ncredential = %q\n[upstream.health]\nprobe_interval = \"1h\"\n", name, url, ref)
	}
	const good, evil = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"
	kept := testConfig + up("a", good, "env:KEY_A")
	runOp(t, as(admin.Owner), b, opConfigApply, configApply{Text: kept})
	op := as(admin.Operator)
	for what, text := range map[string]string{
		"another file":    testConfig + up("a", good, "file:/etc/hearth/oidc"),
		"another address": testConfig + up("a", evil, "env:KEY_A"),
		"a new upstream":  kept + up("b", evil, "env:KEY_A"),
		"traces":          kept + "\n[telemetry.traces]\nendpoint = \"http://127.0.0.1:10/\"\ncredential = \"env:KEY_A\"\n",
		"backups":         kept + "\n[backup]\npassphrase = \"env:KNOWN\"\n",
	} {
		_, err := opConfigApply.do(op, b.control(), configApply{Text: text})
		if codeOf(err) != infer.CodeForbidden {
			t.Errorf("%s: an operator got %v", what, err)
		}
	}
	// What has no secret, or sends one where it went before, is an operator's.
	runOp(t, op, b, opConfigApply, configApply{Text: testConfig + up("c", good, "env:KEY_A") + up("d", evil, "")})
	runOp(t, op, b, opConfigApply, configApply{Text: testConfig})
}
