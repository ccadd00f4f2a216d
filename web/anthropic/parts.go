package anthropic

import (
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// part reads a block that is text, an image or a document.
func (d *decoder) part(b jsonread.Value, kind string) (p infer.Part, known bool, err error) {
	switch kind {
	case "text":
		p, err = d.text(b)
	case "image":
		p, err = d.image(b)
	case "document":
		p, err = d.document(b)
	case "search_result":
		p, err = d.searchResult(b)
	default:
		return p, false, nil
	}
	return p, true, err
}

// common takes the members that every block may have.
func (d *decoder) common(p *infer.Part, key string, m jsonread.Value) (err error) {
	switch key {
	case "type":
		return nil
	case "cache_control":
		if p.Cache, err = cacheTTL(m); p.Cache != "" {
			d.use(infer.FeatureCacheBreakpoint, m.Path())
		}
		return err
	}
	d.unknown(m)
	return nil
}

func (d *decoder) text(b jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "text"}
	found := false
	err := b.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "text":
			found = true
			p.Text, err = m.Str()
			return err
		case "citations":
			if m.Kind() != jsonread.Array || !m.Empty() {
				d.use(infer.FeatureCitations, m.Path())
			}
			return nil
		}
		return d.common(&p, key, m)
	})
	if err == nil && !found {
		err = b.Errorf("cannot use %s: got no text", b.Path())
	}
	return p, err
}

func (d *decoder) image(b jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "image"}
	found := false
	err := b.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		if key != "source" {
			return d.common(&p, key, m)
		}
		found = true
		kind, err := d.source(&p, m)
		switch {
		case err != nil:
			return err
		case kind == "base64":
			d.use(infer.FeatureImageData, b.Path()+".image")
		case kind == "url":
			d.use(infer.FeatureImageURL, b.Path()+".image")
		default:
			d.use(infer.FeatureUnknown, b.Path()+".image.source")
		}
		return nil
	})
	if err == nil && !found {
		err = b.Errorf("cannot use %s: got no source", b.Path())
	}
	return p, err
}

// source reads where an image or a document comes from. A file at the provider
// and other kinds stay unread.
func (d *decoder) source(p *infer.Part, v jsonread.Value) (kind string, err error) {
	if kind, err = typeOf(v); err != nil {
		return "", err
	}
	get := func(key string) (s string) {
		if err == nil {
			s, err = member(v, key)
		}
		return s
	}
	switch kind {
	case "base64":
		p.MIME = get("media_type")
		data := get("data")
		if err != nil {
			return kind, err
		}
		if p.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
			return kind, v.Errorf("cannot use %s: its data is not base64", v.Path())
		}
	case "url":
		p.URL = get("url")
	case "text":
		p.MIME, p.Data = "text/plain", []byte(get("data"))
	case "content":
		return kind, d.sourceContent(p, v)
	}
	return kind, err
}

// sourceContent reads a document that is given as blocks: its text.
func (d *decoder) sourceContent(p *infer.Part, v jsonread.Value) error {
	c, ok := v.Get("content")
	if !ok {
		return v.Errorf("cannot use %s: got no content", v.Path())
	}
	p.MIME = "text/plain"
	if c.Kind() == jsonread.String {
		s, err := c.Str()
		p.Data = []byte(s)
		return err
	}
	text, err := d.textOf(c)
	p.Data = []byte(text)
	return err
}

// textOf joins the text blocks of an array, one a paragraph.
func (d *decoder) textOf(v jsonread.Value) (string, error) {
	var all []string
	err := v.Items(maxBlocks, func(_ int, b jsonread.Value) error {
		kind, err := typeOf(b)
		if err != nil {
			return err
		}
		if kind != "text" {
			d.use(infer.FeatureUnknown, b.Path())
			return nil
		}
		s, err := member(b, "text")
		all = append(all, s)
		return err
	})
	return strings.Join(all, "\n\n"), err
}

func (d *decoder) document(b jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "file"}
	found := false
	err := b.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "source":
			found = true
			kind, err := d.source(&p, m)
			switch {
			case err != nil:
				return err
			case kind == "url":
				d.use(infer.FeatureFileURL, b.Path()+".document")
			case kind == "base64" || kind == "text" || kind == "content":
				d.use(infer.FeatureFile, b.Path()+".document")
			default:
				d.use(infer.FeatureUnknown, b.Path()+".document.source")
			}
			return nil
		case "title":
			p.Name, err = m.Str()
			return err
		case "citations":
			return d.citations(m)
		case "context": // which no other dialect has
			d.use(infer.FeatureUnknown, b.Path()+".document.context")
			return nil
		}
		return d.common(&p, key, m)
	})
	if err == nil && !found {
		err = b.Errorf("cannot use %s: got no source", b.Path())
	}
	return p, err
}

// citations reads {"enabled":…}.
func (d *decoder) citations(v jsonread.Value) error {
	if v.Kind() != jsonread.Object {
		return v.Wrong("an object")
	}
	if on, ok := v.Get("enabled"); ok && string(on.Raw()) == "true" {
		d.use(infer.FeatureCitations, v.Path())
	}
	return nil
}

// searchResult reads a found passage as a document of plain text.
func (d *decoder) searchResult(b jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "file", MIME: "text/plain"}
	d.use(infer.FeatureFile, b.Path()+".search_result")
	var source, text string
	err := b.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "source":
			source, err = m.Str()
			return err
		case "title":
			p.Name, err = m.Str()
			return err
		case "content":
			text, err = d.textOf(m)
			return err
		case "citations":
			return d.citations(m)
		}
		return d.common(&p, key, m)
	})
	if source != "" {
		text = source + "\n\n" + text
	}
	p.Data = []byte(text)
	return p, err
}
