package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/sse"
)

// statusView is the status as a viewer may see it, for the template and, as
// JSON, for the script of the page. Times are milliseconds, money is nano-USD.
type statusView struct {
	Version  string        `json:"version"`
	Uptime   int64         `json:"uptime_s"`
	Ready    bool          `json:"ready"`
	Reason   string        `json:"reason"`
	Open     int           `json:"open"`
	Operator bool          `json:"operator"`
	Tenant   string        `json:"tenant"`
	Models   []modelView   `json:"models"`
	Latency  []latencyView `json:"latency"`
	Spend    []spendView   `json:"spend"`
	Choices  []string      `json:"choices"` // what the chat may ask for
	// For operators only.
	OpenHolds int            `json:"open_holds"`
	HeldNano  int64          `json:"held_nano"`
	Ledger    uint64         `json:"ledger"`
	Upstreams []upstreamView `json:"upstreams"`
	Recent    []recentView   `json:"recent"`
}

type modelView struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Quantization string `json:"quantization"`
	Parameters   int64  `json:"parameters"`
	FileBytes    int64  `json:"file_bytes"`
	Context      int    `json:"context"`
	Device       string `json:"device"`
	Ready        bool   `json:"ready"`
	Reason       string `json:"reason"`
	Running      int    `json:"running"`
	Waiting      int    `json:"waiting"`
	BlocksUsed   int    `json:"blocks_used"`
	BlocksCached int    `json:"blocks_cached"`
	BlocksTotal  int    `json:"blocks_total"`
	PrefixPct    int    `json:"prefix_pct"`
	Preemptions  uint64 `json:"preemptions"`
	PromptTokens uint64 `json:"prompt_tokens"`
	OutputTokens uint64 `json:"output_tokens"`
	Restarts     uint64 `json:"restarts"`
	Steps        uint64 `json:"steps"`
}

type latencyView struct {
	Name  string  `json:"name"`
	Title string  `json:"title"`
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
}

type spendView struct {
	Tenant string `json:"tenant"`
	Budget string `json:"budget"`
	Window string `json:"window"`
	Cap    int64  `json:"cap_nano"`
	Spent  int64  `json:"spent_nano"`
	Held   int64  `json:"held_nano"`
	Resets string `json:"resets"` // RFC 3339, empty: never
}

var latencyTitles = map[string]string{"ttft": "Time to first token", "tpot": "Time per output token", "e2e": "Whole answer"}

// view takes the snapshot and leaves out what the viewer may not see.
func (s *Server) view(ctx context.Context, who *Session) statusView {
	st := s.opt.Service.Status(ctx)
	v := statusView{
		Version: st.Version, Uptime: int64(s.opt.Now().Sub(st.Started) / time.Second), Ready: st.Ready, Reason: st.Reason, Open: st.Open,
		Operator: who.Operator, Tenant: who.Tenant, Models: []modelView{}, Latency: []latencyView{}, Spend: []spendView{}, Choices: []string{},
	}
	if v.Version == "" {
		v.Version = s.opt.Version
	}
	for i := range st.Models {
		v.Models = append(v.Models, viewModel(&st.Models[i]))
		v.Choices = append(v.Choices, st.Models[i].Name)
	}
	v.Upstreams, v.Recent = []upstreamView{}, []recentView{}
	for _, l := range st.Latency {
		title := latencyTitles[l.Name]
		if title == "" {
			title = l.Name
		}
		v.Latency = append(v.Latency, latencyView{l.Name, title, l.Count, millis(l.P50), millis(l.P95), millis(l.P99)})
	}
	for _, b := range st.Spend {
		if !who.Operator && b.Tenant != who.Tenant {
			continue
		}
		resets := ""
		if !b.Resets.IsZero() {
			resets = b.Resets.UTC().Format(time.RFC3339)
		}
		v.Spend = append(v.Spend, spendView{b.Tenant, b.Budget, b.Window, b.CapNano, b.SpentNano, b.HeldNano, resets})
	}
	if who.Operator {
		v.OpenHolds, v.HeldNano, v.Ledger = st.OpenHolds, st.HeldNano, st.Ledger
		v.addProviders(&st)
	}
	return v
}

