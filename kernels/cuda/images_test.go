package cuda

import (
	"bytes"
	"compress/gzip"
	"testing"
)

// An image is taken as text and compressed; one that was cut short is refused.
func TestExpand(t *testing.T) {
	text := bytes.Repeat([]byte(".version 7.8\n"), 1000)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, image := range [][]byte{text, packed.Bytes()} {
		if got, err := expand(image); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes give %d, %v", len(image), len(got), err)
		}
	}
	if _, err := expand(packed.Bytes()[:packed.Len()-9]); err == nil {
		t.Error("an image that was cut short was taken")
	}
}
