package wire

import (
	"strings"

	"hearth/web/jsonread"
)

// judged are the top-level members that limits, budgets and permissions are read
// from, over all dialects that servers written in Go speak.
var judged = map[string]bool{
	"model": true, "messages": true, "prompt": true, "input": true, "suffix": true, "system": true, "template": true, "images": true, "instructions": true,
	"max_tokens": true, "max_completion_tokens": true, "max_output_tokens": true, "n_predict": true, "n": true, "best_of": true, "options": true,
	"stream": true, "stream_options": true, "tools": true, "functions": true, "tool_choice": true, "function_call": true, "format": true,
	"response_format": true, "models": true, "fallbacks": true,
}

// Guard refuses a member of a request that is not known here but that another
// reader could take for one that is judged here. Go's encoding/json, which
// Ollama and others read with, matches names in any case and lets the last one
// count: {"model":"a","Model":"b"} is b there.
func Guard(key string, v jsonread.Value) error {
	folded := strings.Map(func(r rune) rune {
		switch r { // the two characters outside ASCII that fold into it
		case 'ſ':
			return 's'
		case 'K':
			return 'k'
		}
		return r
	}, strings.ToLower(key))
	if folded == key || !judged[folded] {
		return nil
	}
	return v.Errorf("cannot use the field %s: wanted %s, in lower case", jsonread.Shorten(key, 64), folded)
}
