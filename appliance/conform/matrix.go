package conform

import (
	"fmt"
	"strings"
)

// Cell counts the outcomes of one adapter in one inbound dialect.
type Cell struct{ Passed, Refused, Failed int }

// Add counts an outcome.
func (c *Cell) Add(o Outcome) {
	switch o.Result {
	case Passed:
		c.Passed++
	case Refused:
		c.Refused++
	default:
		c.Failed++
	}
}

func (c *Cell) String() string {
	all := c.Passed + c.Refused + c.Failed
	if all == 0 {
		return "–"
	}
	s := fmt.Sprintf("%d/%d", c.Passed+c.Refused, all)
	if c.Refused > 0 {
		s += fmt.Sprintf(" (%d)", c.Refused)
	}
	return s
}

// Row is one adapter of the matrix.
type Row struct {
	Adapter string
	Speaks  string // the provider's dialects that were seen
	Cells   map[string]*Cell
}

// Matrix writes the page of what passed: adapters by inbound dialects, and the
// families of the corpus.
func Matrix(fs []Family, rows []Row) string {
	var b strings.Builder
	b.WriteString(`# Conformance

Written by ` + "`go test ./appliance/conform -update`" + `; the same test fails when this page is not what it finds, with ` + "`-whole`" + ` to the last number.

Every case of the corpus (` + "`appliance/conform/corpus`" + `) is put to the gateway in every inbound dialect that can write it, with a scripted
provider behind each adapter, whole and streamed. A cell is *passed/asked*; in brackets how many of the passed were refused or reported as a loss because the provider has no
word for what was asked, which those cases allow. ` + "`hearth conform`" + ` puts the part that any model can pass to a real provider.

| adapter | provider's dialect |`)
	for _, d := range Inbound {
		b.WriteString(" " + d + " |")
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(Inbound)) + "\n")
	var sum Cell
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |", r.Adapter, r.Speaks)
		for _, d := range Inbound {
			c := r.Cells[d]
			if c == nil {
				c = &Cell{}
			}
			fmt.Fprintf(&b, " %s |", c)
			sum.Passed, sum.Refused, sum.Failed = sum.Passed+c.Passed, sum.Refused+c.Refused, sum.Failed+c.Failed
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nTogether: %s.\n\n| family | cases | about |\n| --- | --- | --- |\n", &sum)
	for _, f := range fs {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", f.Name, len(f.Cases), f.About)
	}
	return b.String()
}
