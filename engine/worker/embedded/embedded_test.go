package embedded

import "testing"

// A plain build carries no worker, and says so; a release's is a program. What
// is handed out is the embedded string itself: asking for it copies nothing.
func TestWorker(t *testing.T) {
	if w := Worker(); w != "" && len(w) < 1<<20 {
		t.Errorf("a worker of %d bytes", len(w))
	}
	saved := program
	defer func() { program = saved }()
	program = "\x7fELF" + string(make([]byte, 8<<20))
	if n := testing.AllocsPerRun(100, func() { Worker() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if Worker() != program {
		t.Error("the worker is not what is embedded")
	}
}
