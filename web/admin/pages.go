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
		{As: "models", Op: "model/served", Optional: true},
	}},
	{Path: "/playground", Title: "Playground", Group: "Now", File: "playground", Access: OperateTenant, Reads: []Query{
		{As: "models", Op: "model/served", Optional: true},
		{As: "routes", Op: "route/list", Optional: true},
		{As: "tenants", Op: "tenant/list", Optional: true},
	}},
	{Path: "/logs", Title: "Logs", Group: "Records", File: "logs", Access: Read, Reads: []Query{
		{As: "log", Op: "log/state", Optional: true},
		{As: "tail", Op: "log/tail", Args: wholeQuery, Optional: true},
	}},
	{Path: "/backups", Title: "Backups", Group: "Box", File: "backups", Access: Read, Reads: []Query{
		{As: "status", Op: "backup/status", Optional: true},
		{As: "list", Op: "backup/list", Optional: true},
	}},
}
