// Package config turns the one TOML file of the appliance into a value: decode
// strictly, fill in defaults, validate, in that order. Every fault of a file is
// reported at once, each with its line and key path. A Config is immutable
// after Parse; a reload makes a new one and swaps it whole.
package config

import (
	"fmt"
	"os"

	"github.com/BurntSushi/toml"

	"hearth/appliance/config/edit"
	"hearth/policy"
)

// MaxBytes bounds a configuration file; a real one has a few kilobytes.
const MaxBytes = edit.MaxBytes

// Config is the whole configuration. The field comments of each table say unit,
// default and what zero means; appliance.toml at the root says the same for
// operators, and a test keeps the two in step.
type Config struct {
	Server    Server    `toml:"server"`
	Admin     Admin     `toml:"admin"`
	TLS       TLS       `toml:"tls"`
	Library   Library   `toml:"library"`
	CUDA      CUDA      `toml:"cuda"`
	Models    []Model   `toml:"model"`
	Log       Log       `toml:"log"`
	Telemetry Telemetry `toml:"telemetry"`
	Drain     Drain     `toml:"drain"`
	Responses Responses `toml:"responses"`
	Backup    Backup    `toml:"backup"`

	Idempotency Idempotency `toml:"idempotency"`
	Media       Media       `toml:"media"`
	Retention   []Retention `toml:"retention"`

	// Identities are callers that are known by something else than a key.
	Identities []Identity `toml:"identity"`

	// Policy has [auth], [[tenant]], [[route]], [[price]] and the keys zone and
	// price_version, which stand above all tables.
	policy.Config
}

// Default is the configuration of an empty file: the embedded model, one
// tenant, loopback only.
func Default() *Config {
	c := &Config{}
	c.Server.setDefaults()
	c.Admin.setDefaults()
	c.TLS.setDefaults()
	c.Library.setDefaults()
	c.CUDA.setDefaults()
	c.Log.setDefaults()
	c.Telemetry.setDefaults()
	c.Drain.setDefaults()
	c.Responses.setDefaults()
	c.Backup.setDefaults()
	c.Idempotency.setDefaults()
	c.Media.setDefaults()
	c.fillEmpty()
	return c
}

// fillEmpty gives the tables that may be left out altogether.
func (c *Config) fillEmpty() {
	if len(c.Models) == 0 {
		c.Models = []Model{NewModel(EmbeddedModel, EmbeddedPath)}
	}
	c.Config.Defaults()
}

// Load reads and parses the file at path.
func Load(path string) (*Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Read gives the text of the file at path.
func Read(path string) ([]byte, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return data, nil
}

func readBounded(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if st.Size() > MaxBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", path, st.Size(), MaxBytes)
	}
	return os.ReadFile(path)
}

// Parse decodes data, which came from the file called name. The error is a
// *Faults that lists everything that is wrong.
func Parse(name string, data []byte) (*Config, error) {
	f := &Faults{File: name}
	if len(data) > MaxBytes {
		f.add("", "the text has %d bytes, at most %d are read", len(data), MaxBytes)
		return nil, f
	}
	if line, how := overgrown(data); line > 0 {
		f.List = append(f.List, Fault{Line: line, Message: how})
		return nil, f
	}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		f.addSyntax(err)
		return nil, f
	}
	f.lines = keyLines(data)
	c := Default()
	c.Models, c.Config = nil, policy.Config{}
	b := binder{faults: f}
	b.table("", tree, c)
	c.fillEmpty()
	bound := len(f.List)
	c.validate(f)
	f.dropEchoes(bound)
	if len(f.List) > 0 {
		f.sort()
		return nil, f
	}
	return c, nil
}
