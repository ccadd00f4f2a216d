package openai

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestProfilesDocument holds PROFILES.md to be what the table says.
func TestProfilesDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Servers that speak OpenAI's dialect\n\n")
	b.WriteString("Made from the table in the code; `go test ./web/openai -run Profiles -update` rewrites it. A request that came in the same dialect is sent as it came;\n")
	b.WriteString("what is below concerns requests of other dialects, and how answers are read.\n")
	for i := range profiles {
		p := &profiles[i]
		fmt.Fprintf(&b, "\n## %s: %s\n\n| what differs | what is done | source |\n| --- | --- | --- |\n", p.name, p.about)
		for _, d := range p.departures {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Fact, d.Done, d.Source)
		}
		b.WriteString("\nClasses that differ from OpenAI's own:")
		n := 0
		for _, f := range slices.Sorted(maps.Keys(p.classes)) {
			if c := p.class(f); c != profiles[0].class(f) {
				fmt.Fprintf(&b, "%s %s %s", map[bool]string{true: ",", false: ""}[n > 0], f, c)
				if name := p.extra[f]; name != "" {
					fmt.Fprintf(&b, " (`%s`)", name)
				}
				n++
			}
		}
		if n == 0 {
			b.WriteString(" none")
		}
		b.WriteString(".\n")
	}
	golden(t, "../PROFILES.md", []byte(b.String()))
}
