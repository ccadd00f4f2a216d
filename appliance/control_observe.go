package appliance

import (
	"context"

	"hearth/appliance/observe"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// observeFile is a file for Prometheus or Grafana.
type observeFile struct {
	Name      string `json:"name"`
	FileName  string `json:"file_name"`
	MediaType string `json:"media_type"`
	Summary   string `json:"summary"`
	Bytes     int    `json:"bytes"`
}

type observeQuery struct {
	Name string `json:"name"` // "dashboard", "rules", "alerts"
}

var (
	opObserveFiles = operation[none, []observeFile]{
		name: "observe/files", place: "GET /observe", access: admin.Read,
		summary: "the dashboard and the rules that can be had for Grafana and Prometheus",
		run: func(context.Context, *control, none) ([]observeFile, error) {
			var out []observeFile
			for _, f := range observe.Files() {
				out = append(out, observeFile{f.Name, f.FileName, f.MediaType, f.Summary, len(f.Data)})
			}
			return out, nil
		},
	}
	opObserveFile = streamOperation[observeQuery]{
		operation: operation[observeQuery, none]{
			name: "observe/file", place: "GET /observe/{name}", access: admin.Read,
			summary: "download one of them: dashboard, rules or alerts",
		},
		stream: func(_ context.Context, _ *control, q observeQuery, w admin.Writer) error {
			for _, f := range observe.Files() {
				if f.Name == q.Name {
					w.Begin(f.MediaType, f.FileName)
					_, err := w.Write(f.Data)
					return err
				}
			}
			return infer.Errorf(infer.CodeNotFound, "there is no file %.32q: wanted dashboard, rules or alerts", q.Name)
		},
	}
)
