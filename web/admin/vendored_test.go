package admin

import (
	"strings"
	"testing"
)

// The list of others' files is what their terms say.
func TestVendored(t *testing.T) {
	terms, err := assetFiles.ReadFile("assets/vendored.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Vendored() {
		if !strings.Contains(string(terms), a.SHA256) || !strings.Contains(string(terms), a.Name+" "+a.Version) {
			t.Errorf("vendored.txt does not have %+v", a)
		}
	}
}
