package artifact

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// choice is the model found in a source and what of it is installed.
type choice struct {
	name  string            // that the source suggests, not yet fit for a folder
	path  string            // for Manifest.Path
	files map[string]string // entry → name in the model's folder
	card  string            // entry of a model card, "" if none
	wheel string            // entry of a wheel's METADATA, "" if none
	texts []string          // entries of licence texts
	bytes int64             // of all of these, as claimed
}

var (
	partName  = regexp.MustCompile(`^(.+)-(\d{5})-of-(\d{5})\.gguf$`)
	shardName = regexp.MustCompile(`^model-\d{5}-of-\d{5}\.safetensors$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)
)

// directoryFiles are the files of a safetensors directory that are installed,
// besides weights and named templates.
var directoryFiles = []string{
	"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"chat_template.json", "chat_template.jinja", "1_Pooling/config.json", "model.safetensors.index.json", "README.md",
}

const (
	maxSideFile     = 1 << 20 // a licence text, model card or METADATA
	maxLicenceTexts = 16
)

// samePart tells whether two file names are parts of one split model.
func samePart(a, b string) bool {
	ma, mb := partName.FindStringSubmatch(a), partName.FindStringSubmatch(b)
	return a == b || ma != nil && mb != nil && ma[1] == mb[1] && ma[3] == mb[3]
}

// choose finds the one model among the files of a source. A file that single
// names is a GGUF file whatever it is called.
func choose(all []entry, single string) (*choice, error) {
	has := make(map[string]bool, len(all))
	for _, e := range all {
		has[e.name] = true
	}
	var found []*choice
	var names []string
	for _, e := range all {
		dir, base := path.Split(e.name)
		part := partName.FindStringSubmatch(base)
		var c *choice
		switch {
		case single != "" && single != e.name:
			continue
		case single != "" || strings.EqualFold(path.Ext(base), ".gguf") && (part == nil || part[2] == "00001"):
			c = chooseGGUF(all, dir, base)
		case base == "config.json" && (has[dir+"model.safetensors"] || has[dir+"model.safetensors.index.json"]):
			c = chooseDirectory(all, dir)
		default:
			continue
		}
		found, names = append(found, c), append(names, e.name)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no model in it: wanted a .gguf file, or config.json with model.safetensors or its index")
	}
	if len(found) > 1 {
		n := len(names)
		if n > 5 {
			names = append(names[:5], "…")
		}
		return nil, fmt.Errorf("%d models in it, wanted one: %s", n, strings.Join(names, ", "))
	}
	c := found[0]
	c.beside(all)
	return c, nil
}

func chooseGGUF(all []entry, dir, base string) *choice {
	c := &choice{name: strings.TrimSuffix(base, path.Ext(base)), files: map[string]string{}}
	if m := partName.FindStringSubmatch(base); m != nil {
		c.name = m[1]
		for _, e := range all {
			d, b := path.Split(e.name)
			if d == dir && samePart(base, b) {
				c.files[e.name] = "model" + strings.TrimPrefix(b, m[1])
				c.bytes += e.size
			}
		}
		c.path = "model" + strings.TrimPrefix(base, m[1])
		return c
	}
	c.path = "model.gguf"
	if plainName.MatchString(base) && strings.HasSuffix(base, ".gguf") {
		c.path = base
	}
	c.files[dir+base] = c.path
	for _, e := range all {
		if e.name == dir+base {
			c.bytes = e.size
		}
	}
	return c
}

func chooseDirectory(all []entry, dir string) *choice {
	c := &choice{name: path.Base(path.Clean(dir)), path: ".", files: map[string]string{}}
	if dir == "" {
		c.name = ""
	}
	single := slices.ContainsFunc(all, func(e entry) bool { return e.name == dir+"model.safetensors" })
	for _, e := range all {
		rel, ok := strings.CutPrefix(e.name, dir)
		if !ok {
			continue
		}
		sub, base := path.Split(rel)
		template := sub == "additional_chat_templates/" && path.Ext(base) == ".jinja" && plainName.MatchString(base)
		weights := rel == "model.safetensors" || !single && shardName.MatchString(rel)
		if template || weights || slices.Contains(directoryFiles, rel) && !(single && rel == "model.safetensors.index.json") {
			c.files[e.name] = rel
			c.bytes += e.size
		}
	}
	return c
}

// beside notes what says the model's terms.
func (c *choice) beside(all []entry) {
	for _, e := range all {
		dir, base := path.Split(e.name)
		upper := strings.ToUpper(base)
		switch {
		case e.size > maxSideFile:
		case base == "README.md" && c.card == "":
			c.card = e.name
		case base == "METADATA" && strings.HasSuffix(path.Clean(dir), ".dist-info") && c.wheel == "":
			c.wheel = e.name
		case isLicence(upper) && len(c.texts) < maxLicenceTexts:
			c.texts = append(c.texts, e.name)
			c.bytes += e.size
		}
	}
	for i, name := range c.texts {
		base := path.Base(name)
		if !plainName.MatchString(base) {
			base = "LICENSE"
		}
		if slices.ContainsFunc(c.texts[:i], func(other string) bool { return path.Base(other) == base }) || !plainName.MatchString(path.Base(name)) {
			base = fmt.Sprintf("%d-%s", i, base)
		}
		c.files[name] = "licences/" + base
	}
}

func isLicence(upper string) bool {
	for _, p := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "USE_POLICY"} {
		if strings.HasPrefix(upper, p) {
			return true
		}
	}
	return false
}
