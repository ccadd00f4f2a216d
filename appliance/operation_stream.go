package appliance

import (
	"context"
	"errors"
	"io"
	"net/http"

	"encoding/json"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// streamOperation is an operation whose answer is a file: an export, a backup.
// What subject names is written into the audit trail before the answer begins,
// so that a download that was cut off is in it too.
type streamOperation[Req any] struct {
	operation[Req, none]
	stream func(ctx context.Context, c *control, r Req, w admin.Writer) error
}

// describe binds op to what it works on.
func (op streamOperation[Req]) describe(c *control) *admin.Operation {
	d := op.operation.describe(c)
	d.Run = nil
	d.Stream = func(ctx context.Context, in any, w admin.Writer) error {
		return op.send(store.As(ctx, admin.From(ctx).Actor()), c, *in.(*Req), w)
	}
	return d
}

func (op streamOperation[Req]) send(ctx context.Context, c *control, r Req, w admin.Writer) error {
	if op.subject != nil {
		if err := c.store.Audit(ctx, store.Audit{Action: op.name, Subject: op.subject(r)}); err != nil {
			return err
		}
	}
	return op.stream(ctx, c, r, w)
}

// socket serves op to the machine's owner.
func (op streamOperation[Req]) socket(mux *http.ServeMux, c *control) {
	mux.HandleFunc("POST /"+op.name, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if err := readAdmin(w, r, &req); err != nil {
			writeAdminError(w, err)
			return
		}
		out := &socketWriter{w: w}
		err := op.send(store.As(r.Context(), operator("admin socket")), c, req, out)
		if err != nil && !out.begun {
			writeAdminError(w, err)
		} else if err != nil {
			panic(http.ErrAbortHandler) // a cut answer must not look whole
		}
	})
}

// socketWriter is the answer on the socket.
type socketWriter struct {
	w     http.ResponseWriter
	begun bool
}

func (w *socketWriter) Begin(mediaType, _ string) {
	w.begun = true
	w.w.Header().Set("Content-Type", mediaType)
	w.w.WriteHeader(http.StatusOK)
}

func (w *socketWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.w.Write(b)
}

// plainWriter is the answer of an operation that runs in the command itself.
type plainWriter struct{ io.Writer }

func (plainWriter) Begin(string, string) {}

// call carries out op where the store is and writes its answer to w.
func (op streamOperation[Req]) call(ctx context.Context, c *connection, req Req, w io.Writer) error {
	if c.local != nil {
		return op.send(store.As(ctx, operator("command line")), c.local, req, plainWriter{w})
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	r, err := c.post(ctx, "/"+op.name, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(w, r.Body); err != nil {
		return errors.Join(infer.Errorf(infer.CodeUnavailable, "the answer broke off"), err)
	}
	return nil
}
