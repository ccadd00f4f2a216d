package appliance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/engine/worker/report"
	"hearth/web/admin"
)

// deviceList is what models can run on.
type deviceList struct {
	CPU  deviceView   `json:"cpu"`
	GPUs *report.List `json:"gpus"`
	// Models are what runs where, of a running server.
	Models []deviceUse `json:"models"`
}

// deviceUse is a model and what it runs on.
type deviceUse struct {
	Model    string `json:"model"`
	Device   string `json:"device"`
	Degraded string `json:"degraded,omitempty"` // why it is not where it was meant to be
}

type deviceQuery struct {
	Device  string `json:"device,omitempty"`  // "cuda:N" or a UUID; empty: all
	Seconds int    `json:"seconds,omitempty"` // of measuring, about; 0: 10
}

// deviceReport is what a doctor of the GPUs says.
type deviceReport struct {
	Failed   int              `json:"failed"`
	Warned   int              `json:"warned"`
	Findings []report.Finding `json:"findings"`
}

// Bounds on a measurement.
const maxBenchSeconds = 120

var (
	opDeviceList = operation[none, deviceList]{
		name: "device/list", place: "GET /devices", access: admin.Read,
		summary: "what models can run on, and which model runs where",
		run:     listDevices,
	}
	opDeviceDoctor = operation[deviceQuery, deviceReport]{
		name: "device/doctor", place: "POST /devices/doctor", access: admin.Operate,
		summary: "take each GPU into use as a model would, with a remedy for what fails",
		run:     examineDevices,
	}
	opDeviceBench = operation[deviceQuery, report.Bench]{
		name: "device/bench", place: "POST /devices/bench", access: admin.Operate,
		summary: "measure a GPU: copies, and kernels against the least time that they can take",
		run:     benchDevice,
	}
)

// driverPath is where the GPU's driver is configured to be.
func (c *control) driverPath() (string, error) {
	conf, err := c.config()
	if err != nil || conf.CUDA.Library == "" {
		return "", err
	}
	return c.dir.resolve(conf.CUDA.Library), nil
}

func listDevices(ctx context.Context, c *control, _ none) (deviceList, error) {
	library, err := c.driverPath()
	if err != nil {
		return deviceList{}, err
	}
	out := deviceList{GPUs: listGPUs(ctx, c.dir, library), Models: []deviceUse{}}
	reader := newCPUReader()
	if c.server != nil {
		reader = c.server.telemetry.cpu
		for _, s := range c.server.models.states(ctx) {
			if s.info.Device != "" || s.health.Degraded != "" {
				out.Models = append(out.Models, deviceUse{s.info.Name, s.info.Device, s.health.Degraded})
			}
		}
	}
	d := reader.read(time.Now())
	out.CPU = viewOf(&d)
	return out, nil
}

func examineDevices(ctx context.Context, c *control, q deviceQuery) (deviceReport, error) {
	library, err := c.driverPath()
	if err != nil {
		return deviceReport{}, err
	}
	var found report.Checkup
	if err := askGPU(ctx, c.dir, gpuDoctor, report.Query{Library: library, Device: q.Device}, doctorTimeout, &found); err != nil {
		f := asFault(err)
		found.Fail("gpu worker", f.Fix, "%s", f.Error())
	}
	r := deviceReport{Findings: append([]report.Finding{}, found.Findings...)}
	for _, f := range r.Findings {
		switch f.State {
		case stateFail:
			r.Failed++
		case stateWarn:
			r.Warned++
		}
	}
	return r, nil
}

func benchDevice(ctx context.Context, c *control, q deviceQuery) (report.Bench, error) {
	var b report.Bench
	if q.Seconds < 0 || q.Seconds > maxBenchSeconds {
		return b, infer.Invalid("seconds", "got %d, wanted 1 to %d, or 0 for 10", q.Seconds, maxBenchSeconds)
	}
	library, err := c.driverPath()
	if err != nil {
		return b, err
	}
	limit := time.Duration(q.Seconds)*time.Second + benchSlack
	if err := askGPU(ctx, c.dir, gpuBench, report.Query{Library: library, Device: q.Device, Seconds: q.Seconds}, limit, &b); err != nil {
		f := asFault(err)
		return b, infer.Errorf(infer.CodeUnavailable, "cannot measure: %s", strings.TrimSuffix(f.Error(), "."))
	}
	return b, nil
}

// degradedText is what readiness and the log say of a model that is not where it
// was meant to be.
func degradedText(s *modelState) string {
	return fmt.Sprintf("model %s runs on %s: %s", s.info.Name, orDash(s.info.Device), s.health.Degraded)
}
