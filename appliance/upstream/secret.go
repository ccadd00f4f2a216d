package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"hearth/engine/infer"
)

// Secret is a credential's value. It cannot be printed, logged or marshalled;
// only what signs requests reads it.
type Secret struct{ value string }

const redacted = "[secret]"

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(f fmt.State, _ rune)   { io.WriteString(f, redacted) }
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// maxSecret bounds a credential; a service account's file has about 2.5 KiB.
const maxSecret = 64 << 10

// newSecret trims and checks a value. Line ends may stand inside JSON; no other
// control character has a place in a credential.
func newSecret(raw []byte) (Secret, error) {
	b := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")))
	switch {
	case len(b) == 0:
		return Secret{}, errors.New("it is empty")
	case len(b) > maxSecret:
		return Secret{}, fmt.Errorf("it has more than %d bytes", maxSecret)
	}
	isJSON := b[0] == '{'
	for _, c := range b {
		if c >= 0x7f && !isJSON || c == 0x7f || c < ' ' && !(isJSON && (c == '\n' || c == '\r' || c == '\t')) {
			return Secret{}, errors.New("it holds a character that no credential has")
		}
	}
	return Secret{string(b)}, nil
}

// source gives a credential's present value.
type source interface {
	get(ctx context.Context) (Secret, error)
	forget() // the provider turned the value down
	close()
}

// unavailable is the error for a credential that cannot be had. Nothing has been
// sent then.
func unavailable(cause error) *infer.Error {
	e := fault(infer.FailAuth, "the credential for the provider is not available", cause)
	e.Code, e.Upstream.Unsent = infer.CodeUnavailable, true
	return e
}

// reference splits a credential reference. Where it is not one, it is not
// quoted: it may be the secret itself.
func reference(s string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(s, ":")
	if ok && name != "" {
		switch kind {
		case "env", "file", "systemd", "oidc-file":
			return kind, name, nil
		}
	}
	return "", "", errors.New("cannot use credential: want a reference, env:NAME, file:PATH, systemd:NAME or oidc-file:PATH")
}

// stored makes the source of a value that is kept somewhere on this machine.
func stored(u *Upstream, kind, name string) (source, error) {
	switch kind {
	case "env":
		return &variable{name: name, getenv: u.o.Getenv}, nil
	case "file", "oidc-file":
		return &file{path: name, log: u.log}, nil
	case "systemd":
		// systemd.exec(5): one file a credential, in $CREDENTIALS_DIRECTORY.
		if strings.ContainsRune(name, '/') || name == "." || name == ".." {
			return nil, errors.New("cannot use credential: the name of a systemd credential has no slash")
		}
		dir := u.o.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return &missing{errors.New("cannot read a systemd credential: CREDENTIALS_DIRECTORY is not set")}, nil
		}
		return &file{path: filepath.Join(dir, name), quiet: true}, nil
	}
	return nil, fmt.Errorf("cannot use a credential of kind %q", kind)
}

// missing is a credential that cannot be had while this process lives.
type missing struct{ err error }

func (m *missing) get(context.Context) (Secret, error) { return Secret{}, unavailable(m.err) }
func (m *missing) forget()                             {}
func (m *missing) close()                              {}

// variable is an environment variable.
type variable struct {
	name   string
	getenv func(string) string

	mu   sync.Mutex
	raw  string
	last Secret
}

func (v *variable) get(context.Context) (Secret, error) {
	raw := v.getenv(v.name)
	v.mu.Lock()
	defer v.mu.Unlock()
	if raw == v.raw && raw != "" {
		return v.last, nil
	}
	s, err := newSecret([]byte(raw))
	if raw == "" {
		err = errors.New("it is not set in the environment of this process")
	}
	if err != nil {
		return Secret{}, unavailable(fmt.Errorf("cannot use environment variable %.64s: %w", v.name, err))
	}
	v.raw, v.last = raw, s
	return s, nil
}

func (v *variable) forget() {}
func (v *variable) close()  {}

// file is a file that is read again when it has changed.
type file struct {
	path  string
	log   *slog.Logger
	quiet bool // its mode is not ours to judge

	mu    sync.Mutex
	known bool
	stamp stamp
	last  Secret
}

// stamp tells whether a file is still the one that was read. Rotation by rename
// shows in the identity of the file even where time and size are the same.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(i os.FileInfo) bool {
	return s.info != nil && s.info.Size() == i.Size() && s.info.ModTime().Equal(i.ModTime()) && os.SameFile(s.info, i)
}

func (f *file) get(context.Context) (Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.known && f.stamp.same(info) {
		return f.last, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	var s Secret
	if err == nil {
		var raw []byte
		if raw, err = readBounded(f.path, maxSecret); err == nil {
			s, err = newSecret(raw)
		}
	}
	if err != nil {
		return Secret{}, unavailable(fmt.Errorf("cannot read credential file %s: %w", f.path, err))
	}
	if !f.quiet && info.Mode().Perm()&0o077 != 0 && f.log != nil {
		f.log.Warn("others may read a credential file", "file", f.path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()), "want", "0600")
	}
	f.known, f.stamp, f.last = true, stamp{info}, s
	return s, nil
}

// forget makes the next use read the file again, whatever its stamp says.
func (f *file) forget() {
	f.mu.Lock()
	f.known = false
	f.mu.Unlock()
}

func (f *file) close() {}

// readBounded reads a whole file of at most max bytes.
func readBounded(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(b)) > max {
		err = fmt.Errorf("it has more than %d bytes", max)
	}
	return b, err
}
