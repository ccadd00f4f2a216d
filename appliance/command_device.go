package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/engine/worker/report"
)

func deviceCommand() *command {
	return &command{
		name: "device", short: "list, examine and measure what models run on",
		long: "Works beside a running server and without one. Beside one it is the server that looks, with its rights.",
		sub:  []*command{deviceListCommand(), deviceDoctorCommand(), deviceBenchCommand()},
	}
}

// connectDevices finds a running server; without one this process looks, which
// needs no store.
func connectDevices(ctx context.Context, env *Env, dir dataDir, file string, named bool) (*connection, error) {
	if c, err := dialAdmin(ctx, dir); err == nil {
		c.Close()
		return connect(env, dir, nil)
	}
	read := func() (*config.Config, error) {
		if named {
			return config.Load(file)
		}
		return loadOrDefault(file)
	}
	return &connection{local: &control{dir: dir, file: file, config: read}, close: func() error { return nil }}, nil
}

func deviceListCommand() *command {
	return &command{
		name: "list", short: "list processors and GPUs, and what runs on them",
		setup: over(connectDevices, func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				ctx, stop := interruptible(ctx)
				defer stop()
				l, err := opDeviceList.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, l)
				}
				return l.write(env.Stdout)
			}
		}),
	}
}

// write tells the list in a table, and in words what is wrong.
func (l *deviceList) write(w io.Writer) error {
	on := func(id string) string {
		var names []string
		for _, m := range l.Models {
			for d := range strings.SplitSeq(m.Device, ",") {
				if d == id {
					names = append(names, m.Model)
				}
			}
		}
		return orDash(strings.Join(names, " "))
	}
	err := table(w, func(w io.Writer) {
		fmt.Fprintln(w, "DEVICE\tNAME\tMEMORY\tFREE\tTEMP\tPOWER\tBUSY\tMODELS\tUUID\tNOTE")
		cpu := l.CPU.Readings
		free := int64(cpu[infer.ReadMemoryTotal] - cpu[infer.ReadMemoryUsed])
		fmt.Fprintf(w, "cpu\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t-\t\n", l.CPU.Name, bytesText(int64(cpu[infer.ReadMemoryTotal])), bytesText(free),
			unit(cpu, infer.ReadTemperature, "%.0f °C", 1), unit(cpu, infer.ReadPower, "%.0f W", 1), unit(cpu, infer.ReadUtilization, "%.0f %%", 100), on("cpu"))
		for i := range l.GPUs.Devices {
			d := &l.GPUs.Devices[i]
			r := map[string]float64{}
			for _, x := range d.Readings {
				r[x.Name] = x.Value
			}
			free := "-"
			if d.FreeBytes > 0 {
				free = bytesText(d.FreeBytes)
			}
			fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, d.Name, d.Compute, bytesText(d.MemoryBytes), free,
				unit(r, infer.ReadTemperature, "%.0f °C", 1), unit(r, infer.ReadPower, "%.0f W", 1), unit(r, infer.ReadUtilization, "%.0f %%", 100), on(d.ID), d.UUID, deviceNote(d))
		}
	})
	if err != nil {
		return err
	}
	if g := l.GPUs; g.Fault == nil {
		fmt.Fprintf(w, "\nNVIDIA driver %s, CUDA up to %s, %s\n", orDash(g.Driver), g.CUDA, g.Library)
		if g.Driver == "" {
			fmt.Fprintf(w, "%s\n", g.NVML)
		}
	} else {
		fmt.Fprintf(w, "\nno GPU: %s\n", g.Fault.Error())
		if g.Fault.Fix != "" {
			fmt.Fprintf(w, "fix: %s\n", g.Fault.Fix)
		}
	}
	for _, m := range l.Models {
		if m.Degraded != "" {
			fmt.Fprintf(w, "model %s runs on %s: %s\n", m.Model, orDash(m.Device), m.Degraded)
		}
	}
	return nil
}

// unit shows a reading, or that there is none.
func unit(r map[string]float64, name, format string, factor float64) string {
	v, ok := r[name]
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, v*factor)
}

