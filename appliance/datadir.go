package appliance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dataDir is the folder that holds everything of one appliance.
type dataDir string

// findDataDir applies the XDG base directory rules: the flag, else
// $XDG_DATA_HOME/hearth, else ~/.local/share/hearth.
func findDataDir(env *Env, flag string) (dataDir, error) {
	dir := flag
	if dir == "" {
		base := env.Getenv("XDG_DATA_HOME")
		if !filepath.IsAbs(base) { // a relative one is to be ignored
			home := env.Getenv("HOME")
			if home == "" {
				return "", errors.New("cannot find a data directory: neither --data nor XDG_DATA_HOME nor HOME is set")
			}
			base = filepath.Join(home, ".local", "share")
		}
		dir = filepath.Join(base, "hearth")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot use data directory %q: %w", dir, err)
	}
	return dataDir(abs), nil
}

// create makes the directory, open to its owner only.
func (d dataDir) create() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	// It may have been there with wider rights.
	if err := os.Chmod(string(d), 0o700); err != nil {
		return fmt.Errorf("cannot restrict the data directory to its owner: %w", err)
	}
	return nil
}

func (d dataDir) join(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

// resolve makes path absolute, relative to the data directory.
func (d dataDir) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return d.join(path)
}

func (d dataDir) config() string   { return d.join("appliance.toml") }
func (d dataDir) database() string { return d.join("hearth.db") }
func (d dataDir) rootPEM() string  { return d.join("ca.pem") }
func (d dataDir) firstRun() string { return d.join("first-run.json") }
func (d dataDir) socket() string   { return d.join("admin.sock") }
func (d dataDir) models() string   { return d.join("models") }
func (d dataDir) embedded() string { return d.join("embedded") }

// writeFile puts data at path in one step: a crash leaves the old file or the
// new one, never a part.
func writeFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
