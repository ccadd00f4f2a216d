package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hearth/appliance/progress"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// A job is work of an operation that goes on when its caller has gone: adding a
// model, loading one. Jobs are kept in memory: a restart ends them, and what they
// had done so far is cleared or taken up by what they work on.

// keptJobs is how many jobs that have ended are remembered.
const keptJobs = 100

// jobState is how far a job is.
type jobState string

const (
	jobRunning   jobState = "running"
	jobDone      jobState = "done"
	jobFailed    jobState = "failed"
	jobCancelled jobState = "cancelled"
)

// job is a snapshot of one job.
type job struct {
	ID       string        `json:"id"`
	Kind     string        `json:"kind"`    // the operation: "model/add"
	Subject  string        `json:"subject"` // what it works on
	State    jobState      `json:"state"`
	Label    string        `json:"label,omitempty"` // what it does now
	Done     int64         `json:"done"`
	Total    int64         `json:"total"` // 0: not known
	Unit     progress.Unit `json:"unit,omitempty"`
	Progress float64       `json:"progress"` // 0 to 1
	Actor    string        `json:"actor,omitempty"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"`
	Error    string        `json:"error,omitempty"`
	Code     infer.Code    `json:"code,omitempty"` // of Error
	Result   any           `json:"result,omitempty"`
}

// err is why the job did not succeed, nil while it runs and when it has.
func (j *job) err() error {
	switch j.State {
	case jobFailed:
		if j.Code != "" {
			return &infer.Error{Code: j.Code, Message: j.Error}
		}
		return errors.New(j.Error)
	case jobCancelled:
		return infer.Errorf(infer.CodeConflict, "%s of %s was cancelled", j.Kind, j.Subject)
	}
	return nil
}

// reporter takes note of a job's progress.
type reporter func(label string, unit progress.Unit, done, total int64)

// runningJob is a job and what ends it.
type runningJob struct {
	job
	cancel  context.CancelFunc
	changed chan struct{} // closed and renewed when the job ends
}

// jobs is the list of jobs. It is safe for concurrent use.
type jobs struct {
	now  func() time.Time
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards below
	serial int
	list   []*runningJob // the oldest first
}

func newJobs(now func() time.Time) *jobs {
	j := &jobs{now: now}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// close cancels all jobs and waits for them.
func (j *jobs) close() error {
	j.stop()
	j.wg.Wait()
	return nil
}

// start runs work under a new job. The work's context ends with the server or
// when the job is cancelled, not with ctx. One job of a kind at a time works on a
// subject: another one is refused.
func (j *jobs) start(ctx context.Context, kind, subject string, work func(ctx context.Context, report reporter) (any, error)) (job, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end := context.AfterFunc(j.ctx, cancel)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.list {
		if r.State == jobRunning && r.Subject == subject && subject != "" {
			cancel()
			return job{}, infer.Errorf(infer.CodeConflict, "cannot do this now: %s of %s is under way as job %s", r.Kind, subject, r.ID)
		}
	}
	if j.ctx.Err() != nil {
		cancel()
		return job{}, infer.Errorf(infer.CodeUnavailable, "the server is shutting down")
	}
	j.serial++
	r := &runningJob{cancel: cancel, changed: make(chan struct{}), job: job{
		ID: fmt.Sprintf("job-%d", j.serial), Kind: kind, Subject: subject, State: jobRunning, Actor: store.Actor(ctx), Started: j.now(),
	}}
	j.list = append(j.list, r)
	j.forget()
	j.wg.Go(func() {
		defer cancel()
		defer end()
		result, err := work(own, func(label string, unit progress.Unit, done, total int64) { j.note(r, label, unit, done, total) })
		j.finish(r, own, result, err)
	})
	return r.job, nil
}

// forget drops the oldest ended jobs. The lock is held.
func (j *jobs) forget() {
	ended := 0
	for _, r := range j.list {
		if r.State != jobRunning {
			ended++
		}
	}
	j.list = slices.DeleteFunc(j.list, func(r *runningJob) bool {
		if r.State == jobRunning || ended <= keptJobs {
			return false
		}
		ended--
		return true
	})
}

func (j *jobs) note(r *runningJob, label string, unit progress.Unit, done, total int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Label, r.Unit, r.Done, r.Total = label, unit, done, total
	if total > 0 {
		r.Progress = min(1, max(0, float64(done)/float64(total)))
	}
}

func (j *jobs) finish(r *runningJob, ctx context.Context, result any, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Ended, r.Result = j.now(), result
	var e *infer.Error
	switch {
	case err == nil:
		r.State, r.Progress = jobDone, 1
	case ctx.Err() != nil:
		r.State, r.Error = jobCancelled, "it was cancelled"
	default:
		r.State, r.Error = jobFailed, err.Error()
		if errors.As(err, &e) {
			r.Code, r.Error = e.Code, faultText(err)
		}
	}
	close(r.changed)
}

// all lists the jobs, the newest first.
func (j *jobs) all() []job {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]job, 0, len(j.list))
	for _, r := range slices.Backward(j.list) {
		out = append(out, r.job)
	}
	return out
}

