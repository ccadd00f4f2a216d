package appliance

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"hearth/appliance/accounts"
	"hearth/web/admin"
)

func accountCommand() *command {
	return &command{
		name: "account", short: "manage who may use the control plane",
		long: `Accounts sign in to the status page and its API; they are no API keys of the data
plane. Roles: owner, operator, auditor (reads everything), tenant-admin (sees one
tenant). Works beside a running server and without one.`,
		sub: []*command{accountCreateCommand(), accountListCommand(), accountUpdateCommand(), accountPasswordCommand(),
			accountInviteCommand(), accountDisableCommand(true), accountDisableCommand(false), accountRemoveCommand(), accountTokenCommand()},
	}
}

// maxPasswordLine bounds a password that is read from a pipe.
const maxPasswordLine = 4096

// readPassword asks on a terminal, without echo and twice, and reads one line
// from anything else.
func readPassword(env *Env) (string, error) {
	if f, ok := env.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		var typed [2]string
		for i, prompt := range []string{"Password: ", "The same again: "} {
			fmt.Fprint(env.Stderr, prompt)
			b, err := term.ReadPassword(int(f.Fd()))
			fmt.Fprintln(env.Stderr)
			if err != nil {
				return "", fmt.Errorf("cannot read the password: %w", err)
			}
			typed[i] = string(b)
		}
		if typed[0] != typed[1] {
			return "", errors.New("the two passwords differ")
		}
		return typed[0], nil
	}
	line, err := bufio.NewReader(io.LimitReader(env.Stdin, maxPasswordLine)).ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	switch {
	case line != "":
		return line, nil
	case err != nil && err != io.EOF:
		return "", fmt.Errorf("cannot read the password from the input: %w", err)
	}
	return "", errors.New("there is no password: type it on a terminal, or give it as the first line of the input")
}

func accountCreateCommand() *command {
	return &command{
		name: "create", args: "NAME", short: "make an account, with a password or with a link that invites to it",
		long: `The password is asked for on a terminal, or is the first line of the input. With
--invite the link is printed instead: whoever opens it within three days chooses
a password or a passkey.`,
		examples: []string{"hearth account create alice --role owner", "hearth account create bob --role tenant-admin --tenant lab --invite"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			role := fs.String("role", string(admin.Auditor), "`ROLE`: owner, operator, auditor or tenant-admin")
			tenant := fs.String("tenant", "", "`NAME` of the tenant of a tenant-admin")
			invite := fs.Bool("invite", false, "print a link in place of asking for a password")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account create: got %d names, wanted one", len(args))
				}
				r := newAccount{Name: args[0], Role: admin.Role(*role), Tenant: *tenant}
				if !*invite {
					p, err := readPassword(env)
					if err != nil {
						return err
					}
					r.Password = p
				}
				made, err := opAccountCreate.call(ctx, c, r)
				if err != nil {
					return err
				}
				return showInvited(env, af, made, "made")
			}
		}),
	}
}

func showInvited(env *Env, af *adminFlags, made invited, what string) error {
	if af.json {
		return printJSON(env.Stdout, made)
	}
	fmt.Fprintf(env.Stdout, "account %s (%s) is %s\n", made.Name, roleText(made.Role, made.Tenant), what)
	if made.InvitationURL != "" {
		fmt.Fprintf(env.Stdout, "%s\n(works once, until %s)\n", made.InvitationURL, day(made.Invited))
	}
	return nil
}

func accountListCommand() *command {
	return &command{
		name: "list", short: "list the accounts", examples: []string{"hearth account list --json"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				list, err := opAccountList.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "NAME\tROLE\tTENANT\tSTATE\tSIGNS IN BY\tLAST SIGN-IN\tSESSIONS\tTOKENS")
					for _, a := range list {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", a.Name, a.Role, dash(a.Tenant), accountState(a), dash(strings.Join(a.Methods, ", ")), day(a.SignedIn), a.Sessions, a.Tokens)
					}
				})
			}
		}),
	}
}

func accountState(a accounts.Account) string {
	switch {
	case a.Disabled:
		return "disabled"
	case !a.Invited.IsZero():
		return "invited"
	case len(a.Methods) == 0:
		return "no way in"
	}
	return "live"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// changeAccount makes a command that carries out one change of an account.
func changeAccount(name, short, example string, flags func(*flag.FlagSet, *accountChange), done string) *command {
	return &command{
		name: name, args: "NAME", short: short, examples: []string{example},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var r accountChange
			flags(fs, &r)
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account %s: got %d names, wanted one", name, len(args))
				}
				r.ID = args[0]
				got, err := opAccountUpdate.call(ctx, c, r)
				if err != nil {
					return err
				}
				return showInvited(env, af, invited{Account: got}, done)
			}
		}),
	}
}

