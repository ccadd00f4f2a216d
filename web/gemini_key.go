package web

import (
	"net/http"
	"strings"

	"hearth/engine/infer"
)

// queryKey reads the credential of a request to a Gemini route, where Google's
// API takes it as ?key= too. It is taken out of the URL, so that nobody who is
// handed the request can write it down.
func queryKey(r *http.Request, header string) (string, *infer.Error) {
	if !strings.Contains(r.URL.RawQuery, "key=") {
		return header, nil
	}
	q := r.URL.Query()
	keys := q["key"]
	q.Del("key")
	u := *r.URL
	u.RawQuery = q.Encode()
	r.URL, r.RequestURI = &u, ""
	switch {
	case len(keys) > 1:
		return "", infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: got more than one key in the query")
	case len(keys) == 0 || keys[0] == "":
		return header, nil
	case header != "" && header != keys[0]:
		return "", infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: the header and the key in the query differ")
	case len(keys[0]) > 4096:
		return "", infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: the credential is too long")
	}
	return keys[0], nil
}
