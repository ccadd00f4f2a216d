// Command pebblecheck holds a Hearth binary against Pebble, the small ACME
// authority that Let's Encrypt tests clients with: issue, kills in mid-order on
// either side, an authority that hangs, renewal under load, profiles, addresses
// and external accounts. It prints what it saw and exits 1 at the first thing that
// is not as it should be. Everything runs on loopback.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// name is what is certified; the DNS server that Pebble asks answers with
// loopback for every name.
const name = "hearth.test"

func main() {
	pebble := flag.String("pebble", "", "`FILE` of the pebble program")
	names := flag.String("names", "", "`FILE` of the pebble-challtestsrv program")
	hearth := flag.String("hearth", "", "`FILE` of the hearth program")
	work := flag.String("work", "", "`DIR` for everything that is written")
	flag.Parse()
	c := &check{pebble: *pebble, names: *names, hearth: *hearth, work: *work}
	err := c.run()
	c.end()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pebblecheck:", err)
		os.Exit(1)
	}
}

// check is one run.
type check struct {
	pebble, names, hearth, work string

	dns     string // address of the DNS server
	started []*process
}

// step is one thing that is checked, on servers of its own.
type step struct {
	title string
	run   func(*check, *authority) error
}

var steps = []step{
	{"issue, by tls-alpn-01 and http-01, a name and an address", (*check).issue},
	{"killed in mid-order, at first and at renewal", (*check).kills},
	{"the authority hangs and is killed in mid-order", (*check).authorityFails},
	{"20 renewals under load", (*check).renewals},
	{"a profile, taken by a reload", (*check).profile},
	{"an external account", (*check).external},
}

func (c *check) run() error {
	if err := c.startNames(); err != nil {
		return err
	}
	for i, s := range steps {
		began := time.Now()
		fmt.Printf("--- %s\n", s.title)
		a, err := c.newAuthority(filepath.Join(c.work, fmt.Sprintf("authority-%d", i)))
		if err == nil {
			err = s.run(c, a)
		}
		c.endFrom(1) // the DNS server goes on
		if err != nil {
			return fmt.Errorf("%s: %w (what the programs wrote is in %s)", s.title, err, c.work)
		}
		fmt.Printf("    %.1f s\n", time.Since(began).Seconds())
	}
	return nil
}

func (c *check) end() { c.endFrom(0) }

func (c *check) endFrom(n int) {
	for _, p := range c.started[min(n, len(c.started)):] {
		p.kill()
	}
	c.started = c.started[:min(n, len(c.started))]
}
