package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSplice(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{}`, `{"model":"up"}`},
		{` { } `, ` { "model":"up"} `},
		{`{"a":1}`, `{"a":1,"model":"up"}`},
		{`{"model": "x" , "b":[1, {"model":2}]}`, `{"model": "up" , "b":[1, {"model":2}]}`},
		{`{"mod\u0065l":null,"z":"}"}` + "\n", `{"mod\u0065l":"up","z":"}"}` + "\n"},
		{`{"model":1,"model":2}`, `{"model":"up","model":"up"}`},
	} {
		got, ok := Splice([]byte(c.body), []Member{{"model", []byte(`"up"`)}}, nil)
		if !ok || string(got) != c.want {
			t.Errorf("Splice(%s) = %s, %v, want %s", c.body, got, ok, c.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a":1`, `{"a":1} {}`, `null`} {
		if got, ok := Splice([]byte(bad), nil, nil); ok {
			t.Errorf("Splice(%q) = %q, want a refusal", bad, got)
		}
	}
	fold := func(a, b string) bool { return strings.EqualFold(a, b) }
	got, _ := Splice([]byte(`{"MaxTokens":5}`), Members(map[string]json.RawMessage{"maxtokens": []byte("3"), "a": []byte("1")}), fold)
	if string(got) != `{"MaxTokens":3,"a":1}` {
		t.Errorf("with folded names: %s", got)
	}
}
