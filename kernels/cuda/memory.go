package cuda

import (
	"fmt"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// Needs are what a device would take of its GPU's memory for a program, in bytes.
type Needs struct {
	WeightBytes  int64
	ScratchBytes int64 // registers, plans, logits and what kernels work in
	BlockBytes   int64 // of one block of the cache, all layers
}

// Need says what Load of p would take. Nothing is allocated.
func Need(p *kernels.Program, kv kernels.KVConfig, o Options) (Needs, error) {
	if err := p.Validate(); err != nil {
		return Needs{}, fmt.Errorf("cuda: %w", err)
	}
	if err := kv.Validate(); err != nil {
		return Needs{}, fmt.Errorf("cuda: %w", err)
	}
	d := &Device{o: o.withDefaults(), lib: kernelLibrary}
	if err := d.program(p, kv); err != nil {
		return Needs{}, fmt.Errorf("cuda: %w", err)
	}
	return d.needs(), nil
}

func (d *Device) needs() Needs {
	n := Needs{WeightBytes: d.store.bytes, BlockBytes: d.blockBytes()}
	for _, s := range d.scratch() {
		n.ScratchBytes += s.bytes
	}
	for _, m := range d.regs.matrices {
		n.ScratchBytes += 4 * int64(m.width) * int64(d.rows)
	}
	for _, t := range d.tails() {
		for _, m := range t.regs.matrices {
			n.ScratchBytes += 4 * int64(m.width) * int64(d.wanted)
		}
	}
	n.ScratchBytes += d.choose.bytes(d)
	return n
}

func (d *Device) blockBytes() (n int64) {
	for i := range d.p.KV {
		n += d.lib.blockBytes(d.cache(i))
	}
	return n
}

// spare is left of the GPU's memory for what the driver takes by itself: compiled
// kernels, graphs, and the rounding of allocations.
const spare = 256 << 20

// Room is how many bytes are left for the cache of p, once its weights and the
// intermediate results of steps of rows tokens are there too.
func (d *Device) Room(p *kernels.Program, rows int) (int64, error) {
	var free int64
	err := d.g.Do(func() (err error) {
		free, _, err = d.g.Memory()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", d.Name(), err)
	}
	o := d.o
	o.Rows, o.Sequences = rows, min(o.Sequences, rows)
	// Tables of angles and of blocks grow with the context, which is that of the
	// cache where no other is said: what the largest needs is taken off.
	room, blocks := int64(0), ceil(o.Context, 16)
	for range 2 {
		n, err := Need(p, kernels.KVConfig{Blocks: max(1, blocks), BlockSize: 16, Type: kernels.F16}, o)
		if err != nil {
			return 0, err
		}
		room = max(0, free-n.WeightBytes-n.ScratchBytes-spare)
		if o.Context > 0 || n.BlockBytes == 0 {
			break
		}
		blocks = int(min(room/n.BlockBytes, maxBlocks))
	}
	return room, nil
}

// Plan is what Load of p would take beside the cache, with what the driver takes by
// itself, and how much of the GPU's memory is free. Steps have at most rows tokens.
func (d *Device) Plan(p *kernels.Program, kv kernels.KVConfig, rows int) (weights, scratch, free int64, err error) {
	o := d.o
	o.Rows, o.Sequences = rows, min(o.Sequences, rows)
	n, err := Need(p, kv, o)
	if err != nil {
		return 0, 0, 0, err
	}
	err = d.g.Do(func() (err error) {
		free, _, err = d.g.Memory()
		return err
	})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("%s: %w", d.Name(), err)
	}
	return n.WeightBytes, n.ScratchBytes + spare, free, nil
}

// maxBlocks bounds the blocks of a cache, so that tokens can be counted in 32 bits.
const maxBlocks = 1 << 26

// BlockBytes is the size of one block of the cache of p, all layers.
func (d *Device) BlockBytes(p *kernels.Program, blockSize int) int64 {
	t, err := parseKV(d.o.KV, kernels.F32)
	if err != nil {
		return 0 // New has refused it
	}
	e := &Device{lib: d.lib, p: p, kv: kernels.KVConfig{BlockSize: blockSize}, kvType: t}
	return e.blockBytes()
}

// scratchNeed is memory that kernels work in, zeroed once.
type scratchNeed struct {
	what  string
	bytes int64
	to    func(kernel.Addr)
}

// scratch lists what is allocated beside registers, weights and cache.
func (d *Device) scratch() []scratchNeed {
	linear := int64(0)
	for i, nodes := range d.lists() {
		rows := d.rows
		if i > 0 {
			rows = d.wanted
		}
		for k := range nodes {
			for _, l := range nodes[k].lins {
				linear = max(linear, d.lib.linearScratch(d.store.weight(l), rows))
			}
		}
	}
	list := []scratchNeed{
		{"the step plan", 4 * int64(d.planner.capacity(d.rows, d.o.Sequences)), func(a kernel.Addr) { d.planAddr = a }},
		{"operands of linears", linear, func(a kernel.Addr) { d.linearScratch = a }},
		{"counters of linears", kernel.CounterBytes, func(a kernel.Addr) { d.counters = a }},
	}
	attn := map[headShape]int64{}
	var order []headShape
	for i := range d.ops {
		if a := d.ops[i].attn; a != nil {
			h := heads(a.op.Attn)
			if _, ok := attn[h]; !ok {
				order = append(order, h)
			}
			attn[h] = max(attn[h], d.attentionScratch(*a.op.Attn))
		}
	}
	for _, h := range order {
		list = append(list, scratchNeed{"partial attention", attn[h], func(a kernel.Addr) { d.attnScratch[h] = a }})
	}
	return list
}

// attentionScratch is the most that any launch over single rows needs.
func (d *Device) attentionScratch(a kernels.Attention) (n int64) {
	for c := 1; ; c *= 2 {
		chunks := min(c, d.planner.chunks)
		n = max(n, d.lib.attentionScratch(a, min(d.planner.decode, decodeRows(chunks)), chunks))
		if chunks == d.planner.chunks {
			return n
		}
	}
}

// allocate takes all memory but that of the weights.
func (d *Device) allocate() error {
	d.attnScratch = map[headShape]kernel.Addr{}
	total := int64(0)
	zeroed := func(what string, bytes int64) (kernel.Addr, error) {
		if bytes == 0 {
			return 0, nil
		}
		a, err := d.alloc(bytes)
		if err != nil {
			return 0, fmt.Errorf("cannot allocate %s: %w", what, err)
		}
		total += bytes
		return a, d.g.Fill(a, 0, bytes)
	}
	for _, s := range d.scratch() {
		a, err := zeroed(s.what, s.bytes)
		if err != nil {
			return err
		}
		s.to(a)
	}
	for i, g := range append([]*registers{d.regs}, d.tailRegisters()...) {
		rows := d.rows
		if i > 0 {
			rows = d.wanted
		}
		for k := range g.matrices {
			a, err := zeroed("registers", 4*int64(g.matrices[k].width)*int64(rows))
			if err != nil {
				return err
			}
			g.matrices[k].addr = a
		}
	}
	if err := d.allocateHost(); err != nil {
		return err
	}
	if d.logits != nil {
		n, err := d.choose.allocate(d)
		if err != nil {
			return err
		}
		total += n
	}
	d.scratchBytes.Store(total)
	return d.allocateCache()
}

func (d *Device) tailRegisters() (gs []*registers) {
	for _, t := range d.tails() {
		gs = append(gs, t.regs)
	}
	return gs
}

// allocateCache takes the blocks of every layer.
func (d *Device) allocateCache() error {
	total := int64(0)
	for i := range d.p.KV {
		n := d.lib.blockBytes(d.cache(i)) * int64(d.kv.Blocks)
		if n == 0 {
			d.caches = append(d.caches, 0)
			continue
		}
		a, err := d.alloc(n)
		if err != nil {
			return fmt.Errorf("cannot allocate a cache of %d blocks for layer %d: %w", d.kv.Blocks, i, err)
		}
		d.caches = append(d.caches, a)
		total += n
	}
	d.kvBytes.Store(total)
	return nil
}

// resultBytes bounds the page-locked memory that results come through.
const resultBytes = 32 << 20

// allocateHost takes the page-locked memory of plans and results.
func (d *Device) allocateHost() error {
	plan, err := d.host(4 * d.planner.capacity(d.rows, d.o.Sequences))
	if err != nil {
		return err
	}
	clear(plan)
	d.planner.words = words(plan)
	d.planner.row = make([]int32, 0, d.o.Rows)
	size := 0
	for _, t := range d.tails() {
		row := 4 * t.regs.mat(t.out, 0).Stride
		size = max(size, row, min(resultBytes, row*d.wanted))
	}
	if size > 0 {
		d.results, err = d.host(size)
	}
	return err
}

func (d *Device) alloc(n int64) (kernel.Addr, error) {
	a, err := d.g.Alloc(n)
	if err == nil {
		d.allocs = append(d.allocs, a)
	}
	return a, err
}

// drop gives one allocation back.
func (d *Device) drop(a kernel.Addr) error {
	for i := range d.allocs {
		if d.allocs[i] == a {
			d.allocs = append(d.allocs[:i], d.allocs[i+1:]...)
			return d.g.Free(a)
		}
	}
	return nil
}

func (d *Device) host(n int) ([]byte, error) {
	b, err := d.g.HostAlloc(n)
	if err == nil {
		d.hosts = append(d.hosts, b)
	}
	return b, err
}

func (d *Device) freeHost(b []byte) error {
	for i := range d.hosts {
		if &d.hosts[i][0] == &b[0] {
			d.hosts = append(d.hosts[:i], d.hosts[i+1:]...)
			return d.g.HostFree(b)
		}
	}
	return nil
}
