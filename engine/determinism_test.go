package engine_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/sched"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

var (
	scenarios = flag.Int("scenarios", 3, "random scenarios for each model")
	seedFlag  = flag.Uint64("seed", 1, "seed of the first scenario")
	device    = flag.String("device", "", "device of the determinism test")
)

// Every token of every answer must be the same whether a request runs alone on a
// cold engine or in any company: random arrival, batch and chunk sizes, cache
// hot or cold, sequences preempted at random steps, neighbours cancelled.
func TestDeterminism(t *testing.T) {
	for _, path := range tinyModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want := map[string][]int32{}
			for i := range *scenarios {
				seed := *seedFlag + uint64(i)
				runScenario(t, path, "", seed, want)
			}
		})
	}
	if *device == "" || *device == "cpu" {
		t.Run("bf16", func(t *testing.T) {
			path, want := gguftest.WriteLlama(t, gguftest.Options{Seed: 7, Type: kernels.BF16}), map[string][]int32{}
			for i := range *scenarios {
				runScenario(t, path, "bf16", *seedFlag+uint64(i), want)
			}
		})
	}
}

type probe struct {
	key string
	req *infer.Request
}

// probes are the requests of a scenario: few prefixes, many endings.
func probes(r *rand.Rand, n int) []probe {
	base := make([]int32, 40)
	for i := range base {
		base[i] = int32(3 + (i*7)%200)
	}
	var out []probe
	for i := range n {
		q := infer.NewRequest()
		q.Kind = infer.Completion
		kind := r.IntN(12)
		prompt := slices.Clone(base[:5+3*kind])
		if kind%2 == 1 {
			prompt = append(prompt, int32(10+kind), 5, 9)
		}
		q.Prompts = []infer.Prompt{{Tokens: prompt}}
		q.Sampling.MaxTokens = 6 + kind
		q.Sampling.IgnoreEOS = true
		q.Sampling.ReturnTokenIDs = true
		seed := int64(kind)
		q.Sampling.Seed = &seed
		switch kind % 4 {
		case 0:
			q.Sampling.Temperature = 0
		case 1:
			q.Sampling.TopP, q.Sampling.FrequencyPenalty = 0.9, 0.5
		case 2:
			q.Sampling.N, q.Sampling.TopK = 2, 20
		}
		q.Tenant = []string{"a", "b"}[r.IntN(2)]
		q.ID = fmt.Sprint("r", i)
		out = append(out, probe{fmt.Sprint(kind), q})
	}
	return out
}

func runScenario(t *testing.T, path, activations string, seed uint64, want map[string][]int32) {
	r := rand.New(rand.NewPCG(seed, 5))
	ps := probes(r, 6+r.IntN(10))
	// Alone, cold, whole.
	for _, p := range ps {
		if want[p.key] == nil {
			e := open(t, engine.Options{Path: path, Activations: activations, NoPrefixCache: true, MaxSequences: 4, MaxStepTokens: 512})
			want[p.key] = generate(t, e, p.req)
			e.Close()
		}
	}
	preemptEvery := 2 + r.IntN(6)
	left := 40 // forced preemptions: without end nothing would ever finish
	hr := rand.New(rand.NewPCG(seed, 6))
	e := open(t, engine.Options{
		Path: path, Activations: activations, NoPrefixCache: r.IntN(3) == 0,
		MaxSequences: 1 + r.IntN(32), MaxStepTokens: 1 + r.IntN(96), MaxChunk: 1 + r.IntN(40),
		Threads: 1 + r.IntN(2),
		BeforeStep: func(step uint64, running []*sched.Sequence, preempt func(*sched.Sequence)) {
			if len(running) > 0 && left > 0 && hr.IntN(preemptEvery) == 0 {
				left--
				preempt(running[hr.IntN(len(running))])
			}
		},
	})
	defer e.Close()
	var wg sync.WaitGroup
	for i, p := range ps {
		leave := r.IntN(5) == 0
		delay := time.Duration(r.IntN(3000)) * time.Microsecond
		wg.Go(func() {
			time.Sleep(delay)
			if leave {
				ctx, cancel := context.WithTimeout(t.Context(), delay)
				defer cancel()
				for _, err := range e.Generate(ctx, p.req) {
					if err != nil {
						break
					}
				}
				return
			}
			got := generate(t, e, p.req)
			if !slices.Equal(got, want[p.key]) {
				t.Errorf("seed %d request %d (%s): %v, alone %v", seed, i, p.key, got, want[p.key])
			}
		})
	}
	wg.Wait()
	waitIdle(t, e)
}

func open(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	if o.Device == "" {
		o.Device = *device
	}
	if o.KVBytes == 0 {
		o.KVBytes = 64 << 20
	}
	o.Digest = "test"
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// generate returns the token ids of all choices, one after the other.
func generate(t *testing.T, e *engine.Engine, r *infer.Request) []int32 {
	ids := make([][]int32, r.Sampling.N)
	for ev, err := range e.Generate(t.Context(), r) {
		if err != nil {
			t.Errorf("generate: %v", err)
			return nil
		}
		ids[ev.Choice] = append(ids[ev.Choice], ev.TokenIDs...)
	}
	for i, x := range ids {
		if len(x) != r.Sampling.MaxTokens {
			t.Errorf("choice %d has %d tokens, want %d", i, len(x), r.Sampling.MaxTokens)
		}
	}
	return slices.Concat(ids...)
}

// waitIdle checks that nothing is left behind: no sequence, no block in use.
func waitIdle(t *testing.T, e *engine.Engine) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		st := e.Health(t.Context()).Stats
		if st.Running == 0 && st.Waiting == 0 && st.BlocksUsed == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: %d running, %d waiting, %d blocks", st.Running, st.Waiting, st.BlocksUsed)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// tinyModels lists the small models that are there: one we make ourselves, and
// those shared between checkouts.
func tinyModels(t *testing.T) []string {
	paths := []string{ownModel(t)}
	root := sharedDir()
	if root == "" {
		t.Log("LOUD: ../shared is absent; only our own tiny model is tested")
		return paths
	}
	found, _ := filepath.Glob(filepath.Join(root, "models/tiny/*/hf"))
	paths = append(paths, found...)
	found, _ = filepath.Glob(filepath.Join(root, "models/tiny/*/*.Q8_0.gguf"))
	return append(paths, found...)
}

// sharedDir is the folder of shared test data beside the repository, or "".
func sharedDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			shared := filepath.Join(dir, "../shared")
			if _, err := os.Stat(shared); err != nil {
				return ""
			}
			return shared
		}
	}
	return ""
}

// ownModel is a random llama of our own, so that a clone alone proves the essentials.
func ownModel(t testing.TB) string {
	return gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: kernels.Q8_0})
}
