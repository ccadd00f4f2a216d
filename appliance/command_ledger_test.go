package appliance

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/store"
)

// command runs a command line beside the running appliance.
func (b *testbed) command(args ...string) (code int, out string) {
	b.t.Helper()
	var buf bytes.Buffer
	env := &Env{Stdout: &buf, Stderr: &buf, Getenv: func(string) string { return "" }, Now: time.Now}
	code = Main(append(args, "--data", string(b.dir)), env)
	return code, buf.String()
}

func (b *testbed) says(code int, words string, args ...string) {
	b.t.Helper()
	got, out := b.command(args...)
	if got != code || !strings.Contains(out, words) {
		b.t.Errorf("hearth %s: exit %d\n%s\nwant exit %d and %q", strings.Join(args, " "), got, out, code, words)
	}
}

// TestLedgerOfProviders shows, exports, reconciles and corrects requests that
// providers served.
func TestLedgerOfProviders(t *testing.T) {
	b := newTestbed(t)
	ctx := context.Background()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, id := range []string{"good", "lost"} {
		_, err := b.store.Hold(ctx, store.HoldRequest{AmountNano: 1_000_000, Opening: store.Opening{RequestID: id, Tenant: "default", Started: at, Revision: "rev-7",
			Price: store.Price{Version: "p", Output: 1_000_000_000}}, Charges: []store.Charge{{Budget: "b", Window: "total", CapNano: 1 << 40}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	attempt := store.Attempt{Backend: "east", Provider: "openai", Model: "gpt-9", Started: at, Sent: true, UpstreamRequestID: "up-1", Outcome: store.OutcomeComplete}
	if _, err := b.store.Settle("good", store.Result{Outcome: store.OutcomeComplete, Usage: store.Usage{FreshInput: 10, Output: 500}, Termination: store.TermComplete,
		Losses: []string{"seed=dropped"}, Decisions: []string{"pii=redact"}, Attempts: []store.Attempt{attempt}}); err != nil {
		t.Fatal(err)
	}
	attempt.UpstreamRequestID, attempt.Failure, attempt.Status, attempt.Outcome = "up-2", "lost", 200, store.OutcomeAmbiguous
	if _, err := b.store.Ambiguous("lost", store.Result{Termination: store.TermUpstreamLost, Attempts: []store.Attempt{attempt}}); err != nil {
		t.Fatal(err)
	}
	b.says(0, "there known as up-1", "ledger", "show", "good")
	b.says(0, "seed=dropped", "ledger", "show", "good")
	b.says(0, "upstream_lost", "ledger", "show", "lost")
	b.says(0, `"upstream_request_id":"up-2"`, "ledger", "export")
	b.says(0, "up-1,-,0,true", "ledger", "export", "--format", "csv")
	b.says(0, "lost", "ledger", "list", "--outcome", "ambiguous")

	invoice := filepath.Join(t.TempDir(), "invoice.csv")
	write := func(lines string) {
		if err := os.WriteFile(invoice, []byte("start_time,model,num_model_requests,input_tokens,output_tokens,input_cached_tokens\n"+lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1793491200,gpt-9-2026-05-13,1,10,500,0\n")
	b.says(0, "1 of them the same", "ledger", "reconcile", "--invoice", invoice)
	b.says(0, "not known here: lost of 2026-11-01", "ledger", "reconcile", "--invoice", invoice)
	write("1793491200,gpt-9,2,25,510,0\n1793577600,gpt-9,1,1,1,0\n")
	b.says(1, "15", "ledger", "reconcile", "--invoice", invoice)
	b.says(1, "(not in the ledger)", "ledger", "reconcile", "--invoice", invoice, "--provider", "east")
	b.says(1, `"missing_here"`, "ledger", "reconcile", "--invoice", invoice, "--json")
	b.says(2, "--invoice is needed", "ledger", "reconcile")

	b.says(2, "--charge and --reason", "ledger", "resolve", "lost")
	b.says(0, "request lost is complete and charged 0.000010000 USD (it was ambiguous at 0.001000000 USD)",
		"ledger", "resolve", "lost", "--charge", "0.00001", "--reason", "invoice 17")
	b.says(exitConflict, "outcome is complete", "ledger", "resolve", "good", "--charge", "0", "--reason", "x")
	b.says(0, "invoice 17", "ledger", "audit")
	b.says(0, "corrected from", "ledger", "show", "lost")
	b.says(0, "no faults", "ledger", "check")
	if bal, err := b.store.Balance("b", "total"); err != nil || bal.SpentNano != 510_000 {
		t.Errorf("balance %+v, %v", bal, err)
	}

	b.says(0, "hk_", "key", "create", "--name", "narrow", "--tools", "get_*,list", "--data-classes", "public", "--regions", "eu", "--effects", "read-only")
	b.says(0, `"get_*"`, "key", "list", "--json")
	b.says(0, "key/create", "ledger", "audit")
	b.says(1, "cannot allow effect class", "key", "create", "--effects", "any")
}
