//go:build unix

package appliance

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// Names of files that are sent stay names, and do nothing to what shows them.
func TestHostileUploadNames(t *testing.T) {
	u := &uploads{dir: t.TempDir(), now: time.Now}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a\x00b", "a\nb", "a\x1b[2Jb", "\u202efugg.x"} {
		if _, err := u.begin(uploadBegin{File: name, Size: 1}); codeOf(err) != infer.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// To open a pipe waits for whoever writes into it, which may be nobody.
func TestModelFromPipe(t *testing.T) {
	b := newTestbed(t)
	pipe := filepath.Join(t.TempDir(), "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := opModelAdd.do(as(admin.Operator), b.control(), modelSource{Path: pipe})
		done <- err
	}()
	select {
	case err := <-done:
		if codeOf(err) != infer.CodeInvalid {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a writer")
	}
}
