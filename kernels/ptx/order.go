package ptx

// order knows which accesses of a block's warps come before which, by vector
// clocks: the block's clock counts barriers, warp barriers and fences, and
// before[i][j] is the clock up to which everything warp j did comes before what
// warp i does now.
type order struct {
	n       int
	base    uint32 // clock when the block began
	clock   uint32
	before  [][]uint32
	fenced  [][]uint32 // fenced[i][j]: what of warp j a fence has made visible to other blocks, as far as warp i knows; 0 is nothing
	synced  []uint32   // clock of the last warp barrier: lanes of one warp
	arrival [16]arrivals
	// What the block has learnt from strong reads, and how far each address had
	// been read by a warp; known holds answers of after.
	acq    []*acquisition
	learnt map[acqKey]int
	known  map[knownKey]uint32
}

type acqKey struct {
	addr uint64
	warp int
}

type knownKey struct {
	me, warp int
	block    uint64
}

// arrivals joins the clocks of those who have come to a barrier.
type arrivals struct {
	warps          uint32 // that wait
	came           uint32 // waiting or not
	before, fenced []uint32
}

func (o *order) init(n int) {
	o.n = n
	o.before, o.fenced, o.synced = make([][]uint32, n), make([][]uint32, n), make([]uint32, n)
	for i := range n {
		o.before[i], o.fenced[i] = make([]uint32, n), make([]uint32, n)
	}
	for i := range o.arrival {
		o.arrival[i].before, o.arrival[i].fenced = make([]uint32, n), make([]uint32, n)
	}
}

// begin starts a block. The clock runs on, so that what the block before left
// in the tables counts as past.
func (o *order) begin(s *sharedMemory) {
	if o.clock > 1<<30 {
		o.clock = 0
		clear(s.writer)
		clear(s.reader)
		clear(s.reader2)
	}
	o.base = o.clock
	for i := range o.n {
		o.synced[i] = o.base
		for j := range o.n {
			o.before[i][j], o.fenced[i][j] = o.base, 0
		}
	}
	for i := range o.arrival {
		o.arrival[i].warps, o.arrival[i].came = 0, 0
	}
	o.acq = nil
	if o.learnt == nil || len(o.learnt)+len(o.known) > 0 {
		o.learnt, o.known = map[acqKey]int{}, map[knownKey]uint32{}
	}
	o.clock++
}

// arrive notes that warp i has come to barrier id, and whether it waits.
func (o *order) arrive(id, i int, waits bool) {
	a := &o.arrival[id]
	if a.came == 0 {
		copy(a.before, o.before[i])
		copy(a.fenced, o.fenced[i])
	} else {
		for j := range a.before {
			a.before[j] = max(a.before[j], o.before[i][j])
			a.fenced[j] = max(a.fenced[j], o.fenced[i][j])
		}
	}
	a.before[i] = o.clock
	a.came |= 1 << i
	if waits { // it does nothing more before the barrier completes
		a.warps |= 1 << i
	} else {
		o.clock++
	}
}

// barrier orders all who wait at barrier id after all who have come.
func (o *order) barrier(id int) {
	a := &o.arrival[id]
	for i := range o.n {
		if a.warps>>i&1 == 0 {
			continue
		}
		copy(o.before[i], a.before)
		copy(o.fenced[i], a.fenced)
		o.synced[i] = max(o.synced[i], a.before[i])
	}
	a.warps, a.came = 0, 0
	o.clock++
}

// floor is the clock up to which everything in the block comes before what warp
// i does now.
func (o *order) floor(i int) uint32 {
	f := o.synced[i]
	for j, c := range o.before[i] {
		if j != i {
			f = min(f, c)
		}
	}
	return f
}

// warpBarrier orders the lanes of warp i.
func (o *order) warpBarrier(i int) {
	o.synced[i] = o.clock
	o.clock++
}

// fence makes what warp i knows visible to other blocks.
func (o *order) fence(i int) {
	for j := range o.n {
		o.fenced[i][j] = max(o.fenced[i][j], o.before[i][j])
	}
	o.fenced[i][i] = o.clock
	o.clock++
}
