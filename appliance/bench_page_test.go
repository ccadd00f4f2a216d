package appliance

import (
	"context"
	"math/rand"
	"net/http/httptest"
	"testing"
	"time"

	"hearth/store"
	"hearth/web/admin"
)

// The page that is looked at most, with an hour of samples.
func BenchmarkOverviewPage(b *testing.B) {
	a := benchGateway(b, script(b, ""))
	ctx := store.As(context.Background(), "test")
	ac, err := a.accounts.CreateWith(ctx, "owner", admin.Owner, "", "a long password of the owner")
	if err != nil {
		b.Fatal(err)
	}
	token, err := a.accounts.CreateToken(ctx, ac.ID, "test", admin.Owner, "", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	fillSeries(a)
	ask := func() int {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.RemoteAddr = "127.0.0.1:4711"
		r.Header.Set("Authorization", "Bearer "+token.Secret)
		w := httptest.NewRecorder()
		a.console.server.Handler().ServeHTTP(w, r)
		return w.Body.Len()
	}
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(ask())/1000, "KB/page")
	}
}

// fillSeries stands for an hour of samples of everything the overview draws.
func fillSeries(a *Appliance) {
	names := map[string]string{"open": "", "running": "", "waiting": "", "tokens_in": "tokens/s", "tokens_out": "tokens/s", "requests": "1/s", "errors": "1/s",
		"refused": "1/s", "kv_use": "ratio", "spend": "usd/h", "ttft_p50": "ms", "ttft_p95": "ms", "ttft_p99": "ms", "tpot_p50": "ms", "tpot_p95": "ms", "tpot_p99": "ms",
		"device.cpu.utilization": "ratio"}
	now := time.Now()
	for i := finePoints - 1; i > 0; i-- {
		var values []value
		for name, unit := range names {
			values = append(values, value{seriesInfo{name, name, unit}, 100 * rand.Float64()})
		}
		a.series.tick = min(a.series.tick, now.Add(-time.Duration(i+1)*fineEvery).UnixNano()/int64(fineEvery))
		a.series.add(now.Add(-time.Duration(i)*fineEvery), values, a.series.before())
	}
}
