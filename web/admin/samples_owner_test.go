package admin

func init() { sampleSets = append([]map[string]string{ownerSamples}, sampleSets...) }

const sampleRow = `{"request_id":"req_ab12cd34ef","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","tenant":"acme","key_id":"a5q4istx34ay","operation":"chat","model":"assistant","route":"assistant","stream":true,"started":"2026-03-01T11:58:00.5Z","contract":"9f86d081884c7d65","revision":"7d65","price":{"version":"2026-03","input":100000000,"cached":50000000,"cache_write":100000000,"output":400000000},
	"outcome":"ambiguous","finish":"stop","error_code":"upstream_error","backend":"claude","termination":"upstream_lost","ttft_ns":182000000,"ended":"2026-03-01T11:58:09.1Z","usage":{"fresh_input":812,"cached_input":4096,"cache_write":64,"output":311,"reasoning":20,"estimated":true},
	"attempts":[{"backend":"openai","provider":"openai","model":"gpt-4.1","started":"2026-03-01T11:58:00.6Z","took_ns":5000000000,"outcome":"error","error_code":"upstream_error","failure":"timeout","status":504,"sent":true},{"backend":"claude","provider":"anthropic","model":"claude-sonnet-4-5","started":"2026-03-01T11:58:05.6Z","took_ns":3500000000,"outcome":"ambiguous","upstream_request_id":"req_011CP","status":200,"sent":true}],
	"losses":["seed=dropped"],"decisions":["no-shell=tag"],"hold_nano":21000000,"charge_nano":21000000,"overdraft_nano":1000,"budgets":[{"budget":"tenant/acme","window":"2026-03","cap_nano":10000000000,"held_nano":-21000000,"spent_nano":21000000}],"seq":812,"hold_seq":811,"corrected":{"record":700,"outcome":"unknown","charge_nano":30000000,"overdraft_nano":0}}`

const sampleKey = `{"id":"a5q4istx34ay","tenant":"acme","name":"laptop","state":"live","created":"2026-02-01T10:00:00Z","expires":"2026-06-01T10:00:00Z","rotated":"2026-02-20T10:00:00Z","last_used":"2026-03-01T11:58:00Z","models":["assistant","hearth-*"],"limits":{"requests_per_minute":60,"tokens_per_minute":100000,"concurrency":4},"budgets":[{"period":"day","cap_nano":1000000000}],"tools":["search"],
	"spend":[{"period":"day","cap_nano":1000000000,"spent_nano":120000000,"held_nano":3000000}]}`

const sampleChanged = `"changed":[{"path":"tenant[acme].limits.concurrency","old":4,"new":8},{"path":"server.listen","old":"localhost:8443","new":":8443","restart":true},{"path":"route[coder]","new":{"model":"coder"}}],"diff":"--- in the file\n+++ new\n@@ -1,3 +1,3 @@\n [server]\n-listen = \"localhost:8443\"\n+listen = \":8443\"\n"`

