package ptx

import (
	"strings"
	"testing"
)

// Each kernel of bad.cu has one fault: it must be reported as what it is, and
// nothing else with it.
func TestFaults(t *testing.T) {
	one, block32, block64 := Dim{}, Dim{X: 32}, Dim{X: 64}
	b := open(t, "bad.compute_80.ptx", Options{Checks: true, Count: true, Workers: 1})
	ints := func(n int) uint64 { return b.put(make([]int32, n)) }

	b.faulty("past_end", OutOfBounds, "ends 4 bytes past the end of an allocation of 400 bytes", Dim{X: 4}, block32, ints(100), b.room(400), int32(100))
	b.faulty("shared_past_end", OutOfBounds, "ends 4 bytes past", one, block32, b.room(128))
	b.faulty("unwritten_shared", Uninitialised, "never written in this block", one, block64, b.room(256))
	b.faulty("no_barrier", SharedRace, "with no barrier between", one, block64, b.room(256))
	b.faulty("no_second_barrier", SharedRace, "has read with no barrier", one, block64, b.room(256))
	b.faulty("no_warp_barrier", SharedRace, "no warp barrier", one, block32, b.room(128))
	b.faulty("blocks_collide", GlobalRace, "which block (0,0,0) has written", Dim{X: 2}, block32, b.room(128))
	b.faulty("block_reads_other", GlobalRace, "reads", Dim{X: 2}, block32, b.room(256), b.room(256))
	b.faulty("block_overwrites_read", GlobalRace, "have read", Dim{X: 3}, block32, ints(32), b.room(384))
	b.faulty("block_overwrites_one", GlobalRace, "block (0,0,0) has read", Dim{X: 2}, block32, ints(32), b.room(128))
	b.faulty("no_fence", GlobalRace, "no fence and atomic", Dim{X: 4}, block32, ints(4), b.room(16), ints(1), b.room(4))
	b.faulty("fence_before_barrier", GlobalRace, "no fence and atomic", Dim{X: 4}, block64, ints(256), b.room(1024), ints(1), b.room(256))
	b.faulty("atomic_and_plain", GlobalRace, "", Dim{X: 2}, Dim{X: 1}, ints(1))
	b.faulty("half_barrier", DivergentBarrier, "lanes 0xffff of the warp come", one, block32, b.room(128))
	b.faulty("half_shuffle", ShflDivergence, "which have exited", one, block32, b.room(128))
	b.faulty("shuffle_outside_mask", ShflDivergence, "", one, block32, b.room(128))
	b.faulty("shuffle_from_absent", ShflUndefined, "takes no part", one, block32, b.room(128))
	b.faulty("misaligned", Misaligned, "16 bytes", one, block32, ints(200), b.room(512), int32(4))
	b.faulty("async_no_wait", AsyncInFlight, "reads", one, block32, ints(128), b.room(512))
	b.faulty("async_waits_too_few", AsyncInFlight, "reads", one, block32, ints(256), b.room(512))
	b.faulty("async_no_barrier", SharedRace, "has written with no", one, block64, ints(256), b.room(256))
	b.faulty("async_misaligned", Misaligned, "of shared memory", one, block32, ints(256), b.room(128))
	b.faulty("uncoalesced", Uninitialised, "byte 0 of an allocation", one, block32, b.room(1024), b.room(128))
}

// What cannot go on is an error, and says where.
func TestStuck(t *testing.T) {
	b := open(t, "bad.compute_80.ptx", Options{Checks: true, MaxSteps: 100_000})
	_, err := b.m.Launch(b.l, "stuck_barrier", Dim{}, Dim{X: 64}, 0, b.params("stuck_barrier", []any{b.room(256)}))
	if err == nil || !strings.Contains(err.Error(), "deadlock") || !strings.Contains(err.Error(), "32 of 64") {
		t.Errorf("stuck_barrier: %v", err)
	}
	_, err = b.m.Launch(b.l, "waits_forever", Dim{}, Dim{X: 32}, 0, b.params("waits_forever", []any{b.put([]int32{0})}))
	if err == nil || !strings.Contains(err.Error(), "waits for what never comes") {
		t.Errorf("waits_forever: %v", err)
	}
	// without checks, a fault that would go on with a guess ends the launch
	b = open(t, "bad.compute_80.ptx", Options{})
	_, err = b.m.Launch(b.l, "past_end", Dim{}, Dim{X: 32}, 0, b.params("past_end", []any{uint64(16), uint64(32), int32(4)}))
	if err == nil || !strings.Contains(err.Error(), "no device memory") {
		t.Errorf("past_end: %v", err)
	}
	if _, err = b.m.Launch(b.l, "past_end", Dim{}, Dim{X: 2048}, 0, make([]byte, 20)); err == nil {
		t.Error("a block of 2048 threads ran")
	}
	if _, err = b.m.Launch(b.l, "past_end", Dim{}, Dim{X: 32}, 0, nil); err == nil {
		t.Error("a launch without its parameters ran")
	}
}

// Counters show what is slow though right.
func TestCounters(t *testing.T) {
	b := open(t, "bad.compute_80.ptx", watched)
	r := b.clean("uncoalesced", Dim{}, Dim{X: 32}, 0, b.put(make([]float32, 256)), b.room(128))
	if c := r.Counts; c.Sectors != 36 || c.IdealSectors != 8 || c.UniqueSectors != 36 {
		t.Errorf("uncoalesced: %+v", c)
	}
	r = b.launch("bank_conflicts", Dim{}, Dim{X: 32}, 0, b.room(128))
	if c := r.Counts; c.SharedWaves < 32*32 || c.IdealWaves >= 128 {
		t.Errorf("bank_conflicts: %+v", c)
	}
	worst := uint64(0)
	for _, l := range r.Lines() {
		if l.IdealWaves > 0 {
			worst = max(worst, l.SharedWaves/l.IdealWaves)
		}
	}
	if worst != 32 {
		t.Errorf("bank_conflicts: worst line has %d waves for one", worst)
	}
}
