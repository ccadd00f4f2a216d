package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hearth/kernels"
	"hearth/kernels/cuda"
)

// context is the number of tokens of the sequence, the last of which is computed.
const context = 1024

const blockSize = 16

// class is a set of layers whose matrices have the same types.
type class struct{ first, layers int }

// classes sorts the layers of a model by the types that a format gives them.
func classes(s *shape, of typeOf) ([]class, error) {
	var order []string
	all := map[string]*class{}
	for i := range s.layers {
		var types strings.Builder
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

// abridged is the program of a model with only some layers, which have the types
// of those of the whole model that are named. head is whether it gives logits.
func abridged(s *shape, whole *kernels.Program, of typeOf, layers []int, head bool) (*kernels.Program, error) {
	p, err := retype(whole, s, func(t *kernels.Tensor, s *shape) (kernels.DType, error) {
		real := *t
		for i, as := range layers {
			real.Name = strings.Replace(t.Name, fmt.Sprintf("layers.%d.", i), fmt.Sprintf("layers.%d.", as), 1)
			if real.Name != t.Name {
				break
			}
		}
		return of(&real, s)
	})
	if err != nil {
		return nil, err
	}
	perLayer := (len(p.Ops) - 1) / len(p.KV) // the first embeds
	p.Ops, p.KV = p.Ops[:1+perLayer*len(layers)], p.KV[:len(layers)]
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
	note  func(*counter)
	known bool // see counter
}

// calls are the launches of the step of a program with these layers, as a bag.
func (st *stepper) calls(layers []int, head bool) (map[string]int, error) {
	p, err := abridged(st.s, st.whole, st.of, layers, head)
	if err != nil {
		return nil, err
	}
	kv := kernels.KVConfig{Blocks: context / blockSize, BlockSize: blockSize, Type: kernels.F16}
	o := cuda.Options{Rows: 512, Sequences: 128, NoGraphs: true, Hollow: true}
	need, err := cuda.Need(p, kv, o)
	if err != nil {
		return nil, err
	}
	c := newCounter(st.g, memoryOf(need, kv), st.costs)
	c.known = st.known
	d, err := cuda.New(c, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Load(p, kv); err != nil {
		return nil, err
	}
	b := &kernels.Batch{Tokens: []int32{1}, Spans: []kernels.Span{{Len: 1, Context: context - 1}}}
	for i := range kv.Blocks {
		b.Spans[0].Blocks = append(b.Spans[0].Blocks, int32(i))
	}
	if head {
		b.LogitRows, b.Choices, b.Picks = []int32{0}, []kernels.Choice{{TopP: 1}}, make([]kernels.Pick, 1)
	}
	c.on = true
	if err := d.Step(b); err != nil {
		return nil, err
	}
	st.note(c)
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
