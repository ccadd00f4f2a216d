package admin

// servingSamples are what the operations behind the pages of serving give, in
// full.
var servingSamples = map[string]string{
	"model/served": `[{"Name":"hearth-tiny","ready":true},{"Name":"qwen2.5-coder-0.5b","ready":false,"reason":"loading"}]`,
	"route/list":   `[{"name":"assistant"},{"name":"coder"}]`,
	"tenant/list":  `[{"name":"acme"},{"name":"research"}]`,
	"log/state":    `{"level":"debug","configured":"info","until":"2026-03-01T12:12:00Z","format":"text","access":true,"slow_ms":10000,"recent":2000,"levels":["debug","info","warn","error"]}`,
	"log/tail": `{"records":[
		{"seq":1,"at":"2026-03-01T11:58:01.123Z","level":"info","message":"model ready","attrs":[{"key":"model","value":"hearth-tiny"},{"key":"device","value":"cpu"},{"key":"took","value":"1.204s"}]},
		{"seq":2,"at":"2026-03-01T11:58:02.5Z","level":"debug","message":"control plane","attrs":[{"key":"method","value":"GET"},{"key":"path","value":"/logs"}]},
		{"seq":3,"at":"2026-03-01T11:59:12.001Z","level":"warn","message":"slow request","request":"req_ab12cd34ef","attrs":[{"key":"trace_id","value":"4bf92f3577b34da6a3ce929d0e0e4736"},{"key":"took","value":"12.3s"},{"key":"tenant","value":"acme"}]},
		{"seq":4,"at":"2026-03-01T11:59:59.9Z","level":"error","message":"model cannot be loaded","attrs":[{"key":"model","value":"qwen"},{"key":"error","value":"it needs 5210 MiB and 4100 MiB are free"}]}],"next":4}`,
	"backup/status": `{"schedule":{"next":"2026-03-02T03:00:00Z","next_drill":"2026-03-08T03:00:00Z","every":"24h0m0s","at":"03:00","keep":7,"dir":"/var/lib/hearth/backups","encrypted":true},
		"backups":2,"bytes":18350080,"free_bytes":91268055040,"newest":{"name":"hearth-auto-20260301T030000Z.tar.zst.enc","bytes":9175040,"encrypted":true,"created":"2026-03-01T03:00:00Z"},
		"newest_age_s":32400,"last_drill":{"backup":"hearth-auto-20260301T030000Z.tar.zst.enc","at":"2026-03-01T03:01:00Z","by":"schedule","ok":true,"faults":[],"rows":1201,"records":3020,"took_ns":2100000000},
		"pending_restore":{"backup":"hearth-20260228T101500Z.tar.zst","by":"ada (owner, password)","at":"2026-03-01T11:00:00Z","set":"replaced-20260301T110000Z","next":"restart the server: the restore takes its place at the next start"},
		"earlier_sets":["replaced-20260110T080000Z"],"problems":["a restore waits for the next start"]}`,
	"backup/list": `[{"name":"hearth-auto-20260301T030000Z.tar.zst.enc","bytes":9175040,"modified":"2026-03-01T03:00:00Z","kind":"scheduled","encrypted":true,"created":"2026-03-01T03:00:00Z","hearth":"1.2.3",
		"manifest":{"ledger":{"rows":1201,"records":3020,"charge_nano":18230000000,"keys":4},"members":[{"name":"hearth.toml","size":4120,"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},{"name":"ledger.db","size":24117248,"sha256":"60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}],
			"models":[{"name":"qwen2.5-coder-0.5b","digest":"sha256:aa11bb22cc33dd44","size":491400064}],"outside":["upstream openai credential = env:OPENAI_API_KEY"]},
		"drill":{"ok":true,"at":"2026-03-01T03:01:00Z","faults":[]}},
		{"name":"hearth-20260228T101500Z.tar.zst","bytes":9175040,"modified":"2026-02-28T10:15:00Z","kind":"manual","encrypted":false,"created":"2026-02-28T10:15:00Z","hearth":"1.2.2","note":"before the upgrade","drill":{"ok":false,"at":"2026-03-01T03:01:00Z","faults":["ledger.db: the digest differs"]}},
		{"name":"copied.tar.zst","bytes":12,"modified":"2026-02-01T10:15:00Z","created":"2026-02-01T10:15:00Z","encrypted":false,"problem":"cannot read this backup: it is no archive"}]`,
}
