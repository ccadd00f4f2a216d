package wire

import (
	"testing"

	"hearth/web/jsonread"
)

func TestGuard(t *testing.T) {
	v, err := jsonread.Parse([]byte(`{}`), jsonread.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for key, ok := range map[string]bool{
		"Model": false, "MODEL": false, "MAX_TOKENS": false, "optionſ": false, "num_Predict": true, "toolſ": false, "n_predict": true,
		"model": true, "reasoningEffort": true, "X": true, "": true, "n": true, "N": false,
	} {
		if err := Guard(key, v); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}
