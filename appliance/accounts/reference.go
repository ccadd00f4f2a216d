package accounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxReferenced bounds a file that the configuration refers to: a secret, roots,
// a revocation list.
const maxReferenced = 16 << 20

// referenced gives the secret behind a credential reference. The reference is
// not quoted in errors where it may be the secret itself.
func (s *Settings) referenced(ref string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	var raw []byte
	var err error
	switch kind {
	case "env":
		if raw = []byte(s.Getenv(name)); len(raw) == 0 {
			err = fmt.Errorf("environment variable %.64s is not set", name)
		}
	case "file":
		raw, err = s.read(name)
	case "systemd":
		// systemd.exec(5): one file a credential, in $CREDENTIALS_DIRECTORY.
		dir := s.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" || strings.ContainsRune(name, '/') || name == "." || name == ".." {
			return "", errors.New("cannot read a systemd credential: CREDENTIALS_DIRECTORY is not set, or the name is no plain one")
		}
		raw, err = s.read(filepath.Join(dir, name))
	default:
		err = errors.New("want a reference, env:NAME, file:PATH or systemd:NAME")
	}
	raw = bytes.TrimSpace(raw)
	if err == nil && (len(raw) == 0 || len(raw) > 4096) {
		err = fmt.Errorf("it has %d bytes, wanted 1 to 4096", len(raw))
	}
	if err != nil {
		return "", fmt.Errorf("cannot use a credential: %w", err)
	}
	return string(raw), nil
}

// read reads a file that the configuration names.
func (s *Settings) read(path string) ([]byte, error) {
	f, err := os.Open(s.path(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxReferenced+1))
	if err == nil && len(b) > maxReferenced {
		err = fmt.Errorf("%s has more than %d bytes", path, maxReferenced)
	}
	return b, err
}

func (s *Settings) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Folder, path)
}
