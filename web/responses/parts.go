package responses

import (
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// parts reads content: a text, or parts.
func (d *decoder) parts(v jsonread.Value, assistant bool) ([]infer.Part, error) {
	switch v.Kind() {
	case jsonread.String:
		s, err := v.Str()
		return []infer.Part{{Type: "text", Text: s}}, err
	case jsonread.Null:
		return nil, nil
	case jsonread.Array:
		var out []infer.Part
		err := v.Items(maxParts, func(_ int, m jsonread.Value) error {
			p, ok, err := d.part(m)
			if ok {
				out = append(out, p)
			}
			return err
		})
		return out, err
	}
	return nil, v.Wrong("a text or an array of parts")
}

// part reads one part; ok is false for one that is noted and not carried.
func (d *decoder) part(v jsonread.Value) (p infer.Part, ok bool, err error) {
	tv, found := v.Get("type")
	if !found {
		return p, false, v.Errorf("cannot use %s: wanted a part with a type", v.Path())
	}
	kind, err := tv.Str()
	if err != nil {
		return p, false, err
	}
	switch kind {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		p.Type = "text"
		err = v.Members(func(key string, m jsonread.Value) error { return d.textMember(&p, key, m) })
	case "refusal":
		p.Type = "text"
		d.use(infer.FeatureRefusalPart, kindPath(v, "refusal"))
		err = d.members(v, map[string]*string{"refusal": &p.Text}, nil)
	case "input_image":
		return d.image(v)
	case "input_file":
		return d.file(v)
	case "input_audio":
		return d.audio(v)
	default:
		return p, false, d.unknown(v)
	}
	return p, true, err
}

func (d *decoder) textMember(p *infer.Part, key string, m jsonread.Value) (err error) {
	switch key {
	case "type", "logprobs":
		return nil
	case "text":
		p.Text, err = m.Str()
		return err
	case "annotations":
		if m.Kind() == jsonread.Array && !m.Empty() {
			d.use(infer.FeatureCitations, m.Path())
		}
		return nil
	case "prompt_cache_breakpoint":
		d.breakpoint(p, m)
		return nil
	}
	return d.unknown(m)
}

func (d *decoder) breakpoint(p *infer.Part, m jsonread.Value) {
	if !m.IsNull() {
		p.Cache = "5m"
		d.use(infer.FeatureCacheBreakpoint, m.Path())
	}
}

// members reads string members into dst; p may have a cache breakpoint.
func (d *decoder) members(v jsonread.Value, dst map[string]*string, p *infer.Part) error {
	return v.Members(func(key string, m jsonread.Value) (err error) {
		switch s, ok := dst[key]; {
		case key == "type" || m.IsNull():
		case ok:
			*s, err = m.Str()
		case key == "prompt_cache_breakpoint" && p != nil:
			d.breakpoint(p, m)
		default:
			return d.unknown(m)
		}
		return err
	})
}

// image reads an image by URL, as data, or by the id of a file at the provider.
func (d *decoder) image(v jsonread.Value) (p infer.Part, ok bool, err error) {
	p.Type = "image"
	var url, id string
	if err = d.members(v, map[string]*string{"image_url": &url, "file_id": &id, "detail": &p.Detail}, &p); err != nil {
		return p, false, err
	}
	if p.Detail == "auto" {
		p.Detail = ""
	}
	if p.Detail != "" {
		d.use(infer.FeatureImageDetail, v.Path()+".detail")
	}
	switch {
	case strings.HasPrefix(url, "data:"):
		d.use(infer.FeatureImageData, kindPath(v, "input_image"))
		p.MIME, p.Data, err = dataURL(v, url)
		return p, err == nil, err
	case strings.HasPrefix(url, "https://"), strings.HasPrefix(url, "http://"):
		d.use(infer.FeatureImageURL, kindPath(v, "input_image"))
		p.URL = url
		return p, true, nil
	case url != "":
		return p, false, v.Errorf("cannot use %s: wanted an https: URL or a data: URL in base64", v.Path()+".image_url")
	case id != "":
		d.own(infer.FeatureFile, kindPath(v, "input_image")+".file_id")
		return p, false, nil
	}
	return p, false, v.Errorf("cannot use %s: got neither image_url nor file_id", v.Path())
}

// file reads a document as data, by URL or by id.
func (d *decoder) file(v jsonread.Value) (p infer.Part, ok bool, err error) {
	p.Type = "file"
	var data, url, id, detail string
	err = d.members(v, map[string]*string{"file_data": &data, "file_url": &url, "file_id": &id, "filename": &p.Name, "detail": &detail}, &p)
	if err != nil {
		return p, false, err
	}
	if detail != "" && detail != "auto" {
		d.use(infer.FeatureImageDetail, v.Path()+".detail")
	}
	switch {
	case data != "":
		d.use(infer.FeatureFile, kindPath(v, "input_file"))
	case url != "":
		d.use(infer.FeatureFileURL, kindPath(v, "input_file")+".file_url")
	case id != "":
		d.own(infer.FeatureFile, kindPath(v, "input_file")+".file_id")
	}
	switch {
	case strings.HasPrefix(data, "data:"):
		p.MIME, p.Data, err = dataURL(v, data)
	case data != "":
		p.MIME = "application/pdf" // what the API takes bare
		p.Data, err = decodeBase64(v, data)
	case url != "":
		p.URL = url
	case id != "":
		return p, false, nil
	default:
		err = v.Errorf("cannot use %s: got none of file_data, file_url and file_id", v.Path())
	}
	return p, err == nil, err
}

// audio reads {"input_audio": {"data", "format"}}.
func (d *decoder) audio(v jsonread.Value) (p infer.Part, ok bool, err error) {
	p.Type = "audio"
	d.use(infer.FeatureAudio, kindPath(v, "input_audio"))
	av, found := v.Get("input_audio")
	if !found {
		av = v
	}
	var data, format string
	err = av.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "data":
			data, err = m.Str()
		case "format":
			format, err = label(m)
		}
		return err
	})
	if err == nil {
		p.Data, err = decodeBase64(v, data)
	}
	p.MIME = "audio/" + format
	return p, err == nil, err
}

// dataURL reads data:MIME;base64,DATA (RFC 2397).
func dataURL(v jsonread.Value, s string) (mime string, data []byte, err error) {
	head, body, ok := strings.Cut(s, ",")
	mime, isBase64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	if !ok || !isBase64 || mime == "" || len(mime) > 128 {
		return "", nil, v.Errorf("cannot use %s: wanted a data: URL with a type, in base64", v.Path())
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
