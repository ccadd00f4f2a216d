// Hearth serves language models from one file: its own inference engine behind
// TLS, keys, limits and budgets with a durable ledger. See README.md.
package main

import (
	_ "embed"
	"os"

	"hearth/appliance"
)

// sample is the commented configuration that a first start writes.
//
//go:embed appliance.toml
var sample []byte

func main() {
	os.Exit(appliance.Main(os.Args[1:], appliance.Process(sample)))
}
