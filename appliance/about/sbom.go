package about

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
)

// Part is something in the program that is no Go module: a model, an asset.
type Part struct {
	Kind    string // of CycloneDX: "machine-learning-model", "library", "file"
	Name    string
	Version string
	PURL    string
	SHA256  string // hex
	Licence string // SPDX
	Note    string
}

// The parts of a document that are used, by the names of CycloneDX 1.6.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp,omitempty"`
		Component component `json:"component"`
	}
	component struct {
		Type        string        `json:"type"`
		Ref         string        `json:"bom-ref"`
		Name        string        `json:"name"`
		Version     string        `json:"version,omitempty"`
		Description string        `json:"description,omitempty"`
		Scope       string        `json:"scope,omitempty"`
		Hashes      []hashValue   `json:"hashes,omitempty"`
		Licenses    []licenceOf   `json:"licenses,omitempty"`
		PURL        string        `json:"purl,omitempty"`
		References  []external    `json:"externalReferences,omitempty"`
		Properties  []nameAndText `json:"properties,omitempty"`
	}
	hashValue struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licenceOf struct {
		Licence    *licenceID `json:"license,omitempty"`
		Expression string     `json:"expression,omitempty"`
	}
	licenceID struct {
		ID   string `json:"id,omitempty"`
		Name string `json:"name,omitempty"`
	}
	external struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	nameAndText struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

// SBOM writes the bill of materials of a program with that build information, as
// CycloneDX 1.6 JSON. The same build gives the same bytes.
func SBOM(version string, info *debug.BuildInfo, parts []Part) ([]byte, error) {
	licences, err := Licences()
	if err != nil {
		return nil, err
	}
	of := map[string]string{}
	for _, l := range licences {
		of[l.Module] = l.ID
	}
	revision, built := "", ""
	var settings []nameAndText
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.time":
			built = s.Value
		}
		if !strings.HasPrefix(s.Key, "-") { // flags may name folders of the one who built it
			settings = append(settings, nameAndText{"golang:build:" + s.Key, s.Value})
		}
	}
	root := component{Type: "application", Ref: "pkg:golang/hearth@" + url.PathEscape(version), Name: "hearth", Version: version,
		Licenses: terms(of["hearth"]), Properties: settings}
	root.PURL = root.Ref
	b := bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: built, Component: root}, Components: []component{}}
	add := func(c component) { b.Components = append(b.Components, c) }
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(moduleOf(m, of[m.Path]))
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add(component{Type: "library", Ref: "pkg:golang/std@" + goVersion, Name: "std", Version: goVersion, Description: "the Go standard library and runtime",
		Scope: "required", PURL: "pkg:golang/std@" + goVersion, Licenses: terms(of["std"])})
	for _, p := range parts {
		add(p.component())
	}
	d := dependency{Ref: root.Ref}
	for i := range b.Components {
		d.On = append(d.On, b.Components[i].Ref)
	}
	b.Dependencies = []dependency{d}
	b.Serial = serial(version, revision, b.Components)
	return json.MarshalIndent(&b, "", "  ")
}

func moduleOf(m *debug.Module, licence string) component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, Scope: "required", PURL: purl, Licenses: terms(licence)}
	if m.Sum != "" { // of the module's files, as in go.sum; no hash of one file
		c.Properties = []nameAndText{{"golang:sum", m.Sum}}
	}
	if strings.HasPrefix(m.Path, "github.com/") {
		c.References = []external{{"vcs", "https://" + strings.Join(strings.Split(m.Path, "/")[:3], "/")}}
	}
	return c
}

func (p *Part) component() component {
	c := component{Type: p.Kind, Name: p.Name, Version: p.Version, PURL: p.PURL, Description: p.Note, Scope: "required", Licenses: terms(p.Licence)}
	if c.Ref = p.PURL; c.Ref == "" {
		c.Ref = "embedded/" + p.Name
	}
	if p.SHA256 != "" {
		c.Hashes = []hashValue{{"SHA-256", p.SHA256}}
	}
	return c
}

// terms is how a licence is written: an identifier, or an expression of several.
func terms(id string) []licenceOf {
	switch {
	case id == "":
		return nil
	case strings.Contains(id, " "):
		return []licenceOf{{Expression: id}}
	}
	return []licenceOf{{Licence: &licenceID{ID: id}}}
}

// serial is a UUID of version 8 (RFC 9562) that is the same for the same build.
func serial(version, revision string, cs []component) string {
	h := sha256.New()
	fmt.Fprintf(h, "hearth\x00%s\x00%s\x00", version, revision)
	for i := range cs {
		fmt.Fprintf(h, "%s\x00", cs[i].Ref)
	}
	u := h.Sum(nil)[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	s := hex.EncodeToString(u)
	return "urn:uuid:" + s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