func accountUpdateCommand() *command {
	return changeAccount("update", "change the role of an account; its sessions end", "hearth account update bob --role operator",
		func(fs *flag.FlagSet, r *accountChange) {
			fs.Func("role", "`ROLE`: owner, operator, auditor or tenant-admin", func(s string) error { role := admin.Role(s); r.Role = &role; return nil })
			fs.Func("tenant", "`NAME` of the tenant of a tenant-admin", func(s string) error { r.Tenant = &s; return nil })
		}, "changed")
}

func accountDisableCommand(off bool) *command {
	name, short, done := "disable", "keep an account out; its sessions and tokens stop working", "disabled"
	if !off {
		name, short, done = "enable", "let a disabled account in again", "enabled"
	}
	return changeAccount(name, short, "hearth account "+name+" bob", func(_ *flag.FlagSet, r *accountChange) { r.Disabled = &off }, done)
}

func accountPasswordCommand() *command {
	return &command{
		name: "password", args: "NAME", short: "set the password of an account; its sessions end",
		long:     `The password is asked for on a terminal, or is the first line of the input.`,
		examples: []string{"hearth account password alice"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account password: got %d names, wanted one", len(args))
				}
				p, err := readPassword(env)
				if err != nil {
					return err
				}
				got, err := opAccountPassword.call(ctx, c, passwordChange{ID: args[0], Password: p})
				if err != nil {
					return err
				}
				return showInvited(env, af, invited{Account: got}, "given a new password")
			}
		}),
	}
}

func accountInviteCommand() *command {
	return &command{
		name: "invite", args: "NAME", short: "print a link that lets somebody into an account, once",
		examples: []string{"hearth account invite bob"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account invite: got %d names, wanted one", len(args))
				}
				got, err := opAccountInvite.call(ctx, c, accountID{args[0]})
				if err != nil {
					return err
				}
				return showInvited(env, af, got, "invited")
			}
		}),
	}
}

func accountRemoveCommand() *command {
	return &command{
		name: "rm", args: "NAME", short: "remove an account with its sessions and tokens, for good",
		examples: []string{"hearth account rm bob"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account rm: got %d names, wanted one", len(args))
				}
				if _, err := opAccountDelete.call(ctx, c, accountID{args[0]}); err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, map[string]string{"removed": args[0]})
				}
				_, err := fmt.Fprintf(env.Stdout, "account %s is removed\n", args[0])
				return err
			}
		}),
	}
}

func accountTokenCommand() *command {
	return &command{
		name: "token", short: "make, list and revoke API tokens of the control plane",
		long: `A token lets a script use the admin API with "Authorization: Bearer ha_…". It
belongs to an account and never may more than that.`,
		sub: []*command{tokenCreateCommand(), tokenListCommand(), tokenRevokeCommand()},
	}
}

func tokenCreateCommand() *command {
	return &command{
		name: "create", args: "USER", short: "make a token of an account and show it, once",
		examples: []string{"hearth account token create alice --name nightly-export --role auditor --expires 720h"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var r newToken
			fs.StringVar(&r.Name, "name", "", "`TEXT` to know it by")
			role := fs.String("role", "", "`ROLE` that it has; empty: that of the account")
			fs.StringVar(&r.Tenant, "tenant", "", "`NAME` of the tenant of a tenant-admin")
			fs.DurationVar(&r.Life, "expires", accounts.DefaultTokenLife, "good for this `DURATION`")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account token create: got %d accounts, wanted one", len(args))
				}
				if r.Life <= 0 {
					return usagef("account token create: --expires must be positive")
				}
				r.Account, r.Role = args[0], admin.Role(*role)
				made, err := opTokenCreate.call(ctx, c, r)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, made)
				}
				_, err = fmt.Fprintf(env.Stdout, "id       %s\naccount  %s\nrole     %s\nexpires  %s\ntoken    %s\n         (shown now and never again)\n",
					made.ID, made.User, roleText(made.Role, made.Tenant), made.Expires.Local().Format(time.DateTime), made.Secret)
				return err
			}
		}),
	}
}

func tokenListCommand() *command {
	return &command{
		name: "list", short: "list the tokens, without their secrets", examples: []string{"hearth account token list"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				list, err := opTokenList.call(ctx, c, listOthers{All: true})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tACCOUNT\tNAME\tROLE\tSTATE\tEXPIRES\tLAST USED")
					for _, t := range list {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.User, t.Name, roleText(t.Role, t.Tenant), t.State, day(t.Expires), day(t.Used))
					}
				})
			}
		}),
	}
}

func tokenRevokeCommand() *command {
	return &command{
		name: "revoke", args: "ID", short: "end a token for good", examples: []string{"hearth account token revoke TOKEN-ID"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("account token revoke: got %d ids, wanted one", len(args))
				}
				t, err := opTokenRevoke.call(ctx, c, accountID{args[0]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, t)
				}
				_, err = fmt.Fprintf(env.Stdout, "token %s (%s) of %s is revoked\n", t.ID, t.Name, t.User)
				return err
			}
		}),
	}
}
