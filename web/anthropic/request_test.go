package anthropic

import (
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

func decodeOK(t *testing.T, body string) (*infer.Request, wire.Options) {
	t.Helper()
	r, o, err := Messages{}.DecodeRequest(nil, []byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r, o
}
