// Package observe holds what Prometheus and Grafana need to watch a Hearth: a
// dashboard, recording rules and alerts, made for the names that /metrics has.
package observe

import _ "embed"

//go:embed dashboard.json
var dashboard []byte

//go:embed rules.yml
var rules []byte

//go:embed alerts.yml
var alerts []byte

// File is one of the files.
type File struct {
	Name      string // "dashboard", "rules", "alerts"
	FileName  string
	MediaType string
	Summary   string
	Data      []byte
}

// Files lists the files.
func Files() []File {
	return []File{
		{"dashboard", "hearth-dashboard.json", "application/json", "Grafana: import it and choose a Prometheus data source", dashboard},
		{"rules", "hearth-rules.yml", "application/yaml", "Prometheus recording rules: put it under rule_files", rules},
		{"alerts", "hearth-alerts.yml", "application/yaml", "Prometheus alerts: put it under rule_files, beside the recording rules", alerts},
	}
}
