package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/kernel"
)

// context is the number of tokens of the sequence, the last of which is computed.
const context = 1024

const blockSize = 16

// class is a set of layers whose matrices have the same types and whose attention
// has the same window.
type class struct{ first, layers int }

// classes sorts the layers of a model by the types that a format gives them, and
// by windows.
func classes(s *shape, of typeOf) ([]class, error) {
	var order []string
	all := map[string]*class{}
	for i := range s.layers {
		var types strings.Builder
		fmt.Fprint(&types, s.windowOf(i), " ")
		for _, m := range []struct {
			name string
			cols int
		}{{"self_attn.q", s.hidden}, {"self_attn.k", s.hidden}, {"self_attn.v", s.hidden}, {"self_attn.o", s.heads * s.dim}, {"mlp.gate", s.hidden}, {"mlp.up", s.hidden}, {"mlp.down", s.ffn}} {
			t, err := of(&kernels.Tensor{Name: fmt.Sprintf("model.layers.%d.%s_proj.weight", i, m.name), Cols: m.cols}, s)
			if err != nil {
				return nil, err
			}
			fmt.Fprint(&types, t, " ")
		}
		if c := all[types.String()]; c != nil {
			c.layers++
			continue
		}
		all[types.String()] = &class{i, 1}
		order = append(order, types.String())
	}
	var list []class
	for _, k := range order {
		list = append(list, *all[k])
	}
	return list, nil
}

// abridged is the program of a model with only some of its layers. head is whether
// it gives logits.
func abridged(s *shape, whole *kernels.Program, of typeOf, layers []int, head bool) (*kernels.Program, error) {
	p, err := retype(whole, s, of)
	if err != nil {
		return nil, err
	}
	perLayer := (len(p.Ops) - 1) / len(p.KV) // the first embeds
	ops := p.Ops[:1:1]
	for _, l := range layers {
		ops = append(ops, p.Ops[1+perLayer*l:1+perLayer*(l+1)]...)
	}
	p.Ops = ops
	if !head {
		p.Head = nil
	}
	return p, nil
}

// stepper counts the steps of one model in one format for one GPU.
type stepper struct {
	s     *shape
	whole *kernels.Program // in BF16
	of    typeOf
	g     gpu
	costs map[string]counted
	seen  func(*kernel.Launch) // of every launch that is prepared, those of no step too; or nil
	known bool                 // nothing may run: every launch must have a cost
}

// calls are the launches of the step of a program with these layers, as a bag.
func (st *stepper) calls(layers []int, head bool) (map[string]int, error) {
	p, err := abridged(st.s, st.whole, st.of, layers, head)
	if err != nil {
		return nil, err
	}
	bag, err := st.run(p, head, 0)
	if !errors.Is(err, errNotCounted) || st.known {
		return bag, err
	}
	need, err := cuda.Need(p, cache, options)
	if err != nil {
		return nil, err
	}
	return st.run(p, head, memoryOf(need, cache))
}

// cache and options are the device's.
var (
	cache   = kernels.KVConfig{Blocks: context / blockSize, BlockSize: blockSize, Type: kernels.F16}
	options = cuda.Options{Rows: 512, Sequences: 128, NoGraphs: true, Hollow: true}
)

// run runs the step of a program on a counter with so much memory.
func (st *stepper) run(p *kernels.Program, head bool, memory int64) (map[string]int, error) {
	c := newCounter(st.g, memory, st.costs)
	c.seen = st.seen
	d, err := cuda.New(c, options)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Load(p, cache); err != nil {
		return nil, err
	}
	b := &kernels.Batch{Tokens: []int32{1}, Spans: []kernels.Span{{Len: 1, Context: context - 1}}}
	for i := range cache.Blocks {
		b.Spans[0].Blocks = append(b.Spans[0].Blocks, int32(i))
	}
	if head {
		b.LogitRows, b.Choices, b.Picks = []int32{0}, []kernels.Choice{{TopP: 1}}, make([]kernels.Pick, 1)
	}
	c.on = true
	if err := d.Step(b); err != nil {
		return nil, err
	}
	bag := map[string]int{}
	for _, call := range c.calls {
		bag[call.Key]++
	}
	return bag, nil
}

// step counts the whole model by what it costs without layers and with one: the
// layers of a class are alike, and the rest happens once.
func (st *stepper) step() ([]call, int, error) {
	list, err := classes(st.s, st.of)
	if err != nil {
		return nil, 0, err
	}
	total, err := st.calls(nil, true)
	if err != nil {
		return nil, 0, err
	}
	none, err := st.calls(nil, false)
	if err != nil {
		return nil, 0, err
	}
	perLayer := 0
	for _, c := range list {
		one, err := st.calls([]int{c.first}, false)
		if err != nil {
			return nil, 0, err
		}
		launches := 0
		for k := range union(none, one) {
			n := one[k] - none[k]
			if n < 0 {
				return nil, 0, fmt.Errorf("cannot count %s: a layer takes away launches of %s", st.s.name, k)
			}
			launches += n
			total[k] += n * c.layers
		}
		perLayer = max(perLayer, launches)
	}
	var calls []call
	for _, k := range slices.Sorted(maps.Keys(total)) {
		if total[k] > 0 {
			calls = append(calls, call{Key: k, Times: total[k], cost: st.costs[k].Cost})
		}
	}
	return calls, perLayer, nil
}

func union(a, b map[string]int) map[string]int {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

// memoryOf is enough for a device's needs, with what allocations are rounded to
// and the variables of modules.
func memoryOf(n cuda.Needs, kv kernels.KVConfig) int64 {
	return n.WeightBytes + n.ScratchBytes + n.BlockBytes*int64(kv.Blocks) + 64<<20
}
