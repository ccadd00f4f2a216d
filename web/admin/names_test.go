package admin

import (
	"os"
	"strings"
	"testing"
)

// What pages read, post to and download is there under that name: the table of
// access, which the appliance's own test holds to its operations, has it.
func TestPagesNameWhatIsThere(t *testing.T) {
	table, err := os.ReadFile("../../appliance/testdata/access.txt")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 2 {
			there[f[2]] = true
		}
	}
	reads, changes := usedOperations(t)
	for name := range reads {
		if !there[name] {
			t.Errorf("a page reads %s, which there is not", name)
		}
	}
	for name := range changes {
		if !there[name] {
			t.Errorf("a page names %s, which there is not", name)
		}
	}
}
