package appliance

import (
	"context"
	_ "embed"
	"flag"
	"io"
	"slices"
	"strings"
)

// The scripts ask `hearth __complete` at each Tab and so know every command,
// flag and name of the binary that is installed, whatever its release.
var (
	//go:embed shell/hearth.bash
	bashScript string
	//go:embed shell/hearth.zsh
	zshScript string
	//go:embed shell/hearth.fish
	fishScript string
	//go:embed shell/hearth.ps1
	powershellScript string
)

func completionCommand() *command {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript, "powershell": powershellScript}
	return &command{
		name: "completion", args: "SHELL", short: "print a script that completes command lines at Tab",
		long: `SHELL is bash, zsh, fish or powershell. Commands and flags are completed, and the
names of models, keys, tenants, upstreams, requests and revisions: those of the
running server if there is one, which has 400 ms to answer.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			return func(_ context.Context, env *Env, args []string) error {
				if len(args) != 1 {
					return usagef("completion: got %d shells, wanted one of %s", len(args), strings.Join(choices["SHELL"], ", "))
				}
				script, ok := scripts[args[0]]
				if !ok {
					hint := ""
					if near := nearest(args[0], slices.Clone(choices["SHELL"])); near != "" {
						hint = ", did you mean " + near + "?"
					}
					return usagef("completion: got %q, wanted one of %s%s", args[0], strings.Join(choices["SHELL"], ", "), hint)
				}
				_, err := io.WriteString(env.Stdout, script)
				return err
			}
		},
	}
}
