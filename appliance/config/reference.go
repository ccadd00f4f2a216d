package config

import (
	"fmt"
	"regexp"
	"strings"
)

// Reference is a page about every key in Markdown, made of the structs, the checks
// and the sample.
func Reference(sample []byte) string {
	var b strings.Builder
	b.WriteString(`# Configuration reference

Every key of ` + "`appliance.toml`" + `, generated from the program: the structs it is read
into, the checks it must pass, and the comments of the sample. A key that is left
out has its default. ` + "`hearth config schema`" + ` prints the same as a JSON Schema for
editors; ` + "`hearth config check`" + ` tells every fault of a file at once.

Durations are text with units (` + "`\"30s\"`, `\"5m\"`, `\"24h\"`" + `), sizes too (` + "`\"20MiB\"`, `\"1GB\"`" + `),
amounts of money are decimal text in US dollars (` + "`\"25.00\"`" + `).
`)
	keys := Keys(sample)
	section(&b, keys, "", "Above all tables", "")
	for i := range keys {
		switch k := &keys[i]; k.Type {
		case TypeTable:
			section(&b, keys, k.Path+".", "["+strings.ReplaceAll(k.Path, "[]", "")+"]", k.Doc)
		case TypeTables:
			section(&b, keys, k.Path+".", "[["+strings.ReplaceAll(k.Path, "[]", "")+"]]", k.Doc)
		}
	}
	return b.String()
}

// section writes the table of keys that stand directly below prefix.
func section(b *strings.Builder, keys []Key, prefix, title, doc string) {
	if prefix != "" {
		title = "`" + title + "`"
	}
	fmt.Fprintf(b, "\n## %s\n", title)
	if doc != "" {
		fmt.Fprintf(b, "\n%s\n", prose(doc))
	}
	head := "\n| Key | Type | Default | Allowed | Meaning |\n|---|---|---|---|---|\n"
	last := ""
	for i := range keys {
		k := &keys[i]
		rest, ok := strings.CutPrefix(k.Path, prefix)
		if !ok || strings.ContainsAny(rest, ".[") || k.Type == TypeTable || k.Type == TypeTables {
			continue
		}
		b.WriteString(head)
		head = ""
		meaning := prose(k.Doc)
		if meaning == last && last != "" {
			meaning = "as above"
		} else {
			last = meaning
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.Name(), k.Type, cell(defaultText(k)), cell(allowed(k)), cell(meaning))
	}
}

func defaultText(k *Key) string {
	switch {
	case k.Required:
		return "required"
	case k.Default == nil:
		return "see there"
	}
	return "`" + literal(k.Default) + "`"
}

func allowed(k *Key) string {
	if k.Choices != nil {
		parts := make([]string, len(k.Choices))
		for i, c := range k.Choices {
			parts[i] = "`" + quote(c) + "`"
		}
		return strings.Join(parts, " ")
	}
	if k.Low == nil {
		return ""
	}
	s := fmt.Sprintf("%v to %v", k.Low, k.High)
	if k.Zero && fmt.Sprint(k.Low) != "0" && fmt.Sprint(k.Low) != "0s" {
		s += ", or 0"
	}
	return s
}

// prose joins the lines of a comment; lines that are indented stay their own.
func prose(doc string) string {
	return strings.Join(strings.Fields(doc), " ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// KeysAt gives the key or the table at a path, written with or without brackets,
// and what is in it.
func KeysAt(keys []Key, path string) []Key {
	at := withoutBrackets(path)
	var out []Key
	for _, k := range keys {
		if p := withoutBrackets(k.Path); p == at || strings.HasPrefix(p, at+".") {
			out = append(out, k)
		}
	}
	return out
}

var bracketed = regexp.MustCompile(`\[[^\]]*\]`)

func withoutBrackets(path string) string { return bracketed.ReplaceAllString(path, "") }

// Text tells a key in a few lines.
func (k *Key) Text() string {
	s := k.Path + ": " + k.Type
	if k.Type != TypeTable && k.Type != TypeTables {
		s += ", default " + strings.Trim(defaultText(k), "`")
	}
	if a := allowed(k); a != "" {
		s += ", allowed " + strings.ReplaceAll(a, "`", "")
	}
	s += "\n"
	for _, l := range strings.Split(k.Doc, "\n") {
		s += "    " + l + "\n"
	}
	return s
}
