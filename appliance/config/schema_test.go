package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write schema.json and CONFIG.md anew")

// The schema and the reference page are what the program says now: go test
// ./appliance/config -run TestGenerated -update writes them.
func TestGenerated(t *testing.T) {
	schema, err := MakeSchema([]byte(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"schema.json": schema, "../../CONFIG.md": []byte(Reference([]byte(sample(t))))} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not current (%v): go test ./appliance/config -run TestGenerated -update", path, err)
		}
	}
}

// Every key is explained, and its default is a value of it.
func TestKeysAreKnown(t *testing.T) {
	for _, k := range Keys([]byte(sample(t))) {
		if k.Doc == "" && k.Type != TypeTable && k.Type != TypeTables {
			t.Errorf("the sample does not explain %s", k.Path)
		}
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	made, err := MakeSchema([]byte(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(made))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The schema takes what the program takes, and refuses what it refuses by kind,
// choice, bound and name.
func TestSchemaAgrees(t *testing.T) {
	s := schema(t)
	all := commentedKey.ReplaceAllString(sample(t), "$1")
	wire, err := os.ReadFile("../../testdata/wire.toml")
	if err != nil {
		t.Fatal(err)
	}
	full, err := Parse("x", []byte(all))
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"", sample(t), all, string(wire), full.Text()} {
		if err := s.Validate(asJSON(t, good)); err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	for _, bad := range []string{
		"[server]\nlistn = \"a\"", "[server]\nmax_body = 5", "[server]\nmax_body = \"5 potatoes\"", "[log]\nlevel = \"loud\"", "[server]\nidle_timeout = \"soon\"",
		"[server]\nmax_requests = -1", "[[tenant]]\nmodels = []", "[[tenant]]\nname = \"a\"\neffects = [\"x\"]", "[[tenant]]\nname = \"a\"\n[[tenant.budget]]\nperiod = \"week\"",
		"[[price]]\nmodel = \"m\"\ninput_usd_per_m = \"cheap\"", "[[upstream]]\nname = \"a\"\nkind = \"opnai\"", "[[rule]]\nname = \"a\"\nkind = \"odd\"", "[[route]]\nsplit = \"ordered\"",
		"[[identity]]\nname = \"a\"\nkind = \"odd\"", "[server]\nlisten = true", "tenant = 1",
	} {
		if err := s.Validate(asJSON(t, bad)); err == nil {
			t.Errorf("the schema takes %q", bad)
		}
		if _, err := Parse("x", []byte(bad)); err == nil {
			t.Errorf("the program takes %q", bad)
		}
	}
}

func TestReferenceIsWhole(t *testing.T) {
	page := Reference([]byte(sample(t)))
	for _, want := range []string{
		"## `[server]`", "## `[[tenant.budget]]`", "| `max_body` | size | `\"20MiB\"` | 1KiB to 1GiB | Largest request body. |",
		"| `level` | text | `\"info\"` | `\"debug\"` `\"info\"` `\"warn\"` `\"error\"` |", "| `period` | text | required | `\"day\"` `\"month\"` `\"total\"` |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}
