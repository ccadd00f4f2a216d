//go:build unix

package ptx

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// BenchmarkParse reads the largest module that ships.
func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile("../cuda/ptx/linear_float.compute_80.ptx")
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := Parse(src); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime is the CPU time of the process: the machine may be busy.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var modes = []struct {
	name string
	opt  Options
}{{"plain", Options{}}, {"checks", Options{Checks: true}}, {"all", Options{Checks: true, Count: true}}}

// measure reports million thread instructions a CPU second of a launch.
func measure(b *testing.B, opt Options, setup func(x *bench) func() *Report) {
	opt.Workers = 1
	x := open(b, "good.compute_80.ptx", opt)
	count := opt
	count.Count = true
	n := setup(open(b, "good.compute_80.ptx", count))().Counts.ThreadInstr
	run := setup(x)
	run()
	start := cpuTime()
	b.ResetTimer()
	for range b.N {
		run()
	}
	s := (cpuTime() - start).Seconds()
	b.ReportMetric(float64(n)*float64(b.N)/s/1e6, "Minstr/s")
	b.ReportMetric(s/float64(b.N)*1e3, "cpu-ms/op")
}

func BenchmarkGemv(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			measure(b, m.opt, func(x *bench) func() *Report {
				rows, k := 256, 2048
				W, v, y := x.put(make([]uint16, rows*k)), x.put(make([]float32, k)), x.room(4*rows)
				return func() *Report {
					return x.clean("gemv", Dim{X: uint32(rows / 4)}, Dim{X: 128}, 0, W, v, y, int32(rows), int32(k))
				}
			})
		})
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			measure(b, m.opt, func(x *bench) func() *Report {
				const n, k = 128, 512
				A, B, C := x.put(make([]uint16, n*k)), x.put(make([]uint16, n*k)), x.room(4*n*n)
				return func() *Report {
					return x.clean("gemm", Dim{X: 2, Y: 2}, Dim{X: 128}, 6*64*32*2, A, B, C, int32(n), int32(n), int32(k))
				}
			})
		})
	}
}

func BenchmarkSoftmax(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			measure(b, m.opt, func(x *bench) func() *Report {
				const rows, n = 64, 1000
				in, out := x.put(make([]float32, rows*n)), x.room(4*rows*n)
				return func() *Report { return x.clean("softmax", Dim{X: rows}, Dim{X: 128}, 0, in, out, int32(n)) }
			})
		})
	}
}

func BenchmarkHistogram(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			measure(b, m.opt, func(x *bench) func() *Report {
				in, out := x.put(make([]byte, 100000)), x.put(make([]uint32, 256))
				return func() *Report { return x.clean("histogram", Dim{X: 20}, Dim{X: 128}, 0, in, int32(100000), out) }
			})
		})
	}
}

// BenchmarkLaunch is the cost of a launch that does next to nothing.
func BenchmarkLaunch(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			measure(b, m.opt, func(x *bench) func() *Report {
				in, out := x.put(make([]float32, 32)), x.put(make([]float32, 32))
				return func() *Report {
					return x.clean("saxpy", Dim{X: 1}, Dim{X: 32}, 0, float32(2), in, out, int32(32))
				}
			})
		})
	}
}
