package anthropic

import (
	"bytes"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// DecodeAnswer implements wire.Client.
func (Client) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	d := &answerDecoder{r: r, native: o.Native && !o.Stream, usage: noCounts()}
	var kind, reason, sequence string
	var content []byte
	c := &d.c
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, malformed("an answer that is no JSON object")
	}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "type":
			kind = c.Str()
		case "content":
			content = c.Raw()
		case "stop_reason":
			reason = c.Str()
		case "stop_sequence":
			sequence = c.Str()
		case "usage":
			d.usage.merge(c)
		default:
			c.Skip()
		}
	}
	if !c.End() {
		return nil, malformed("an answer that is no JSON")
	}
	if kind != "message" || content == nil || reason == "" {
		if f, ok := readFault(body); ok && kind != "message" {
			return nil, f.inBand()
		}
		return nil, malformed("an answer that is no whole message")
	}
	events, err := d.whole(d.start(nil), content)
	if err != nil {
		return nil, err
	}
	events = append(events, infer.Event{Kind: infer.EventFinish, Finish: finishOf(reason), Stop: sequence})
	end := infer.Event{Kind: infer.EventUsage, Usage: d.total()}
	if d.native {
		end.Frame = &infer.Frame{Data: bytes.Clone(body)}
	}
	return append(events, end), nil
}

// whole reads the content array of a whole answer.
func (d *answerDecoder) whole(dst []infer.Event, content []byte) ([]infer.Event, error) {
	c := &d.c
	c.Reset(content)
	if k, ok := c.Kind(); !ok || k != jsonread.Array {
		return nil, malformed("a message whose content is no array")
	}
	for ok := c.Array(); ok && c.More(); {
		if k, ok := c.Kind(); !ok || k != jsonread.Object {
			return nil, malformed("a content block that is no object")
		}
		d.piece = piece{index: int64(len(d.blocks))}
		d.piece.block(c)
		if !c.OK() {
			return nil, malformed("a content block that is no JSON")
		}
		var err error
		if dst, err = d.begin(dst, &d.piece); err != nil {
			return nil, err
		}
		dst = d.end(dst, d.piece.index)
	}
	return dst, nil
}
