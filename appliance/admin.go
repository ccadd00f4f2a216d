package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"hearth/appliance/backup"
	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
)

// The admin socket lets commands work beside a running server, which alone has
// the database open. It is a unix socket that only its owner can reach; that is
// its whole authentication. Requests are POST /NAME with a JSON body.

const maxAdminBody = 16 << 20 // a whole configuration in JSON has up to three times its size

// adminError is an error on the socket.
type adminError struct {
	Code    infer.Code     `json:"code"`
	Param   string         `json:"param,omitempty"`
	Message string         `json:"message"`
	Faults  *config.Faults `json:"faults,omitempty"`
}

func (a *Appliance) openAdmin(context.Context) error {
	path, done, err := shortPath(a.dir.socket())
	if err != nil {
		return fmt.Errorf("cannot open the admin socket: %w", err)
	}
	defer done()
	// The database lock says that no other server lives, so a socket that is
	// there was left by a crash.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace the admin socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("cannot open the admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("cannot restrict the admin socket to its owner: %w", err)
	}
	c := a.control()
	s := &http.Server{Handler: adminHandler(c), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin socket failed", "error", err)
		}
	}()
	a.onClose(func() error {
		err := s.Close()
		<-served
		_ = os.Remove(a.dir.socket()) // its listener may have had another name for it
		return err
	})
	return nil
}

// control is what operations work on beside this server.
func (a *Appliance) control() *control {
	return &control{store: a.store, server: a, dir: a.dir, file: a.configPath(),
		config: func() (*config.Config, error) { return a.config(), nil }}
}

func adminHandler(c *control) http.Handler {
	mux := http.NewServeMux()
	for _, op := range operations() {
		op.socket(mux, c)
	}
	return mux
}

func readAdmin(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAdminBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return infer.Invalid("body", "cannot be read: %v", err)
	}
	return nil
}

// writeAdminError tells the whole cause: only the owner of the machine reads it.
func writeAdminError(w http.ResponseWriter, err error) {
	out := adminError{Code: infer.CodeInternal, Message: err.Error()}
	var faults *config.Faults
	var e *infer.Error
	switch {
	case errors.As(err, &faults):
		out = adminError{Code: infer.CodeInvalid, Message: faults.Error(), Faults: faults}
	case errors.As(err, &e):
		out = adminError{Code: e.Code, Param: e.Param, Message: e.Message}
		if e.Cause != nil {
			out.Message += ": " + e.Cause.Error()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(out) // the caller has gone
}

// connection is how a command reaches the store: through the socket of a
// running server, or by itself.
type connection struct {
	local  *control
	client *http.Client // nil with local
	close  func() error
}

func dialAdmin(ctx context.Context, dir dataDir) (net.Conn, error) {
	path, done, err := shortPath(dir.socket())
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// maxSocketPath is what fits into a socket address on every Unix.
const maxSocketPath = 100

// shortPath gives a name for the socket at path that fits into an address: where
// the real one is too long, by way of an open folder. done closes that.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), filepath.Base(path)), func() { d.Close() }, nil
}

// connect finds a running server, or opens the database of dir.
func connect(env *Env, dir dataDir, conf func() (*config.Config, error)) (*connection, error) {
	if c, err := dialAdmin(context.Background(), dir); err == nil {
		c.Close()
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialAdmin(ctx, dir)
		}}
		return &connection{client: &http.Client{Transport: t}, close: func() error { t.CloseIdleConnections(); return nil }}, nil
	}
	if p, err := backup.Pending(string(dir)); err != nil || p != nil && p.Phase != backup.Staged {
		return nil, errors.Join(err, fmt.Errorf("a restore into %s has begun and has not ended: the next start of the server ends it", dir))
	}
	if !fileExists(dir.database()) {
		return nil, fmt.Errorf("there is no ledger in %s: `hearth serve` makes one, --data names another directory", dir)
	}
	s, err := store.Open(dir.database(), store.Options{Now: env.Now})
	if err != nil {
		return nil, err
	}
	return &connection{local: &control{store: s, config: conf, dir: dir, file: dir.config()}, close: s.Close}, nil
}

// export streams the ledger to w.
func (c *connection) export(ctx context.Context, w io.Writer, format store.Format, f store.Filter) error {
	return opLedgerExport.call(ctx, c, exportQuery{f, format}, w)
}

// post sends a request and turns an error answer into the error it tells.
func (c *connection) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hearth"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the running server: %w", err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	defer r.Body.Close()
	var e adminError
	if err := json.NewDecoder(io.LimitReader(r.Body, maxAdminBody)).Decode(&e); err != nil {
		if r.StatusCode == http.StatusNotFound {
			return nil, errors.New("the running server is of another version and does not know this: start it anew")
		}
		return nil, fmt.Errorf("the running server answered %s", r.Status)
	}
	if e.Faults != nil {
		return nil, e.Faults
	}
	return nil, &infer.Error{Code: e.Code, Param: e.Param, Message: e.Message}
}
