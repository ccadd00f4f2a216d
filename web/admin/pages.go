package admin

import "slices"

// allPages is every page, in the order of the menu within its group.
func allPages() []*Page { return pageList }

var pageList = slices.Concat(boxPages, ownerPages)

// menuGroups is the order of the menu.
var menuGroups = []string{"Now", "Access", "Traffic", "Records", "Box"}

// boxPages are what the box does.
var boxPages = []*Page{
	{Path: "/", Title: "Overview", Group: "Now", File: "overview", Access: ReadTenant, Reads: []Query{
		{As: "o", Op: "telemetry/overview", Optional: true},
		{As: "s", Op: "telemetry/series", Args: map[string]string{"names:words": overviewSeries, "range": "$query.range", "most": "180"}, Optional: true},
	}},
	{Path: "/models", Title: "Models", Group: "Now", File: "models", Access: Read, Reads: []Query{
		{As: "models", Op: "model/list", Optional: true},
		{As: "jobs", Op: "job/list", Optional: true},
		{As: "uploads", Op: "model/upload/list", Optional: true},
	}},
	{Path: "/models/{name}", Title: "Model", File: "model", Access: Read, Reads: []Query{
		{As: "model", Op: "model/show", Args: map[string]string{"name": "$path.name"}},
		{As: "plan", Op: "model/plan", Optional: true, Args: map[string]string{
			"name": "$path.name", "context": "$query.context", "kv_memory": "$query.kv_memory", "max_sequences": "$query.max_sequences"}},
	}},
	{Path: "/playground", Title: "Playground", Group: "Now", File: "playground", Access: OperateTenant, Reads: []Query{
		{As: "models", Op: "model/served", Optional: true},
		{As: "routes", Op: "route/list", Optional: true},
		{As: "tenants", Op: "tenant/list", Optional: true},
	}},
	{Path: "/upstreams", Title: "Upstreams", Group: "Traffic", File: "upstreams", Access: Read, Reads: []Query{
		{As: "upstreams", Op: "upstream/list", Optional: true},
	}},
	{Path: "/routes", Title: "Routes", Group: "Traffic", File: "routes", Access: ReadTenant, Reads: []Query{
		{As: "routes", Op: "route/list", Optional: true},
	}},
	{Path: "/evidence", Title: "Evidence", Group: "Traffic", File: "evidence", Access: Read, Reads: []Query{
		{As: "evidence", Op: "evidence/list", Optional: true, Args: map[string]string{"kind": "$query.kind", "candidate": "$query.candidate"}},
		{As: "routes", Op: "route/list", Optional: true},
	}},
	{Path: "/evidence/{id}", Title: "Evidence", File: "evidence-one", Access: Read, Reads: []Query{
		{As: "record", Op: "evidence/show", Args: map[string]string{"id": "$path.id"}},
	}},
	{Path: "/logs", Title: "Logs", Group: "Records", File: "logs", Access: Read, Reads: []Query{
		{As: "log", Op: "log/state", Optional: true},
		{As: "tail", Op: "log/tail", Args: wholeQuery, Optional: true},
	}},
	{Path: "/backups", Title: "Backups", Group: "Box", File: "backups", Access: Read, Reads: []Query{
		{As: "status", Op: "backup/status", Optional: true},
		{As: "list", Op: "backup/list", Optional: true},
	}},
	{Path: "/diagnostics", Title: "Diagnostics", Group: "Box", File: "diagnostics", Access: Read, Reads: []Query{
		{As: "doctor", Op: "doctor/run", Optional: true, Args: map[string]string{"quick": "true"}},
		{As: "bundle", Op: "diagnostics/preview", Optional: true},
		{As: "observe", Op: "observe/files", Optional: true},
	}},
	{Path: "/about", Title: "About", Group: "Box", File: "about", Access: Read, Reads: []Query{
		{As: "about", Op: "about/show", Optional: true},
	}},
}

// overviewSeries are the lines that the overview draws.
const overviewSeries = "open running waiting tokens_in tokens_out requests errors refused kv_use spend ttft_p50 ttft_p95 ttft_p99 tpot_p50 tpot_p95 tpot_p99 " +
	"device.cpu.utilization device.cuda:0.utilization device.cuda:1.utilization device.cuda:2.utilization device.cuda:3.utilization " +
	"device.cuda:4.utilization device.cuda:5.utilization device.cuda:6.utilization device.cuda:7.utilization"
