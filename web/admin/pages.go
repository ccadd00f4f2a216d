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
}
