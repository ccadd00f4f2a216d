package chattmpl

import "testing"

func TestCapsPrint(t *testing.T) {
	for _, path := range sharedVectors(t) {
		f := readVectors(t, path)
		tm, err := Compile(f.Template)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %+v %+v", f.Family, tm.caps, tm.form)
	}
	for _, n := range []string{"chatml", "llama2", "llama3", "gemma", "phi3", "plain"} {
		src, _ := Builtin(n)
		tm, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %+v %+v", n, tm.caps, tm.form)
	}
}
