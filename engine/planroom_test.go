package engine

import (
	"errors"
	"strings"
	"testing"

	"hearth/engine/model"
	"hearth/kernels"
)

// ownDevice has a memory of its own, with so much room.
type ownDevice struct {
	kernels.Device
	room int64
	err  error
	rows int
}

func (d *ownDevice) Name() string { return "cuda:7" }
func (d *ownDevice) Room(_ *kernels.Program, rows int) (int64, error) {
	d.rows = rows
	return d.room, d.err
}
func (d *ownDevice) BlockBytes(_ *kernels.Program, blockSize int) int64 {
	return int64(blockSize) * 1000
}

// The cache of a device with a memory of its own is sized by what is left there,
// not by the machine's.
func TestPlanRoom(t *testing.T) {
	o := withDefaults(Options{MaxSequences: 4})
	cfg := &model.Config{ContextLength: 160} // 10 blocks of 16
	p := &kernels.Program{}
	for _, c := range []struct {
		room, asked int64
		want        int
	}{
		{1 << 40, 0, 40},       // all sequences at full context
		{250_000, 0, 15},       // what fits
		{250_000, 320_000, 20}, // what was asked for: the device refuses it if it must
		{1 << 40, 161_000, 10}, // one sequence
		{16_000 * 10, 0, 10},   // just one
	} {
		d := &ownDevice{room: c.room}
		o.KVBytes = c.asked
		kv, err := planKV(o, p, cfg, d)
		if err != nil || kv.Blocks != c.want || d.rows != o.MaxStepTokens {
			t.Errorf("%d bytes, %d asked for: %d blocks, %v; want %d", c.room, c.asked, kv.Blocks, err, c.want)
		}
	}
	o.KVBytes = 0
	_, err := planKV(o, p, cfg, &ownDevice{room: 0})
	if !errors.As(err, new(*NoRoom)) || !strings.Contains(err.Error(), "cuda:7") {
		t.Errorf("got %v", err)
	}
	failed := errors.New("the driver failed")
	if _, err := planKV(o, p, cfg, &ownDevice{err: failed}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
