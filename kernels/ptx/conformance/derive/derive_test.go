package derive

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the data anew")

// encode writes one case a line, so that differences can be read.
func encode(t *testing.T, cases any) []byte {
	t.Helper()
	b, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, c := range list {
		out.Write(c)
		if i < len(list)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return out.Bytes()
}

// The data are what this package derives.
func TestData(t *testing.T) {
	dir := filepath.Join("..", "data")
	names := map[string]bool{}
	for name, cases := range Families() {
		for _, c := range cases {
			if names[c.Name] {
				t.Errorf("two cases are named %s", c.Name)
			}
			names[c.Name] = true
		}
		file := filepath.Join(dir, name+".json")
		want := encode(t, cases)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is derived (%v): go test ./kernels/ptx/conformance/derive -update", file, err)
		}
	}
}
