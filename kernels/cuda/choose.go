package cuda

import (
	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// chooser is what choosing tokens on the GPU needs. Records, adjustments and masks
// of a step go there at fixed places.
type chooser struct {
	input          kernel.SampleInput
	room           chooserRoom
	addr           kernel.Addr // records, then masks, then adjustments
	adjusted       kernel.Addr // (wanted, vocab), as logits
	partials       kernel.Addr
	picks          kernel.Addr
	stage, results []byte // page-locked
}

// chooserRoom is how large the parts may be, in bytes.
type chooserRoom struct{ records, masks, list int64 }

func (r chooserRoom) bytes() int64 { return r.records + r.masks + r.list }

// adjustRows is how many adjustments a row has room for at first.
const adjustRows = 256

var _ kernels.Chooser = (*Device)(nil)

// MaxTop implements kernels.Chooser.
func (d *Device) MaxTop() int { return kernel.MaxTop }

// plan sizes the parts for rows of a vocabulary.
func (c *chooser) plan(rows, vocab int) {
	n := int64(rows)
	c.room = chooserRoom{records: ceil64(n*kernel.SampleRecordBytes, 256), masks: ceil64(n*4*int64((vocab+31)/32), 256), list: ceil64(n*adjustRows*kernel.AdjustBytes, 256)}
}

func ceil64(n, per int64) int64 { return (n + per - 1) / per * per }

// needs is the device memory of rows of logits of the given stride.
func (c *chooser) needs(rows, vocab, stride int) (adjusted, partials, picks int64) {
	return 4 * int64(rows) * int64(stride), kernel.PartialBytes(rows, vocab), int64(rows) * kernel.PickBytes
}

func (c *chooser) bytes(d *Device) int64 {
	if d.logits == nil {
		return 0
	}
	c.plan(d.wanted, d.p.Vocab)
	a, p, k := c.needs(d.wanted, d.p.Vocab, d.logits.stride())
	return c.room.bytes() + a + p + k
}

// stride is the distance of the result's rows, in values.
func (t *tail) stride() int { return t.regs.mat(t.out, 0).Stride }

// allocate takes all memory, and says how much of the device's.
func (c *chooser) allocate(d *Device) (int64, error) {
	total := c.bytes(d)
	a, p, k := c.needs(d.wanted, d.p.Vocab, d.logits.stride())
	for _, x := range []struct {
		to    *kernel.Addr
		bytes int64
	}{{&c.adjusted, a}, {&c.partials, p}, {&c.picks, k}, {&c.addr, c.room.bytes()}} {
		var err error
		if *x.to, err = d.alloc(x.bytes); err != nil {
			return 0, err
		}
	}
	var err error
	if c.results, err = d.host(int(k)); err != nil {
		return 0, err
	}
	c.stage, err = d.host(int(c.room.bytes()))
	return total, err
}

// grow makes room for more adjustments and masks; lists of launches that know the
// old place are dropped.
func (c *chooser) grow(d *Device) error {
	old := c.room
	for c.room.list < int64(len(c.input.List)) {
		c.room.list *= 2
	}
	if c.room == old {
		return nil
	}
	if err := d.drop(c.addr); err != nil {
		return err
	}
	if err := d.freeHost(c.stage); err != nil {
		return err
	}
	for k := range d.works {
		if k.kind == workChoose || k.kind == workChooseTop {
			if err := d.forget(k); err != nil {
				return err
			}
		}
	}
	d.scratchBytes.Add(c.room.bytes() - old.bytes())
	var err error
	if c.addr, err = d.alloc(c.room.bytes()); err != nil {
		return err
	}
	c.stage, err = d.host(int(c.room.bytes()))
	return err
}

// call is the choice over rows of logits.
func (c *chooser) call(d *Device, rows int, top bool) kernel.SampleCall {
	masks := c.addr + kernel.Addr(c.room.records)
	return kernel.SampleCall{Rows: rows, Vocab: d.p.Vocab, Logits: d.logits.regs.mat(d.logits.out, 0), Adjusted: c.adjusted,
		Records: c.addr, Masks: masks, List: masks + kernel.Addr(c.room.masks), Partials: c.partials, Picks: c.picks, Top: top}
}

// run chooses for n wanted rows of the batch from row from on, whose logits are
// being computed, and copies logits of those that ask for them.
func (c *chooser) run(d *Device, b *kernels.Batch, from, n int) error {
	if from == 0 && b.Prepare != nil {
		b.Prepare()
	}
	choices, picks := b.Choices[from:from+n], b.Picks[from:from+n]
	c.input.Reset()
	chosen := 0
	for i := range choices {
		if err := c.input.Append(&choices[i], d.p.Vocab); err != nil {
			return err
		}
		if !choices[i].Logits {
			chosen++
		}
	}
	if chosen > 0 {
		if err := c.queue(d, n); err != nil {
			return err
		}
	}
	given := 0
	for i := range b.Choices[:from] {
		if b.Choices[i].Logits {
			given++
		}
	}
	for i := range choices {
		if choices[i].Logits {
			if err := d.fetch(b.Logits[given*d.p.Vocab:], d.logits, i, 1); err != nil {
				return err
			}
			given++
		}
	}
	if chosen == 0 {
		return nil
	}
	if err := d.settle(); err != nil {
		return err
	}
	for i := range choices {
		if !choices[i].Logits {
			kernel.ReadPick(&picks[i], &choices[i], c.results[i*kernel.PickBytes:])
		}
	}
	return nil
}

// queue sends what the step tells of n choices and queues the kernels and the copy
// of what they choose.
func (c *chooser) queue(d *Device, n int) error {
	rows := min(bucket(n), d.wanted)
	for range rows - n {
		if err := c.input.Append(&skipped, d.p.Vocab); err != nil {
			return err
		}
	}
	if err := c.grow(d); err != nil {
		return err
	}
	kind := workChoose
	if c.input.Top {
		kind = workChooseTop
	}
	w, err := d.work(workKey{kind: kind, rows: rows})
	if err != nil {
		return err
	}
	at := int64(0)
	for _, part := range [3]struct {
		bytes []byte
		room  int64
	}{{c.input.Records, c.room.records}, {c.input.Masks, c.room.masks}, {c.input.List, c.room.list}} {
		if k := int64(len(part.bytes)); k > 0 {
			copy(c.stage[at:], part.bytes)
			if err := d.g.Upload(c.addr+kernel.Addr(at), c.stage[at:at+k]); err != nil {
				return err
			}
		}
		at += part.room
	}
	if err := w.Run(); err != nil {
		return err
	}
	return d.g.Download(c.results[:n*kernel.PickBytes], c.picks)
}

// skipped is the choice of a padding row.
var skipped = kernels.Choice{Logits: true}
