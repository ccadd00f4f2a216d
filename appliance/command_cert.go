package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"hearth/appliance/certs"
)

func certCommand() *command {
	return &command{
		name: "cert", short: "show and renew certificates, and the root that clients trust",
		long: `The server renews its certificates by itself, and its own authority needs no
network. What clients must trust is in ca.pem of the data directory:
  hearth cert root --out ca.pem     write it, for the clients
  hearth cert show --trust          how each system comes to trust it
  hearth cert root --rotate         make a new root; both are good for a while
  hearth cert root --retire         end that, once all clients have the new one`,
		sub: []*command{certShowCommand(), certRenewCommand(), certRootCommand(), certEventsCommand()},
	}
}

func certShowCommand() *command {
	return &command{
		name: "show", short: "show the certificates in use, their chains and what failed",
		long: `Example: hearth cert show --chain`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			chain := fs.Bool("chain", false, "show every certificate of each chain")
			trust := fs.Bool("trust", false, "show how each system comes to trust the root")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				r, err := opCertShow.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, r)
				}
				printCertificates(env.Stdout, r, *chain)
				if *trust {
					printTrust(env.Stdout, r.Trust)
				}
				return nil
			}
		}),
	}
}

func printCertificates(w io.Writer, r certificateReport, chains bool) {
	if !r.Running {
		fmt.Fprintf(w, "no server is running; this is what is stored\n\n")
	}
	fmt.Fprintf(w, "mode %s, TLS %s and newer\n\n", r.Mode, r.MinVersion)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SOURCE\tSTATE\tENDS\tDAYS LEFT\tRENEWAL\tNAMES")
	for _, e := range r.Certificates {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", e.Source, e.State, when(e.NotAfter), e.DaysLeft, when(e.NextRenewal), strings.Join(e.Names, " "))
	}
	t.Flush()
	for _, e := range r.Certificates {
		if e.LastError != "" {
			fmt.Fprintf(w, "\n%s (%s), at %s:\n  %s\n", e.Name, e.Source, when(e.FailedAt), e.LastError)
		}
		if chains && len(e.Chain) > 0 {
			fmt.Fprintf(w, "\nchain of %s (%s):\n", e.Name, e.Source)
			for _, c := range e.Chain {
				printCertificate(w, c)
			}
		}
	}
	fmt.Fprintf(w, "\nroots that clients should trust:\n")
	for _, c := range r.Roots {
		printCertificate(w, c)
	}
	if r.Overlap != nil {
		fmt.Fprintf(w, "two roots are good since %s; `hearth cert root --retire` ends that\n", when(r.Overlap.Since))
	}
	for _, s := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", s)
	}
}

func printCertificate(w io.Writer, c certs.Certificate) {
	fmt.Fprintf(w, "  %s (%s)\n    serial  %s\n    valid   %s to %s\n    SHA-256 %s\n",
		c.Subject, c.KeyType, c.Serial, when(c.NotBefore), when(c.NotAfter), c.Fingerprint)
}

func printTrust(w io.Writer, all []certs.TrustSteps) {
	for _, t := range all {
		fmt.Fprintf(w, "\n%s\n", t.OS)
		for _, s := range t.Steps {
			fmt.Fprintf(w, "  %s\n", s)
		}
	}
}

// when is a time to the second, "-" for none.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

func certRenewCommand() *command {
	return &command{
		name: "renew", short: "renew certificates now", args: "[NAME]",
		long: `Without a name all certificates in use are renewed; files are read again. No
connection is cut. Example: hearth cert renew hearth.example`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				var in renewInput
				switch len(args) {
				case 0:
				case 1:
					in.Name = args[0]
				default:
					return usagef("cert renew: got %d names, wanted at most one", len(args))
				}
				r, err := opCertRenew.call(ctx, c, in)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, r)
				}
				printCertificates(env.Stdout, r, false)
				return nil
			}
		}),
	}
}

func certRootCommand() *command {
	return &command{
		name: "root", short: "show, rotate or retire the root that clients trust",
		long: `Prints the root as PEM; during the overlap of a rotation, both. With --rotate a
new root is made, and chains are served that clients accept who trust the old
one or the new one. Give the new ca.pem to all clients, then run --retire.`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			rotate := fs.Bool("rotate", false, "make a new root beside the one that is there")
			retire := fs.Bool("retire", false, "end the overlap: the old root is of no use from then on")
			der := fs.Bool("der", false, "give the newest root as DER, which phones take")
			out := fs.String("out", "", "write to `FILE` instead")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				switch {
				case *rotate && *retire:
					return usagef("cert root: --rotate and --retire exclude each other")
				case *der && af.json:
					return usagef("cert root: --der and --json exclude each other")
				case *rotate:
					if _, err := opCertRotate.call(ctx, c, none{}); err != nil {
						return err
					}
				case *retire:
					if _, err := opCertRetire.call(ctx, c, none{}); err != nil {
						return err
					}
				}
				roots, err := opCertRoot.call(ctx, c, none{})
				if err != nil {
					return err
				}
				return giveRoots(env, roots, af.json, *der, *out)
			}
		}),
	}
}

// giveRoots writes the roots in the form that was asked for.
func giveRoots(env *Env, r certificateRoots, asJSON, der bool, out string) error {
	if asJSON {
		return printJSON(env.Stdout, r)
	}
	if len(r.Roots) == 0 {
		return fmt.Errorf("there is no root yet: `hearth serve` makes one")
	}
	for _, root := range r.Roots {
		fmt.Fprintf(env.Stderr, "%s, until %s\nSHA-256 %s\n", root.Subject, when(root.NotAfter), root.Fingerprint)
	}
	text := []byte(r.PEM)
	if der {
		text = r.Roots[0].DER
	}
	if out != "" {
		return os.WriteFile(out, text, 0o644)
	}
	_, err := env.Stdout.Write(text)
	return err
}

func certEventsCommand() *command {
	return &command{
		name: "events", short: "show what happened to the certificates, newest first",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				r, err := opCertEvents.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, r)
				}
				t := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "TIME\tEVENT\tSOURCE\tNAME\tUNTIL\t")
				for _, e := range r.Events {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", when(e.Time), e.Kind, e.Source, e.Name, when(e.NotAfter), e.Error+e.Note)
				}
				return t.Flush()
			}
		}),
	}
}
