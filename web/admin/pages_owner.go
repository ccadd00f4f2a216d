package admin

// wholeQuery passes every field of the page's address on.
var wholeQuery = map[string]string{"*": "$query"}

// ownerPages are who may do what, what it costs, and how the box is set up.
var ownerPages = []*Page{
	{Path: "/tenants", Title: "Tenants", Group: "Access", File: "tenants", Access: ReadTenant, Reads: []Query{
		{As: "tenants", Op: "tenant/list", Optional: true},
	}},
	{Path: "/tenants/{name}", Title: "Tenant", File: "tenant", Access: ReadTenant, Reads: []Query{
		{As: "tenants", Op: "tenant/list", Args: map[string]string{"tenant": "$path.name"}},
	}},
	{Path: "/spend", Title: "Budgets", Group: "Access", File: "spend", Access: ReadTenant, Reads: []Query{
		{As: "budgets", Op: "budget/list"},
		{As: "report", Op: "spend/report", Args: wholeQuery},
	}},
	{Path: "/keys", Title: "Keys", Group: "Access", File: "keys", Access: ReadTenant, Reads: []Query{
		{As: "keys", Op: "key/list"},
		{As: "tenants", Op: "tenant/list", Optional: true},
	}},
	{Path: "/keys/{id}", Title: "Key", File: "key", Access: ReadTenant, Reads: []Query{
		{As: "key", Op: "key/show", Args: map[string]string{"id": "$path.id"}},
	}},
	{Path: "/ledger", Title: "Ledger", Group: "Records", File: "ledger", Access: ReadTenant, Reads: []Query{
		{As: "page", Op: "ledger/list", Args: wholeQuery},
		{As: "position", Op: "ledger/position", Optional: true},
	}},
	{Path: "/ledger/{id}", Title: "Request", File: "request", Access: ReadTenant, Reads: []Query{
		{As: "found", Op: "ledger/show", Args: map[string]string{"id": "$path.id"}},
	}},
	{Path: "/content", Title: "Content", Group: "Records", File: "content", Access: ReadTenant, Reads: []Query{
		{As: "kept", Op: "content/list", Args: wholeQuery},
	}},
	{Path: "/content/{id}", Title: "Content", File: "content-one", Access: ReadTenant, Reads: []Query{
		{As: "kept", Op: "content/show", Args: map[string]string{"id": "$path.id"}},
	}},
	{Path: "/observe", Title: "Monitoring", Group: "Box", File: "observe", Access: Read, Reads: []Query{
		{As: "files", Op: "observe/files"},
	}},
	{Path: "/audit", Title: "Audit", Group: "Records", File: "audit", Access: Read, Reads: []Query{
		{As: "page", Op: "ledger/audit", Args: wholeQuery},
	}},
	{Path: "/certificates", Title: "Certificates", Group: "Box", File: "certificates", Access: Read, Reads: []Query{
		{As: "report", Op: "cert/show"},
		{As: "log", Op: "cert/events"},
	}},
	{Path: "/config", Title: "Configuration", Group: "Box", File: "config", Access: Read, Reads: []Query{
		{As: "config", Op: "config/get"},
		{As: "history", Op: "config/history"},
	}},
	{Path: "/config/{revision}", Title: "Revision", File: "revision", Access: Read, Reads: []Query{
		{As: "revision", Op: "config/show_revision", Args: map[string]string{"revision": "$path.revision"}},
		{As: "difference", Op: "config/diff", Args: map[string]string{"from": "$path.revision"}},
	}},
	{Path: "/accounts", Title: "Accounts", Group: "Access", File: "accounts", Access: Read, Reads: []Query{
		{As: "accounts", Op: "account/list"},
		{As: "sessions", Op: "session/list", Args: map[string]string{"all": "true"}, Optional: true},
		{As: "tokens", Op: "token/list", Args: map[string]string{"all": "true"}, Optional: true},
	}},
	{Path: "/accounts/{id}", Title: "Account", File: "account", Access: Read, Reads: []Query{
		{As: "account", Op: "account/show", Args: map[string]string{"id": "$path.id"}},
	}},
	{Path: "/me", Title: "My account", Group: "Access", File: "me", Access: Self, Reads: []Query{
		{As: "self", Op: "account/me"},
		{As: "passkeys", Op: "passkey/list", Optional: true},
		{As: "tokens", Op: "token/list", Optional: true},
		{As: "sessions", Op: "session/list"},
	}},
	{Path: "/setup/certificate", Title: "Certificate", File: "setup-certificate", Access: Own, Reads: []Query{
		{As: "report", Op: "cert/show"},
		{As: "config", Op: "config/get"},
	}},
	{Path: "/setup/model", Title: "Model", File: "setup-model", Access: Own, Reads: []Query{
		{As: "models", Op: "model/list", Optional: true},
	}},
	{Path: "/setup/tenant", Title: "First tenant and key", File: "setup-tenant", Access: Own, Reads: []Query{
		{As: "tenants", Op: "tenant/list"},
	}},
}
