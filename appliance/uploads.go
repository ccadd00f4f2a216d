package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"hearth/appliance/progress"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// A model that is on another machine comes in pieces: upload/begin, a chunk at a
// time, upload/finish. What arrived is kept in the data directory, so an upload
// that broke off, even by a restart, goes on where it stopped: begin with the
// same file name, size and digest gives the same upload and its offset.

// Bounds of uploads.
const (
	maxUploads     = 8
	maxUploadBytes = 1 << 40
	uploadChunk    = 4 << 20            // what a page should send at once
	maxChunk       = 8 << 20            // what is taken at once
	uploadLife     = 7 * 24 * time.Hour // without a chunk
	uploadSpare    = int64(1) << 30     // that must stay free on the disk
)

// upload is one file that is being received. It is kept as upload.json.
type upload struct {
	ID      string    `json:"id"`
	File    string    `json:"file"`             // base name, as the sender has it
	Name    string    `json:"name,omitempty"`   // to install the model under
	Size    int64     `json:"size"`             // of the whole
	Digest  string    `json:"digest,omitempty"` // sha256 of the whole, hex; empty: the sender did not say
	Offset  int64     `json:"offset"`           // received
	Chunk   int       `json:"chunk_bytes"`      // to send at once, at most
	Started time.Time `json:"started"`
	Touched time.Time `json:"touched"`
}

type uploadBegin struct {
	File   string `json:"file"`
	Name   string `json:"name,omitempty"`
	Size   int64  `json:"size"`
	Digest string `json:"digest,omitempty"`
}

type uploadPiece struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"` // base64
}

type uploadID struct {
	ID string `json:"id"`
}

var (
	opUploadBegin = operation[uploadBegin, upload]{
		name: "model/upload/begin", place: "POST /model-uploads", access: admin.Operate,
		summary: "begin to send a model file, or go on with one that broke off: the answer has the offset",
		subject: func(r uploadBegin) string { return r.File },
		run: func(_ context.Context, c *control, r uploadBegin) (upload, error) {
			return uploadsOf(c).begin(r)
		},
	}
	opUploadChunk = operation[uploadPiece, upload]{
		name: "model/upload/chunk", place: "POST /model-uploads/{id}/chunk", access: admin.Operate,
		summary: "send the next piece of a model file, at the offset that the last answer gave",
		run: func(_ context.Context, c *control, r uploadPiece) (upload, error) {
			return uploadsOf(c).chunk(r)
		},
	}
	opUploadFinish = operation[uploadID, job]{
		name: "model/upload/finish", place: "POST /model-uploads/{id}/finish", access: admin.Operate,
		summary: "install the model that has been sent, as a job",
		run: func(ctx context.Context, c *control, r uploadID) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.finishUpload(ctx, r.ID)
		},
	}
	opUploadList = operation[none, []upload]{
		name: "model/upload/list", place: "GET /model-uploads", access: admin.Read,
		summary: "model files that have been sent in part",
		run: func(_ context.Context, c *control, _ none) ([]upload, error) {
			return uploadsOf(c).list()
		},
	}
	opUploadDrop = operation[uploadID, uploadID]{
		name: "model/upload/drop", place: "DELETE /model-uploads/{id}", access: admin.Operate,
		summary: "throw away a model file that has been sent in part",
		subject: func(r uploadID) string { return r.ID },
		run: func(_ context.Context, c *control, r uploadID) (uploadID, error) {
			return r, uploadsOf(c).drop(r.ID)
		},
	}
)

// uploads is the folder of what is being received. Its methods are serialized:
// disks are no faster for two writers.
type uploads struct {
	dir string
	now func() time.Time
}

var uploading sync.Mutex // all changes below any folder of uploads

func uploadsOf(c *control) *uploads {
	u := &uploads{dir: c.dir.join("uploads"), now: time.Now}
	if c.server != nil {
		u.now = c.server.now
	}
	return u
}

// begin makes an upload, or finds the one that broke off.
func (u *uploads) begin(r uploadBegin) (upload, error) {
	r.Digest = strings.ToLower(strings.TrimPrefix(r.Digest, "sha256:"))
	b, err := hex.DecodeString(r.Digest)
	switch {
	case r.File == "" || r.File == "." || r.File == ".." || len(r.File) > 255 || r.File != filepath.Base(r.File) || strings.ContainsAny(r.File, "\\/") || strings.ContainsFunc(r.File, func(c rune) bool { return !unicode.IsPrint(c) }):
		return upload{}, infer.Invalid("file", "got %.80q, wanted the name of a file without its folder", r.File)
	case r.Size < 1 || r.Size > maxUploadBytes:
		return upload{}, infer.Invalid("size", "got %d bytes, wanted 1 to %d", r.Size, int64(maxUploadBytes))
	case r.Digest != "" && (err != nil || len(b) != sha256.Size):
		return upload{}, infer.Invalid("digest", "is not a sha256 in hex (64 digits)")
	}
	uploading.Lock()
	defer uploading.Unlock()
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		return upload{}, err
	}
	all, err := u.listLocked()
	if err != nil {
		return upload{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", r.File, r.Size, r.Digest))
	id := hex.EncodeToString(sum[:12])
	for _, x := range all {
		if x.ID == id {
			x.Name = r.Name
			return x, u.save(&x)
		}
	}
	if len(all) >= maxUploads {
		return upload{}, infer.Errorf(infer.CodeConflict, "there are %d uploads already: finish or drop one", len(all))
	}
	// The file is copied when it is installed.
	if free, err := freeBytes(u.dir); err == nil && int64(free) < 2*r.Size+uploadSpare {
		return upload{}, infer.Errorf(infer.CodeTooLarge, "there is no room: %d bytes twice over and 1 GiB to spare are needed, %d are free", r.Size, free)
	}
	now := u.now()
	x := upload{ID: id, File: r.File, Name: r.Name, Size: r.Size, Digest: r.Digest, Chunk: uploadChunk, Started: now, Touched: now}
	if err := os.MkdirAll(filepath.Dir(u.data(&x)), 0o700); err != nil {
		return upload{}, err
	}
	f, err := os.OpenFile(u.data(&x), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = u.save(&x)
	}
	return x, err
}

// data is where the bytes go: in a folder of its own, under the sender's name,
// which the model may be called after.
func (u *uploads) data(x *upload) string { return filepath.Join(u.dir, x.ID, "file", x.File) }

func (u *uploads) save(x *upload) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(u.dir, x.ID, "upload.json"), b, 0o600)
}