// deviceNote is what an operator should know of a GPU.
func deviceNote(d *report.Device) string {
	var notes []string
	if d.Fault != nil {
		notes = append(notes, d.Fault.Error())
	}
	if len(d.Throttle) > 0 {
		notes = append(notes, "slowed down for "+strings.Join(d.Throttle, ", "))
	}
	if n, ok := d.Read(infer.ReadECCUncorrected); ok && n > 0 {
		notes = append(notes, fmt.Sprintf("%.0f memory errors", n))
	}
	return strings.Join(notes, "; ")
}

func deviceDoctorCommand() *command {
	return &command{
		name: "doctor", args: "[DEVICE]", short: "take each GPU into use as a model would and name one fix for each finding",
		long: "Loads the driver, compiles every kernel, and moves some memory. Exits 1 if something fails.",
		setup: askOfGPU("doctor", &opDeviceDoctor, func(*flag.FlagSet, *deviceQuery) {}, (*deviceReport).write, func(r *deviceReport) error {
			if r.Failed > 0 {
				return errFound
			}
			return nil
		}),
	}
}

// askOfGPU makes the setup of a command that has an operation about one GPU or
// about all, writes what comes back, or as JSON, and judges it.
func askOfGPU[T any](name string, op *operation[deviceQuery, T], declare func(*flag.FlagSet, *deviceQuery), write func(*T, io.Writer) error,
	judge func(*T) error) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return over(connectDevices, func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
		var q deviceQuery
		declare(fs, &q)
		return func(ctx context.Context, env *Env, c *connection, args []string) error {
			if len(args) > 1 {
				return usagef("device %s: got %d devices, wanted one or none", name, len(args))
			}
			if len(args) == 1 {
				q.Device = args[0]
			}
			ctx, stop := interruptible(ctx)
			defer stop()
			r, err := op.call(ctx, c, q)
			if err != nil {
				return err
			}
			if af.json {
				err = printJSON(env.Stdout, r)
			} else {
				err = write(&r, env.Stdout)
			}
			if err != nil {
				return err
			}
			return judge(&r)
		}
	})
}

func (r *deviceReport) write(w io.Writer) error {
	err := table(w, func(w io.Writer) {
		for _, f := range r.Findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Name, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(w, "\t\tfix: %s\n", f.Fix)
			}
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(w, "%d looked at: %d fail, %d to look after\n", len(r.Findings), r.Failed, r.Warned)
	}
	return err
}

func deviceBenchCommand() *command {
	return &command{
		name: "bench", args: "[DEVICE]", short: "measure a GPU: copies, and kernels against their floor",
		long: `The floor of a kernel is the least time in which its bytes can be read and its
products made, by the clocks of the GPU; the share is how near to it a launch comes.`,
		setup: askOfGPU("bench", &opDeviceBench, func(fs *flag.FlagSet, q *deviceQuery) {
			fs.IntVar(&q.Seconds, "seconds", 0, "measure for about `N` seconds; 0: 10")
		}, writeBench, func(*report.Bench) error { return nil }),
	}
}

func writeBench(b *report.Bench, w io.Writer) error {
	fmt.Fprintf(w, "%s, %s\n\n", b.Device.ID, b.Device.Name)
	return table(w, func(w io.Writer) {
		fmt.Fprintln(w, "COPY\tSIZE\tGB/s")
		for _, c := range b.Copies {
			fmt.Fprintf(w, "%s\t%s\t%.1f\n", c.Way, bytesText(c.Bytes), c.BytesPerSec/1e9)
		}
		fmt.Fprintln(w, "\nKERNEL\tROWS×N×K\tTIME\tFLOOR\tSHARE")
		for _, r := range b.Rows {
			fmt.Fprintf(w, "%s\t%s\t%.1f µs\t%.1f µs\t%.0f %%\n", r.Kernel, r.Shape, r.Seconds*1e6, r.Floor*1e6, 100*r.Share)
		}
	})
}
