package cpu

import "hearth/kernels"

var _ kernels.Chooser = (*Device)(nil)

// MaxTop implements kernels.Chooser: any number will do.
func (d *Device) MaxTop() int { return d.p.Vocab }

// numberGiven numbers the rows of which logits are wanted.
func (d *Device) numberGiven(b *kernels.Batch) {
	d.given = d.given[:0]
	n := 0
	for i := range b.LogitRows {
		d.given = append(d.given, n)
		if b.Choices == nil || b.Choices[i].Logits {
			n++
		}
	}
}

// give hands out what is wanted of each row of logits: a token where there is a
// choice, else the logits themselves. Threads take rows as they are free.
func (d *Device) give(th int, claims counter) {
	b, v := d.batch, d.p.Vocab
	if d.inPlace {
		return
	}
	for {
		i := int(claims.Add(1)) - 1
		if i >= len(b.LogitRows) {
			return
		}
		row := d.regs[d.p.Logits].row(i)
		if b.Choices == nil || b.Choices[i].Logits {
			copy(b.Logits[d.given[i]*v:][:v], row)
		} else {
			d.scratch[th].picker.Pick(&b.Picks[i], &b.Choices[i], row)
		}
	}
}
