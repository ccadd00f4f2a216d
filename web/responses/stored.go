package responses

import (
	"bytes"
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// Status is the status of a stored response object.
func Status(body []byte) string {
	var c jsonread.Cursor
	c.Reset(body)
	for c.Object(); c.More(); {
		if string(c.Key()) == "status" {
			return c.Str()
		}
		c.Skip()
	}
	return ""
}

// Open tells whether a stored response has not come to an end.
func Open(body []byte) bool {
	s := Status(body)
	return s == Queued || s == Running
}

// Background tells whether a stored response was run in the background.
func Background(body []byte) bool {
	var c jsonread.Cursor
	c.Reset(body)
	for c.Object(); c.More(); {
		if string(c.Key()) == "background" {
			return c.True()
		}
		c.Skip()
	}
	return false
}

// Failed is a stored response that did not come to an end by itself.
func Failed(body []byte, e *infer.Error) []byte {
	out, ok := wire.Splice(body, []wire.Member{
		{Name: "status", Value: []byte(`"failed"`)}, {Name: "error", Value: appendFailure(nil, e)},
	}, nil)
	if !ok {
		return body
	}
	return out
}

// Renamed is a provider's response object under an id of ours.
func Renamed(body []byte, id string) []byte {
	out, ok := wire.Splice(body, []wire.Member{
		{Name: "id", Value: jsonwrite.String(nil, id)}, {Name: "background", Value: []byte("true")},
	}, nil)
	if !ok {
		return body
	}
	return out
}

// Output gives the output items of a stored response object.
func Output(body []byte) [][]byte {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err != nil {
		return nil
	}
	out, ok := v.Get("output")
	if !ok {
		return nil
	}
	return split(out)
}

// Items splits a stored array of items.
func Items(list []byte) [][]byte {
	v, err := jsonread.Parse(list, jsonread.Limits{})
	if err != nil {
		return nil
	}
	return split(v)
}

func split(v jsonread.Value) [][]byte {
	var out [][]byte
	if v.Kind() == jsonread.Array {
		_ = v.Items(1<<30, func(_ int, m jsonread.Value) error {
			out = append(out, m.Raw())
			return nil
		})
	}
	return out
}

// Join makes an array of items, to be stored.
func Join(items [][]byte) []byte { return joinItems(items) }

// Page is which input items are asked for.
type Page struct {
	Limit     int // 1 to 100
	Ascending bool
	After     string // id of the last item seen
}

// List is a page of the input items of a response; CodeInvalid if After is none
// of them.
func (p Page) List(items [][]byte) ([]byte, error) {
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = itemIDOf(it)
	}
	if !p.Ascending {
		items = slices.Clone(items)
		slices.Reverse(items)
		slices.Reverse(ids)
	}
	from := 0
	if p.After != "" {
		if from = slices.Index(ids, p.After) + 1; from == 0 {
			return nil, infer.Invalid("after", "cannot list the items after one that is not there")
		}
	}
	to := min(len(items), from+p.Limit)
	dst := []byte(`{"object":"list","data":`)
	dst = append(dst, joinItems(items[from:to])...)
	first, last := []byte("null"), []byte("null")
	if to > from {
		first, last = jsonwrite.String(nil, ids[from]), jsonwrite.String(nil, ids[to-1])
	}
	dst = append(append(dst, `,"first_id":`...), first...)
	dst = append(append(dst, `,"last_id":`...), last...)
	dst = appendBool(append(dst, `,"has_more":`...), to < len(items))
	return append(dst, "}\n"...), nil
}

func itemIDOf(item []byte) string {
	var c jsonread.Cursor
	c.Reset(item)
	for c.Object(); c.More(); {
		if string(c.Key()) == "id" {
			return c.Str()
		}
		c.Skip()
	}
	return ""
}

// Deleted is the answer to a deletion.
func Deleted(id string) []byte {
	dst := jsonwrite.String([]byte(`{"id":`), id)
	return append(dst, `,"object":"response","deleted":true}`+"\n"...)
}

// InputTokens is the answer of the route that counts.
func InputTokens(n int) []byte {
	dst := jsonwrite.Int([]byte(`{"object":"response.input_tokens","input_tokens":`), int64(n))
	return append(dst, "}\n"...)
}

// OfFrame is the response object of a provider's last frame, which is an event
// of a stream or a whole answer.
func OfFrame(f *infer.Frame) []byte {
	if body := frameResponse(f.Data); body != nil {
		return body
	}
	return f.Data
}

// SkipFrames takes as many frames of the front as *n says, and counts them off.
func SkipFrames(frames []byte, n *int) []byte {
	for ; *n > 0 && len(frames) > 0; *n-- {
		at := bytes.Index(frames, []byte("\n\n"))
		if at < 0 {
			return nil
		}
		frames = frames[at+2:]
	}
	return frames
}
