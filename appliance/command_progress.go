package appliance

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"hearth/appliance/progress"
)

// longFlags are the flags of commands that take long.
type longFlags struct {
	quiet bool
	mode  string
}

func (f *longFlags) declare(fs *flag.FlagSet) {
	fs.BoolVar(&f.quiet, "quiet", false, "show no progress")
	fs.StringVar(&f.mode, "progress", "auto", "show progress as `MODE`: auto, bar, plain, json or none")
}

// shower is what shows the progress. With --json there is none unless it was
// asked for.
func (f *longFlags) shower(env *Env, asJSON bool) (*progress.Shower, error) {
	m, err := progress.ParseMode(f.mode)
	if err != nil {
		return nil, usagef("--progress: %v", err)
	}
	if f.quiet || asJSON && m == progress.Auto {
		m = progress.None
	}
	return progress.New(env.Stderr, progress.Options{Mode: m, Getenv: env.Getenv}), nil
}

// interruptible ends with a signal, so that a command can clear up.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// follow shows a job of the running server until it has ended. If ctx ends, the
// job is cancelled.
func follow(ctx context.Context, c *connection, j job, show *progress.Shower) (job, error) {
	defer show.Done()
	id, wait := j.ID, 100
	for {
		if j.Unit != "" {
			show.Set(j.Label, j.Unit, j.Done, j.Total)
		}
		if j.State != jobRunning {
			return j, j.err()
		}
		next, err := opJobShow.call(ctx, c, jobQuery{ID: id, WaitMS: wait})
		if ctx.Err() != nil {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_, _ = opJobCancel.call(late, c, jobID{id}) // it may just have ended
			return j, ctx.Err()
		}
		if err != nil {
			return j, err
		}
		j = next
	}
}

// shownWriter counts what goes through it. On a terminal that shows the bytes
// themselves nothing is drawn between them.
type shownWriter struct {
	w     io.Writer
	show  *progress.Shower
	label string
	done  int64
}

func (s *shownWriter) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.done += int64(n)
	if f, ok := s.w.(*os.File); ok {
		if st, serr := f.Stat(); serr == nil && st.Mode()&os.ModeCharDevice != 0 {
			return n, err
		}
	}
	s.show.Set(s.label, progress.Bytes, s.done, 0)
	return n, err
}
