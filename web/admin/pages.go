package admin

// allPages is every page, in the order of the menu.
func allPages() []*Page { return pageList }

var pageList = []*Page{
	{Path: "/", Title: "Overview", Group: "Now", File: "overview", Access: ReadTenant, Reads: []Query{
		{As: "models", Op: "model/served", Optional: true},
	}},
	{Path: "/keys", Title: "Keys", Group: "Access", File: "keys", Access: ReadTenant, Reads: []Query{
		{As: "keys", Op: "key/list"},
	}},
	{Path: "/audit", Title: "Audit", Group: "Records", File: "audit", Access: Read, Reads: []Query{
		{As: "page", Op: "ledger/audit", Args: map[string]string{"*": "$query"}},
	}},
}