func viewModel(m *ModelStatus) modelView {
	t := &m.Stats
	hits := 0
	if t.PrefixQueries > 0 {
		hits = int(100 * t.PrefixHits / t.PrefixQueries)
	}
	return modelView{
		Name: m.Name, Architecture: m.Architecture, Quantization: m.Quantization, Parameters: m.ParameterSize, FileBytes: m.FileBytes,
		Context: m.ContextLength, Device: m.Device, Ready: m.Ready, Reason: m.Reason, Running: t.Running, Waiting: t.Waiting,
		BlocksUsed: t.BlocksUsed, BlocksCached: t.BlocksCached, BlocksTotal: t.BlocksTotal, PrefixPct: hits, Preemptions: t.Preemptions,
		PromptTokens: t.PromptTokens, OutputTokens: t.OutputTokens, Restarts: t.WorkerRestarts, Steps: t.Steps,
	}
}

// statusJSON serves the snapshot once.
func (x *exchange) statusJSON() {
	who := x.viewer()
	if who == nil {
		return
	}
	b, err := json.Marshal(x.s.view(x.r.Context(), who))
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, append(b, '\n'))
}

// statusEvents sends the snapshot again and again. A session that ends, ends
// the stream; so does a server that stops.
func (x *exchange) statusEvents() {
	who := x.session()
	if who == nil {
		x.fail(infer.Errorf(infer.CodeUnauthorized, "please sign in"))
		return
	}
	if x.s.watching.Add(1) > int64(x.s.lim.StatusStreams) {
		x.s.watching.Add(-1)
		x.fail(&infer.Error{Code: infer.CodeOverloaded, Message: "too many pages watch the status", RetryAfter: 30 * time.Second})
		return
	}
	defer x.s.watching.Add(-1)
	x.stream = true
	out := sse.NewWriter(x.w, x.s.lim.WriteTime)
	tick := time.NewTicker(x.s.lim.StatusEvery)
	defer tick.Stop()
	for {
		b, err := json.Marshal(x.s.view(x.r.Context(), who))
		if err != nil || out.Send([]byte("event: status\ndata: "+string(b)+"\n\n")) != nil {
			return
		}
		select {
		case <-x.r.Context().Done():
			return
		case <-x.s.stopping:
			return
		case <-tick.C:
		}
		if who = x.session(); who == nil {
			_ = out.Send([]byte("event: signout\ndata: {}\n\n"))
			return
		}
	}
}

func millis(d time.Duration) float64 { return float64(d.Round(10*time.Microsecond)) / 1e6 }

// The texts of the page; status.js writes the same.

// usd writes nano-USD with as many places as it takes to see something.
func usd(nano int64) string {
	f := float64(nano) / 1e9
	switch {
	case nano == 0:
		return "$0"
	case nano > -10_000_000 && nano < 10_000_000:
		return "$" + strings.TrimRight(strconv.FormatFloat(f, 'f', 9, 64), "0")
	case nano > -10_000_000_000 && nano < 10_000_000_000:
		return "$" + strconv.FormatFloat(f, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(f, 'f', 2, 64)
}

func ms(f float64) string {
	switch {
	case f >= 10_000:
		return strconv.FormatFloat(f/1000, 'f', 1, 64) + " s"
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " ms"
}

func sizeText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func countText(n int64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "k"}} {
		if f := float64(n); f >= u.size {
			return fmt.Sprintf("%.1f %s", f/u.size, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

func clockText(s int64) string {
	switch {
	case s >= 86400:
		return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
	case s >= 3600:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	case s >= 60:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d s", s)
}
