package openai

import (
	"math"
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// tokenText is a token as a string: its bytes with broken pieces replaced, or
// token_id:N where that was asked for. The exact bytes stand beside it.
func tokenText(id int32, b []byte, asID bool) string {
	if asID {
		return "token_id:" + strconv.Itoa(int(id))
	}
	return jsonwrite.Text(string(b))
}

// appendLogprob appends a log-probability. OpenAI writes -9999 for the
// impossible, which JSON cannot say as minus infinity, and null for none.
func appendLogprob(dst []byte, p float64) []byte {
	if math.IsInf(p, -1) {
		return append(dst, "-9999.0"...)
	}
	return jsonwrite.Float(dst, p)
}

// appendChatLogprobs appends {"content":[…],"refusal":null}.
func appendChatLogprobs(dst []byte, lps []infer.TokenLogprob, asID bool) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range lps {
		if i > 0 {
			dst = append(dst, ',')
		}
		lp := &lps[i]
		dst = appendChatToken(dst, lp.ID, lp.Bytes, lp.Logprob, asID)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, t := range lp.Top {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendChatToken(dst, t.ID, t.Bytes, t.Logprob, asID), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

// appendChatToken appends an object that is left open.
func appendChatToken(dst []byte, id int32, b []byte, p float64, asID bool) []byte {
	dst = append(dst, `{"token":`...)
	dst = jsonwrite.String(dst, tokenText(id, b, asID))
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, p)
	dst = append(dst, `,"bytes":`...)
	return jsonwrite.Bytes(dst, b)
}

// offsets counts the characters of one choice's text, as the parallel arrays of
// completions want them: where in the text a token begins. A token that begins
// inside a character begins where that character does.
type offsets struct {
	chars int
	tail  []byte // the beginning of a character, not yet counted
}

// next returns the offset of a token and moves behind it.
func (o *offsets) next(b []byte) int {
	at := o.chars
	o.tail = append(o.tail, b...)
	n := 0
	for n < len(o.tail) {
		if len(o.tail)-n < 4 && jsonwrite.Partial(string(o.tail[n:])) {
			break
		}
		n += jsonwrite.Piece(string(o.tail[n:]))
		o.chars++
	}
	o.tail = append(o.tail[:0], o.tail[n:]...)
	return at
}

// appendCompletionLogprobs appends the parallel arrays of /v1/completions.
func appendCompletionLogprobs(dst []byte, lps []infer.TokenLogprob, o *offsets, tops int, asID bool) []byte {
	dst = append(dst, `{"tokens":[`...)
	for i := range lps {
		dst = comma(dst, i)
		dst = jsonwrite.String(dst, tokenText(lps[i].ID, lps[i].Bytes, asID))
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range lps {
		dst = appendLogprob(comma(dst, i), lps[i].Logprob)
	}
	dst = append(dst, `],"top_logprobs":`...)
	if tops == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '[')
		for i := range lps {
			dst = appendTops(comma(dst, i), lps[i].Top, asID)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"text_offset":[`...)
	for i := range lps {
		dst = jsonwrite.Int(comma(dst, i), int64(o.next(lps[i].Bytes)))
	}
	return append(dst, "]}"...)
}

// appendTops appends {"token": logprob, …}, best first. Pieces of characters
// read alike; every one after the first is named by its bytes, so that none is
// lost and no name comes twice.
func appendTops(dst []byte, tops []infer.TopLogprob, asID bool) []byte {
	if len(tops) == 0 {
		return append(dst, "null"...) // the first token of a prompt has none
	}
	seen := make(map[string]bool, len(tops))
	dst = append(dst, '{')
	for i, t := range tops {
		name := tokenText(t.ID, t.Bytes, asID)
		if seen[name] {
			name = "bytes:"
			for _, c := range t.Bytes {
				name += `\x` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15])
			}
			if seen[name] {
				name += "#" + strconv.Itoa(int(t.ID)) // two tokens of the same bytes
			}
		}
		seen[name] = true
		dst = jsonwrite.String(comma(dst, i), name)
		dst = appendLogprob(append(dst, ':'), t.Logprob)
	}
	return append(dst, '}')
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}
