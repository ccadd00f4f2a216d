package openai

import (
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// part reads one part of a message. The zero Part, noted, stands for one that has
// no form here.
func (t *turn) part(v jsonread.Value) (infer.Part, error) {
	tv, ok := v.Get("type")
	if !ok {
		if v.Kind() != jsonread.Object {
			return infer.Part{}, v.Wrong("a part, which is an object")
		}
		return infer.Part{}, v.Errorf("cannot use %s: got no type", v.Path())
	}
	kinds := []string{"text"}
	switch t.role {
	case "user":
		kinds = []string{"text", "image_url", "input_audio", "file"}
	case "assistant":
		kinds = []string{"text", "refusal"}
	case "tool", "function":
		kinds = []string{"text", "image_url"}
	}
	kind, err := tv.Enum(kinds...)
	if err != nil {
		if tv.Kind() != jsonread.String {
			return infer.Part{}, err
		}
		f := infer.FeatureUnknown
		if word, _ := tv.Str(); word == "video_url" || word == "input_video" {
			f = infer.FeatureVideo
		}
		return infer.Part{}, t.d.lost(f, tv, infer.AsError(err))
	}
	arg, mark := (*jsonread.Value)(nil), ""
	err = v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "type":
		case "cache_control":
			mark, err = t.d.cacheMark(m)
			return err
		case kind:
			arg = &m
		case "annotations", "prompt_cache_breakpoint":
			if !m.IsNull() && (m.Kind() != jsonread.Array || !m.Empty()) {
				return t.d.unknown(m)
			}
		default:
			return t.d.unknown(m)
		}
		return nil
	})
	if err == nil && arg == nil {
		err = v.Errorf("cannot use %s: got no %s", v.Path(), kind)
	}
	if err != nil {
		return infer.Part{}, err
	}
	p, err := t.d.partOf(kind, *arg, t.m.Role == infer.RoleTool || t.role == "function")
	if p.Type != "" {
		p.Cache = mark
	}
	return p, err
}

// partOf reads the member of a part that its type names, and notes what it is;
// result says that a tool gave it.
func (d *decoder) partOf(kind string, v jsonread.Value, result bool) (infer.Part, error) {
	switch kind {
	case "image_url":
		p, err := d.imagePart(v)
		switch {
		case err != nil || p.Type == "":
		case result:
			d.use(infer.FeatureToolResultMedia, v)
		case p.URL != "":
			d.use(infer.FeatureImageURL, v)
		default:
			d.use(infer.FeatureImageData, v)
		}
		return p, err
	case "input_audio":
		return d.audioPart(v)
	case "file":
		return d.filePart(v)
	case "refusal":
		d.use(infer.FeatureRefusalPart, v)
	}
	s, err := v.Str()
	return infer.Part{Type: "text", Text: s}, err
}

func (d *decoder) imagePart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "image"}
	var url *jsonread.Value
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "url":
			url = &m
			return nil
		case "detail":
			if m.IsNull() {
				return nil
			}
			word, err := m.Enum("auto", "low", "high", "original")
			if err != nil {
				return d.beyond(m, err)
			}
			if word != "auto" {
				p.Detail = word
				d.use(infer.FeatureImageDetail, m)
			}
			return nil
		}
		return d.unknown(m)
	})
	if err == nil && url == nil {
		err = v.Errorf("cannot use %s: got no url", v.Path())
	}
	if err != nil {
		return p, err
	}
	s, err := url.Str()
	if err != nil {
		return p, err
	}
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		p.URL = s
		return p, nil
	}
	p.MIME, p.Data, err = dataURL(*url, s)
	return p, err
}

func (d *decoder) audioPart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "audio"}
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "data":
			var s string
			if s, err = m.Str(); err == nil {
				p.Data, err = decodeBase64(m, s)
			}
			return err
		case "format":
			f, err := m.Str()
			if err != nil || f == "" || len(f) > 32 || !validName(f) {
				return m.Wrong("the name of a format, for instance wav or mp3")
			}
			p.MIME = "audio/" + f
			return nil
		}
		return d.unknown(m)
	})
	if err == nil && (p.Data == nil || p.MIME == "") {
		err = v.Errorf("cannot use %s: wanted data and format", v.Path())
	}
	if err == nil {
		d.use(infer.FeatureAudio, v)
	}
	return p, err
}

// filePart reads a document with its data, or by the id that it has at the
// provider: that id has no form here.
func (d *decoder) filePart(v jsonread.Value) (infer.Part, error) {
	p := infer.Part{Type: "file"}
	stored := false
	err := v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "file_data":
			s, err := m.Str()
			if err == nil {
				p.MIME, p.Data, err = dataURL(m, s)
			}
			return err
		case "filename":
			return setString(&p.Name, m, maxSalt)
		case "file_id":
			if m.IsNull() {
				return nil
			}
			stored = true
			return d.lost(infer.FeatureUnknown, m, m.Unsupported("cannot use %s: no files are stored here, wanted file_data", m.Path()))
		}
		return d.unknown(m)
	})
	switch {
	case err != nil:
		return infer.Part{}, err
	case p.Data != nil:
		d.use(infer.FeatureFile, v)
		return p, nil
	case stored:
		return infer.Part{}, nil
	}
	return infer.Part{}, v.Errorf("cannot use %s: got no file_data", v.Path())
}

// dataURL reads data:MIME;base64,DATA (RFC 2397).
func dataURL(v jsonread.Value, s string) (mime string, data []byte, err error) {
	head, body, ok := strings.Cut(s, ",")
	mime, isData := strings.CutPrefix(head, "data:")
	mime, isBase64 := strings.CutSuffix(mime, ";base64")
	if !ok || !isData || !isBase64 || mime == "" || len(mime) > 128 {
		return "", nil, v.Wrong("an https: URL or a data: URL in base64")
	}
	data, err = decodeBase64(v, body)
	return mime, data, err
}

func decodeBase64(v jsonread.Value, s string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(data) == 0 {
		return nil, v.Errorf("cannot use %s: its base64 is broken or empty", v.Path())
	}
	return data, nil
}