// ownerSamples are what the operations behind the pages of access, records and
// set-up give, in full.
var ownerSamples = map[string]string{
	"key/list":        `[` + sampleKey + `,{"id":"b5q4istx34ay","tenant":"research","name":"old","state":"revoked","created":"2026-02-01T10:00:00Z","revoked":"2026-02-11T10:00:00Z","disabled":true,"limits":{}}]`,
	"key/show":        sampleKey,
	"key/create":      `{"id":"a5q4istx34ay","tenant":"acme","name":"laptop","secret":"hk_a5q4istx34ay_0123"}`,
	"ledger/list":     `{"rows":[` + sampleRow + `],"next":700}`,
	"ledger/show":     `{"row":` + sampleRow + `,"records":[{"seq":811,"kind":"hold","at":"2026-03-01T11:58:00.5Z"}]}`,
	"ledger/position": `{"seq":812,"head":"60303ae22b998861bce3b28f33eec1be","last_check":{"seq":800,"head":"60303ae2","at":"2026-03-01T03:00:00Z","by":"schedule","records":800,"faults":0,"took_ns":120000000}}`,
	"ledger/check":    `{"records":812,"first":1,"last":812,"head":"60303ae22b998861bce3b28f33eec1be","rows":300,"open_holds":1,"held_nano":21000000,"balances":3,"overdraft_nano":0,"keys":2,"once":0,"corrections":1,"audits":20,"faults":[{"seq":7,"what":"its hash is not that of the record before"}],"took_ns":120000000}`,
	"ledger/audit":    `{"entries":[{"seq":810,"at":"2026-03-01T11:50:00Z","kind":"audit","actor":"ada (owner, password) from 192.0.2.7:5001","action":"config/apply","subject":"configuration","detail":"revision 12"}],"next":790}`,
	"cert/show": `{"mode":"internal","min_version":"1.2","running":true,"signer":"Hearth intermediate","warnings":["the clock is before the root's first day"],"overlap":{"since":"2026-02-01T00:00:00Z","old_fingerprint_sha256":"AA:BB"},
		"certificates":[{"source":"internal","name":"localhost","state":"in use","names":["localhost","127.0.0.1"],"issuer":"Hearth intermediate","not_after":"2026-03-08T00:00:00Z","days_left":6,"next_renewal":"2026-03-05T00:00:00Z","last_error":"the directory does not answer","failed_at":"2026-02-28T00:00:00Z","chain":[{"subject":"CN=localhost","issuer":"CN=Hearth intermediate","serial":"1f","fingerprint_sha256":"AB:CD","not_before":"2026-03-01T00:00:00Z","not_after":"2026-03-08T00:00:00Z","key_type":"ECDSA P-256","authority":false}]}],
		"roots":[{"subject":"CN=Hearth root","issuer":"CN=Hearth root","serial":"1","fingerprint_sha256":"EF:01","not_before":"2026-01-01T00:00:00Z","not_after":"2036-01-01T00:00:00Z","key_type":"ECDSA P-256","authority":true}],
		"trust":[{"os":"Debian, Ubuntu","steps":["Copy the file.","$ sudo update-ca-certificates"],"undo":["$ sudo update-ca-certificates --fresh"]}]}`,
	"cert/events":          `{"events":[{"time":"2026-03-01T00:00:00Z","kind":"renewed","source":"internal","name":"localhost","issuer":"Hearth intermediate","not_after":"2026-03-08T00:00:00Z"},{"time":"2026-02-28T00:00:00Z","kind":"failed","source":"acme","name":"box.example","error":"the directory does not answer"}]}`,
	"config/get":           `{"file":"/var/lib/hearth/appliance.toml","text":"[server]\nlisten = \"localhost:8443\"\n","digest":"9f86d081884c7d659a2feaa0c55ad015","bytes":40,"revision":12,"author":"ada (owner, password)","changed":"2026-03-01T10:00:00Z","in_force":"9f86d081","faults":[{"line":3,"key":"server.listn","message":"unknown key, did you mean listen?"}],"doubts":[{"line":9,"key":"upstream[0].credential","message":"cannot be read here"}],"restart":["server.listen"],"pending":{"revision":12,"back_to":11,"until":"2026-03-01T12:01:00Z"},"tree":{}}`,
	"config/history":       `[{"revision":12,"at":"2026-03-01T10:00:00Z","author":"ada (owner, password)","how":"apply","note":"more room","digest":"9f86d081884c7d659a2feaa0c55ad015","bytes":40,"changed":["server.listen"]},{"revision":11,"at":"2026-02-01T10:00:00Z","author":"file, found at start","how":"start","digest":"60303ae22b99","bytes":38}]`,
	"config/show_revision": `{"revision":11,"at":"2026-02-01T10:00:00Z","author":"file, found at start","how":"start","digest":"60303ae22b99","bytes":38,"text":"[server]\n"}`,
	"config/diff":          `{"from":"revision 11","to":"the file",` + sampleChanged + `}`,
	"config/check":         `{"ok":true,"faults":[],"doubts":[{"key":"price","message":"is old"}],` + sampleChanged + `,"restart":["server.listen"],"owner":["admin.listen"],"digest":"aa","against":"9f86d081","conflict":true}`,
	"config/apply":         `{"revision":13,"digest":"aa",` + sampleChanged + `,"restart":["server.listen"],"confirm_by":"2026-03-01T12:05:00Z"}`,
	"account/list":         `[{"id":"acc_1","name":"ada","role":"owner","created":"2026-01-01T00:00:00Z","last_sign_in":"2026-03-01T09:00:00Z","disabled":false,"methods":["password","passkey"],"passkeys":1,"sessions":2,"tokens":1},{"id":"acc_2","name":"tim","role":"tenant-admin","tenant":"acme","created":"2026-02-01T00:00:00Z","disabled":true,"methods":[],"passkeys":0,"invited_until":"2026-03-02T00:00:00Z","sessions":0,"tokens":0}]`,
	"account/show":         `{"id":"acc_2","name":"tim","role":"tenant-admin","tenant":"acme","created":"2026-02-01T00:00:00Z","disabled":false,"methods":["password"],"passkeys":0,"sessions":1,"tokens":0}`,
	"account/me":           `{"user":"ada","role":"owner","method":"password","fresh":true,"session":"s1","account":{"id":"acc_1","name":"ada","role":"owner","created":"2026-01-01T00:00:00Z","disabled":false,"methods":["password"],"passkeys":1,"sessions":2,"tokens":1}}`,
	"account/create":       `{"id":"acc_3","name":"eve","role":"auditor","created":"2026-03-01T00:00:00Z","disabled":false,"methods":[],"invitation_url":"https://localhost:8444/setup#abc"}`,
	"passkey/list":         `[{"id":"pk1","name":"phone","host":"localhost","created":"2026-02-01T00:00:00Z","last_used":"2026-03-01T09:00:00Z","synced":true}]`,
	"session/list":         `[{"id":"s1","user":"ada","role":"owner","method":"password","network":"192.0.2.7","created":"2026-03-01T09:00:00Z","last_used":"2026-03-01T11:59:00Z","expires":"2026-03-01T21:00:00Z","current":true}]`,
	"token/list":           `[{"id":"t1","name":"ci","account":"acc_1","user":"ada","role":"auditor","created":"2026-02-01T00:00:00Z","used":"2026-03-01T08:00:00Z","expires":"2026-05-01T00:00:00Z"}]`,
	"token/create":         `{"id":"t1","name":"ci","secret":"ha_0123"}`,
}
