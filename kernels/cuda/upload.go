package cuda

import (
	"fmt"
	"runtime"
	"sync"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// stageBytes is the size of each of the two buffers that weights go through: large
// enough for the bus to run at its speed, small enough to be locked anywhere.
const stageBytes = 16 << 20

// allocateWeights takes the memory of all that upload sends.
func (d *Device) allocateWeights(s *store) error {
	for i := range s.uploads {
		u := &s.uploads[i]
		var err error
		if *u.addr, err = d.alloc(u.bytes); err != nil {
			return fmt.Errorf("cannot place %s: %w", u.name, err)
		}
	}
	return nil
}

// upload sends everything to its place: while one buffer is copied, all cores fill
// the other.
func (d *Device) upload(s *store) error {
	if d.o.Hollow {
		return nil
	}
	size := int64(1)
	for i := range s.uploads {
		size = max(size, min(s.uploads[i].bytes, max(stageBytes, s.uploads[i].unit)))
	}
	var stage [2][]byte
	for i := range stage {
		b, err := d.host(int(size))
		if err != nil {
			return err
		}
		stage[i] = b
	}
	left := tensorUsers(s)
	done, turn := int64(0), 0
	for i := range s.uploads {
		u := &s.uploads[i]
		step := size / u.unit * u.unit
		for from := int64(0); from < u.bytes; from += step {
			n := min(step, u.bytes-from)
			if err := d.g.Wait(turn); err != nil {
				return err
			}
			fill(stage[turn][:n], u, from)
			if err := d.g.Upload(*u.addr+kernel.Addr(from), stage[turn][:n]); err != nil {
				return err
			}
			if err := d.g.Mark(turn); err != nil {
				return err
			}
			turn = 1 - turn
			done += n
			if d.o.Progress != nil {
				d.o.Progress(done, s.bytes)
			}
		}
		d.release(s, u, left)
	}
	for i := range stage {
		if err := d.g.Wait(i); err != nil {
			return err
		}
		if err := d.freeHost(stage[i]); err != nil {
			return err
		}
	}
	return nil
}

// fill packs a piece on all cores.
func fill(dst []byte, u *upload, from int64) {
	units := int64(len(dst)) / u.unit
	parts := max(1, min(int64(runtime.GOMAXPROCS(0)), int64(len(dst))>>16, units))
	var all sync.WaitGroup
	for i := range parts {
		a, b := units*i/parts*u.unit, units*(i+1)/parts*u.unit
		if i == parts-1 {
			b = int64(len(dst))
		}
		all.Go(func() { u.pack(dst[a:b], from+a) })
	}
	all.Wait()
}

// tensorUsers counts the uploads that read each tensor.
func tensorUsers(s *store) []int {
	users := make([]int, len(s.p.Tensors))
	for i := range s.uploads {
		for _, id := range s.uploads[i].tensors {
			users[id]++
		}
	}
	return users
}

// release lets go of tensors that have been read for the last time.
func (d *Device) release(s *store, u *upload, left []int) {
	for _, id := range u.tensors {
		if left[id]--; left[id] == 0 && d.o.Release != nil {
			d.o.Release(s.p.Tensors[kernels.TensorID(id)].Data)
		}
	}
}
