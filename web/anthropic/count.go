package anthropic

import "hearth/web/jsonwrite"

// EncodeCount is the answer of POST /v1/messages/count_tokens.
func EncodeCount(n int) []byte {
	dst := append([]byte(nil), `{"input_tokens":`...)
	return append(jsonwrite.Int(dst, int64(n)), "}\n"...)
}