// load reads one; the offset is what is really there.
func (u *uploads) load(id string) (upload, error) {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 12 {
		return upload{}, noSuchUpload(id)
	}
	b, err := os.ReadFile(filepath.Join(u.dir, id, "upload.json"))
	if err != nil {
		return upload{}, noSuchUpload(id)
	}
	var x upload
	if err := json.Unmarshal(b, &x); err != nil || x.ID != id || x.File != filepath.Base(x.File) {
		return upload{}, noSuchUpload(id)
	}
	st, err := os.Stat(u.data(&x))
	if err != nil {
		return upload{}, noSuchUpload(id)
	}
	x.Offset, x.Touched = min(st.Size(), x.Size), st.ModTime()
	return x, nil
}

func noSuchUpload(id string) error {
	return infer.Errorf(infer.CodeNotFound, "there is no upload %.64q", id)
}

// chunk appends a piece.
func (u *uploads) chunk(r uploadPiece) (upload, error) {
	if len(r.Data) == 0 || len(r.Data) > maxChunk {
		return upload{}, infer.Invalid("data", "got %d bytes, wanted 1 to %d", len(r.Data), maxChunk)
	}
	uploading.Lock()
	defer uploading.Unlock()
	x, err := u.load(r.ID)
	if err != nil {
		return x, err
	}
	if r.Offset != x.Offset {
		return x, infer.Errorf(infer.CodeConflict, "cannot go on at byte %d: %d have arrived", r.Offset, x.Offset)
	}
	if int64(len(r.Data)) > x.Size-x.Offset {
		return x, infer.Invalid("data", "got %d bytes where %d are left", len(r.Data), x.Size-x.Offset)
	}
	f, err := os.OpenFile(u.data(&x), os.O_WRONLY, 0o600)
	if err != nil {
		return x, err
	}
	_, err = f.WriteAt(r.Data, x.Offset)
	if err = errors.Join(err, f.Close()); err != nil {
		return x, fmt.Errorf("cannot keep what was sent: %w", err)
	}
	x.Offset += int64(len(r.Data))
	x.Touched = u.now()
	return x, nil
}

func (u *uploads) list() ([]upload, error) {
	uploading.Lock()
	defer uploading.Unlock()
	return u.listLocked()
}

// listLocked gives what there is, the oldest first, and clears what nobody went
// on with.
func (u *uploads) listLocked() ([]upload, error) {
	entries, err := os.ReadDir(u.dir)
	if errors.Is(err, os.ErrNotExist) {
		return []upload{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := []upload{}
	for _, e := range entries {
		x, err := u.load(e.Name())
		if err != nil || u.now().Sub(x.Touched) > uploadLife {
			if err := os.RemoveAll(filepath.Join(u.dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b upload) int { return a.Started.Compare(b.Started) })
	return out, nil
}

func (u *uploads) drop(id string) error {
	uploading.Lock()
	defer uploading.Unlock()
	if _, err := u.load(id); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(u.dir, id))
}

// finishUpload checks what has been sent and installs it.
func (a *Appliance) finishUpload(ctx context.Context, id string) (job, error) {
	u := uploadsOf(a.control())
	uploading.Lock()
	x, err := u.load(id)
	uploading.Unlock()
	if err != nil {
		return job{}, err
	}
	if x.Offset != x.Size {
		return job{}, infer.Errorf(infer.CodeConflict, "cannot install %s yet: %d of %d bytes have arrived", x.File, x.Offset, x.Size)
	}
	subject := x.Name
	if subject == "" {
		subject = x.File
	}
	return a.jobs.start(ctx, "model/upload/finish", subject, func(ctx context.Context, report reporter) (any, error) {
		if x.Digest != "" {
			got, err := fileDigest(ctx, u.data(&x), func(done int64) { report("check "+x.File, progress.Bytes, done, x.Size) })
			if err != nil {
				return nil, err
			}
			if got != x.Digest {
				_ = u.drop(id) // it can be sent again
				return nil, infer.Errorf(infer.CodeInvalid, "what arrived of %s has sha256 %s, wanted %s: send it again", x.File, got, x.Digest)
			}
		}
		m, err := a.install(ctx, report, modelSource{Path: u.data(&x), Name: x.Name}, subject)
		if err != nil {
			return nil, err
		}
		return m, u.drop(id)
	})
}

// fileDigest is the sha256 of a file in hex.
func fileDigest(ctx context.Context, path string, report func(done int64)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for done := int64(0); ; {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		done += int64(n)
		report(done)
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", err
		}
	}
}
