package admin

import "strings"

// diffLine is one line of a unified diff. Kind is "+", "-" or a blank.
type diffLine struct{ Kind, Text string }

// diffLines cuts a unified diff into lines, for templates.
func diffLines(v any) []diffLine {
	text, _ := v.(string)
	var out []diffLine
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		kind := " "
		if !strings.HasPrefix(l, "+++") && !strings.HasPrefix(l, "---") && l != "" && (l[0] == '+' || l[0] == '-') {
			kind = l[:1]
		}
		out = append(out, diffLine{kind, l})
	}
	return out
}

// firstLine is the first line of a message, and furtherLines what follows it: the
// difference that a refusal of a configuration tells.
func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

func furtherLines(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}
