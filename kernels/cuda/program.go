package cuda

import (
	"fmt"
	"slices"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// tail is what runs after the ops, over the rows that are wanted: norm and head
// for logits, or the norm alone for final states.
type tail struct {
	nodes  []node
	regs   *registers
	inputs []kernels.Reg // of the ops
	out    kernels.Reg   // whose rows are the result
}

func (t *tail) isInput(r kernels.Reg) bool { return slices.Contains(t.inputs, r) }

func newTail(p *kernels.Program, ops []kernels.Op, out kernels.Reg) *tail {
	t := &tail{inputs: inputs(ops, out), out: out}
	nodes := compile(p, ops, nil, out)
	t.regs = newRegisters(p, nodes, t.inputs...)
	t.nodes = split(p, t.regs, nodes)
	return t
}

// program compiles p and sizes everything; it needs no GPU.
func (d *Device) program(p *kernels.Program, kv kernels.KVConfig) error {
	var err error
	d.p, d.kv = p, kv
	if d.kvType, err = parseKV(d.o.KV, kv.Type); err != nil {
		return err
	}
	last := append(slices.Clone(p.Norm), p.Head...)
	var keep []kernels.Reg
	if p.Width > 0 {
		d.hidden = newTail(p, p.Norm, p.Final)
		keep = append(keep, p.Final)
	}
	if len(p.Head) > 0 {
		d.logits = newTail(p, last, p.Logits)
		keep = append(keep, p.Logits)
	}
	var more []kernels.Reg
	for _, t := range d.tails() {
		more = append(more, t.inputs...)
	}
	nodes := compile(p, p.Ops, last, keep...)
	for i := range nodes {
		if a := nodes[i].attn; a != nil && a.op.Dst == a.op.A {
			return fmt.Errorf("cannot compile op %d: attention in place", i)
		}
	}
	d.regs = newRegisters(p, nodes, more...)
	d.ops = split(p, d.regs, nodes)
	d.size()
	d.store = newStore(p, &d.lib, d.o.Fast)
	for _, nodes := range d.lists() {
		if err := d.store.gather(nodes, d.planner.context); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) tails() (ts []*tail) {
	for _, t := range []*tail{d.logits, d.hidden} {
		if t != nil {
			ts = append(ts, t)
		}
	}
	return ts
}

// lists are all nodes of the program.
func (d *Device) lists() [][]node {
	all := [][]node{d.ops}
	for _, t := range d.tails() {
		all = append(all, t.nodes)
	}
	return all
}

// wantedBytes bounds the logits that are in device memory at once. Tests lower it.
var wantedBytes = 256 << 20

// size decides how many rows the registers have.
func (d *Device) size() {
	context := d.kv.Blocks * d.kv.BlockSize
	if d.o.Context > 0 {
		context = min(context, d.o.Context)
	}
	chunks := ceil(context, kernel.ChunkKeys)
	// bucket and pad add less than 64 rows each.
	d.rows = ceil(d.o.Rows+128, 64) * 64
	d.wanted = bucket(d.o.Sequences)
	for d.wanted > 1 && 4*d.wanted*align(d.p.Vocab) > wantedBytes {
		d.wanted = bucket(d.wanted / 2)
	}
	d.planner = planner{blockSize: d.kv.BlockSize, context: chunks * kernel.ChunkKeys, decode: bucket(d.o.Sequences), gather: d.wanted, chunks: chunks}
}

// cache is the cache of a KV layer.
func (d *Device) cache(layer int) kernel.Cache {
	l := d.p.KV[layer]
	c := kernel.Cache{Type: d.kvType, KVHeads: l.KVHeads, HeadDim: l.HeadDim, BlockSize: d.kv.BlockSize}
	if layer < len(d.caches) {
		c.Addr = d.caches[layer]
	}
	return c
}
