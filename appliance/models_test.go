package appliance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/weights/gguftest"
	"hearth/engine/worker/host"
	"hearth/kernels"
	"hearth/store"
	"hearth/web"
)

const modelsConfig = `price_version = "p1"
[[model]]
name = "m"
path = "m.gguf"
context = 128
kv_memory = "4MiB"
max_sequences = 2
threads = 1
[[price]]
model = "*"
input_usd_per_m = "0"
output_usd_per_m = "0"
`

// modelsBed is an appliance with real engines in this process.
type modelsBed struct {
	*Appliance
	t    *testing.T
	ctl  *control
	gguf string // a model that is not installed
	hold chan struct{}
	key  string
}

func newModelsBed(t *testing.T) *modelsBed {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "c.toml")
	data := dataDir(filepath.Join(dir, "d"))
	if err := errors.Join(os.WriteFile(conf, []byte(modelsConfig), 0o600), os.Mkdir(string(data), 0o700)); err != nil {
		t.Fatal(err)
	}
	b := &modelsBed{t: t, gguf: gguftest.WriteLlama(t, gguftest.Options{Seed: 2, Context: 256, Type: kernels.Q8_0})}
	file, err := os.ReadFile(gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Context: 256}))
	if err == nil {
		err = os.WriteFile(data.join("m.gguf"), file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	a, err := Open(context.Background(), Options{
		Env: &Env{Stdout: &bytes.Buffer{}, Stderr: log, Getenv: os.Getenv, Now: time.Now}, Dir: data, Config: conf, Listen: "127.0.0.1:0",
		Open: func(ctx context.Context, s modelSpec) (infer.Backend, error) {
			o := cpuSpec(newWorkerSpec(s)).Options(host.Build())
			p := &host.Progress{}
			o.Progress = p.Set
			reportOpening(ctx, func() infer.Health { return infer.Health{Progress: p.Share()} })
			if b.hold != nil {
				select {
				case <-b.hold:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return engine.Open(ctx, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Appliance, b.ctl = a, a.control()
	k, err := a.store.CreateKey(context.Background(), store.Key{Tenant: "default", Name: "models"})
	if err != nil {
		t.Fatal(err)
	}
	b.key = k.Secret
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
	b.until("m", modelLoaded)
	return b
}

func (b *modelsBed) row(name string) modelRow {
	b.t.Helper()
	r, err := opModelShow.do(context.Background(), b.ctl, modelName{name})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *modelsBed) until(name, state string) modelRow {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r := b.row(name)
		if r.State == state {
			return r
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s is %s (%s), wanted %s", name, r.State, r.Reason, state)
		}
	}
}

// ends waits for the job of an operation.
func (b *modelsBed) ends(j job, err error) job {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	j, err = opJobShow.do(context.Background(), b.ctl, jobQuery{ID: j.ID, WaitMS: 20000})
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

func (b *modelsBed) done(j job, err error) job {
	b.t.Helper()
	j = b.ends(j, err)
	if j.State != jobDone || j.Progress != 1 {
		b.t.Fatalf("got %+v, wanted a job that is done", j)
	}
	return j
}

func wantCode(t *testing.T, err error, code infer.Code) {
	t.Helper()
	if err == nil || infer.AsError(err).Code != code {
		t.Errorf("got %v, wanted %s", err, code)
	}
}

// generate asks a model for a word; each may hold the stream.
func (b *modelsBed) generate(model string, each func()) error {
	g, err := b.Admit(context.Background(), web.Caller{RequestID: fmt.Sprintf("r%d", time.Now().UnixNano()), Credential: b.key, RemoteAddr: "127.0.0.1:1", Route: "POST /x"})
	if err != nil {
		return err
	}
	defer g.Release()
	r := infer.NewRequest()
	r.Model, r.Kind, r.Prompts = model, infer.Completion, []infer.Prompt{{Text: "a"}}
	r.Sampling.MaxTokens, r.Sampling.IgnoreEOS = 4, true
	for _, err := range b.Call(context.Background(), g, r) {
		if err != nil {
			return err
		}
		if each != nil {
			each()
		}
	}
	return nil
}

func TestModelLifeByOperations(t *testing.T) {
	b := newModelsBed(t)
	ctx := store.As(context.Background(), "a test")

	// Added from a path, served under its name, described.
	j := b.done(opModelAdd.do(ctx, b.ctl, modelSource{Path: b.gguf, Name: "two"}))
	if j.Kind != "model/add" || j.Actor != "a test" {
		t.Errorf("got %+v", j)
	}
	r := b.until("two", modelLoaded)
	if !r.Installed || r.Configured || !r.Served || r.Origin != "library" || r.Quantization != "Q8_0" || r.Digest == "" || r.Fingerprint == "" ||
		len(r.Terms) < 10 || r.Load == nil || r.Load.KVBlocks == 0 || r.LoadMS < 0 || r.LoadedAt.IsZero() || r.Licence == "" {
		t.Errorf("got %+v", r)
	}
	if err := b.generate("two", nil); err != nil {
		t.Error(err)
	}
	wantCode(t, second(opModelAdd.do(ctx, b.ctl, modelSource{Path: "two.gguf"})), infer.CodeInvalid)
	wantCode(t, second(opModelAdd.do(ctx, b.ctl, modelSource{Path: "/nonexistent/x.gguf"})), infer.CodeNotFound)
	wantCode(t, b.failed(opModelAdd.do(ctx, b.ctl, modelSource{Path: b.gguf, Name: "two"})), infer.CodeConflict)

	// A plan is made of the same figures.
	p, err := opModelPlan.do(ctx, b.ctl, planQuery{Name: "m"})
	if err != nil || p.WeightBytes != b.row("m").Load.WeightBytes || p.KVBytes != b.row("m").Load.KVBytes || !p.Loaded || p.Context != 128 {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err = opModelPlan.do(ctx, b.ctl, planQuery{Name: "m", Context: 64}); err != nil || p.Context != 64 {
		t.Errorf("got %+v, %v", p, err)
	}
	wantCode(t, second(opModelPlan.do(ctx, b.ctl, planQuery{Name: "none"})), infer.CodeNotFound)
	wantCode(t, second(opModelPlan.do(ctx, b.ctl, planQuery{Name: "m", KVMemory: "x"})), infer.CodeInvalid)

	// Removed; what the configuration or the binary has is not.
	if _, err := opModelRemove.do(ctx, b.ctl, modelRemoval{Name: "two"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, second(opModelShow.do(ctx, b.ctl, modelName{"two"})), infer.CodeNotFound)
	wantCode(t, b.generate("two", nil), infer.CodeModelNotFound)
	wantCode(t, second(opModelRemove.do(ctx, b.ctl, modelRemoval{Name: "two"})), infer.CodeNotFound)
	audits, err := b.store.Audits(ctx, 10, 0)
	if err != nil || !slices.ContainsFunc(audits.Entries, func(e store.AuditEntry) bool { return e.Action == "model/add" && e.Subject == "two" }) ||
		!slices.ContainsFunc(audits.Entries, func(e store.AuditEntry) bool { return e.Action == "model/remove" }) {
		t.Errorf("the audit trail has %+v, %v", audits, err)
	}
}

func second[T any](_ T, err error) error { return err }

// failed waits for a job that must fail.
func (b *modelsBed) failed(j job, err error) error {
	b.t.Helper()
	j = b.ends(j, err)
	return j.err()
}

func TestUnloadDrainsAndOutlivesReload(t *testing.T) {
	b := newModelsBed(t)
	ctx := store.As(context.Background(), "a test")
	begun, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		first := true
		ended <- b.generate("m", func() {
			if first {
				first = false
				close(begun)
				<-release
			}
		})
	}()
	<-begun
	j, err := opModelUnload.do(ctx, b.ctl, modelName{"m"})
	if err != nil {
		t.Fatal(err)
	}
	r := b.until("m", modelUnloaded)
	if r.Draining != 1 || r.Override == nil || !r.Override.Unloaded || r.Override.By != "a test" {
		t.Errorf("got %+v", r)
	}
	wantCode(t, b.generate("m", nil), infer.CodeUnavailable)
	wantCode(t, second(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m"})), infer.CodeConflict)
	if now, _, _ := b.jobs.find(j.ID); now.State != jobRunning {
		t.Errorf("the job is %s while a request is served", now.State)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	b.done(j, nil)
	if err := b.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if r := b.row("m"); r.State != modelUnloaded || r.Draining != 0 || r.Override == nil {
		t.Errorf("after a reload: %+v", r)
	}
	if ok, reason := b.models.ready(ctx); ok || !strings.Contains(reason, "no model") {
		t.Errorf("ready: %v, %q", ok, reason)
	}
	b.done(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m"}))
	if r := b.row("m"); r.State != modelLoaded || r.Override != nil || r.Context != 128 {
		t.Errorf("loaded again: %+v", r)
	}
	if err := b.generate("m", nil); err != nil {
		t.Error(err)
	}
}

func TestLoadWithOtherParameters(t *testing.T) {
	b := newModelsBed(t)
	ctx := store.As(context.Background(), "a test")
	before := b.row("m")
	b.done(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m", Context: 64, KVMemory: "1MiB"}))
	if err := b.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	r := b.row("m")
	if r.Context != 64 || r.Settings.KVMemory != 1<<20 || r.Override == nil || r.Fingerprint == before.Fingerprint || r.State != modelLoaded {
		t.Errorf("got %+v", r)
	}
	// Too little for the context: the job fails and says why; the state too.
	err := b.failed(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m", Context: 4096, KVMemory: "1MiB"}))
	if err == nil {
		t.Error("a context that the model was not made for, or that does not fit, is taken")
	}
	if r := b.row("m"); r.State != modelFailed || r.Reason == "" {
		t.Errorf("got %+v", r)
	}
	for _, s := range []modelSettings{{Name: "m", Context: -1}, {Name: "m", Threads: 1 << 20}, {Name: "m", KVMemory: "12"}, {Name: "m", KVMemory: "much"}} {
		wantCode(t, second(opModelLoad.do(ctx, b.ctl, s)), infer.CodeInvalid)
	}
	wantCode(t, second(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "none"})), infer.CodeNotFound)
	b.done(opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m"}))
	if r := b.row("m"); r.Fingerprint != before.Fingerprint || r.Override != nil {
		t.Errorf("as configured: %+v", r)
	}
	b.done(opModelWarm.do(ctx, b.ctl, modelName{"m"}))
	b.done(opModelUnload.do(ctx, b.ctl, modelName{"m"}))
	b.done(opModelWarm.do(ctx, b.ctl, modelName{"m"}))
	if r := b.row("m"); r.State != modelLoaded {
		t.Errorf("warmed: %+v", r)
	}
}

func TestCancelLoading(t *testing.T) {
	b := newModelsBed(t)
	ctx := context.Background()
	b.done(opModelUnload.do(ctx, b.ctl, modelName{"m"}))
	b.hold = make(chan struct{})
	j, err := opModelLoad.do(ctx, b.ctl, modelSettings{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	b.until("m", modelLoading)
	if _, err := opJobCancel.do(ctx, b.ctl, jobID{j.ID}); err != nil {
		t.Fatal(err)
	}
	if j = b.ends(j, nil); j.State != jobCancelled {
		t.Errorf("got %+v", j)
	}
	// Loading goes on beside the job; unloading ends it.
	b.done(opModelUnload.do(ctx, b.ctl, modelName{"m"}))
	if r := b.row("m"); r.State != modelUnloaded {
		t.Errorf("got %+v", r)
	}
	wantCode(t, second(opJobShow.do(ctx, b.ctl, jobQuery{ID: "job-999"})), infer.CodeNotFound)
	list, err := opJobList.do(ctx, b.ctl, none{})
	if err != nil || len(list) != 3 || list[0].Kind != "model/unload" {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestUploadInPieces(t *testing.T) {
	b := newModelsBed(t)
	ctx := context.Background()
	file, err := os.ReadFile(b.gguf)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	begin := uploadBegin{File: "three.gguf", Size: int64(len(file)), Digest: hex.EncodeToString(sum[:])}
	u, err := opUploadBegin.do(ctx, b.ctl, begin)
	if err != nil || u.Offset != 0 || u.Chunk == 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	half := len(file) / 2
	if u, err = opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, 0, file[:half]}); err != nil || u.Offset != int64(half) {
		t.Fatalf("got %+v, %v", u, err)
	}
	wantCode(t, second(opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, 0, file[:half]})), infer.CodeConflict)
	wantCode(t, second(opUploadFinish.do(ctx, b.ctl, uploadID{u.ID})), infer.CodeConflict)
	wantCode(t, second(opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, u.Offset, append(file[half:], 1)})), infer.CodeInvalid)
	wantCode(t, second(opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, u.Offset, nil})), infer.CodeInvalid)

	// The same file again goes on where it stopped.
	again, err := opUploadBegin.do(ctx, b.ctl, begin)
	if err != nil || again.ID != u.ID || again.Offset != int64(half) {
		t.Fatalf("got %+v, %v", again, err)
	}
	if _, err = opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, u.Offset, file[half:]}); err != nil {
		t.Fatal(err)
	}
	b.done(opUploadFinish.do(ctx, b.ctl, uploadID{u.ID}))
	if r := b.until("three", modelLoaded); r.Source != "three.gguf" {
		t.Errorf("got %+v", r)
	}
	if list, err := opUploadList.do(ctx, b.ctl, none{}); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}

	// A byte that changed on the way is found, and nothing is installed.
	begin.File = "four.gguf"
	if u, err = opUploadBegin.do(ctx, b.ctl, begin); err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(file)
	bad[len(bad)-1] ^= 1
	if _, err = opUploadChunk.do(ctx, b.ctl, uploadPiece{u.ID, 0, bad}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.failed(opUploadFinish.do(ctx, b.ctl, uploadID{u.ID})), infer.CodeInvalid)
	wantCode(t, second(opUploadFinish.do(ctx, b.ctl, uploadID{u.ID})), infer.CodeNotFound)
}

func TestUploadRefusesWhatIsNotAFile(t *testing.T) {
	u := &uploads{dir: filepath.Join(t.TempDir(), "uploads"), now: time.Now}
	for _, r := range []uploadBegin{
		{File: "", Size: 1}, {File: "../x", Size: 1}, {File: "a/b", Size: 1}, {File: "..", Size: 1}, {File: ".", Size: 1}, {File: `a\b`, Size: 1},
		{File: "x\x00", Size: 1}, {File: strings.Repeat("x", 256), Size: 1}, {File: "x", Size: 0}, {File: "x", Size: 1 << 50}, {File: "x", Size: 1, Digest: "12"},
	} {
		if _, err := u.begin(r); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("%+v: got %v", r, err)
		}
	}
	for _, id := range []string{"", "..", "../../etc", strings.Repeat("0", 24), strings.Repeat("z", 24)} {
		wantCode(t, u.drop(id), infer.CodeNotFound)
		wantCode(t, second(u.chunk(uploadPiece{ID: id, Data: []byte("x")})), infer.CodeNotFound)
	}
	for i := range maxUploads + 1 {
		_, err := u.begin(uploadBegin{File: strings.Repeat("x", i+1), Size: 1})
		if (err != nil) != (i == maxUploads) {
			t.Errorf("upload %d: %v", i, err)
		}
	}
	// What nobody goes on with is cleared.
	u.now = func() time.Time { return time.Now().Add(uploadLife + time.Hour) }
	if list, err := u.list(); err != nil || len(list) != 0 {
		t.Errorf("got %d uploads, %v", len(list), err)
	}
}
