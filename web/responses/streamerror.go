package responses

import (
	"strconv"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// AppendError appends the error event of the Responses API, which ends a stream
// without saying anything of the response itself: who follows it may no more.
// seq is the number of the event.
func AppendError(dst []byte, seq int, e *infer.Error) []byte {
	dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...)
	dst = strconv.AppendInt(dst, int64(seq), 10)
	dst = append(dst, `,"code":`...)
	dst = jsonwrite.String(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = jsonwrite.String(dst, e.Message)
	return append(dst, ",\"param\":null}\n\n"...)
}