// find gives a job and what is closed when it has ended.
func (j *jobs) find(id string) (job, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.list {
		if r.ID == id {
			return r.job, r.changed, nil
		}
	}
	return job{}, nil, infer.Errorf(infer.CodeNotFound, "there is no job %.64q", id)
}

// cancel asks a job to end; its state tells when it has.
func (j *jobs) cancel(id string) (job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.list {
		if r.ID == id {
			r.cancel()
			return r.job, nil
		}
	}
	return job{}, infer.Errorf(infer.CodeNotFound, "there is no job %.64q", id)
}

// maxJobWait bounds how long job/show waits for the end of a job.
const maxJobWait = 30 * time.Second

type jobQuery struct {
	ID     string `json:"id"`
	WaitMS int    `json:"wait_ms,omitempty"` // answer when the job has ended, at the latest after so long
}

type jobID struct {
	ID string `json:"id"`
}

var (
	opJobList = operation[none, []job]{
		name: "job/list", place: "GET /jobs", access: admin.Read,
		summary: "list long work, such as adding and loading models, the newest first",
		run: func(_ context.Context, c *control, _ none) ([]job, error) {
			if c.server == nil {
				return []job{}, nil
			}
			return c.server.jobs.all(), nil
		},
	}
	opJobShow = operation[jobQuery, job]{
		name: "job/show", place: "GET /jobs/{id}", access: admin.Read,
		summary: "how far a job is; wait_ms waits for its end, 30000 at most",
		run:     showJob,
	}
	opJobCancel = operation[jobID, job]{
		name: "job/cancel", place: "POST /jobs/{id}/cancel", access: admin.Operate,
		summary: "end a job before it is done; what it had begun is cleared",
		subject: func(r jobID) string { return r.ID },
		detail:  func(_ jobID, j job) string { return j.Kind + " of " + j.Subject },
		run: func(_ context.Context, c *control, r jobID) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.jobs.cancel(r.ID)
		},
	}
)

func showJob(ctx context.Context, c *control, q jobQuery) (job, error) {
	if c.server == nil {
		return job{}, errNoServer
	}
	if q.WaitMS < 0 {
		return job{}, infer.Invalid("wait_ms", "must not be negative, got %d", q.WaitMS)
	}
	j, ended, err := c.server.jobs.find(q.ID)
	if err != nil || q.WaitMS == 0 || j.State != jobRunning {
		return j, err
	}
	t := time.NewTimer(min(maxJobWait, time.Duration(q.WaitMS)*time.Millisecond))
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	case <-ctx.Done():
	}
	j, _, err = c.server.jobs.find(q.ID)
	return j, err
}
