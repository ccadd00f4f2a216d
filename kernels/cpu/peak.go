package cpu

import "time"

// Peak is what one thread can do at most, to hold measurements against.
type Peak struct {
	Path    string
	IntGOPS float64 // 10⁹ 8-bit integer operations a second; a multiply-add is two
	ReadGBs float64 // 10⁹ bytes a second read from memory too large for any cache
}

const (
	peakBytes = 256 << 20 // read in pieces
	peakPiece = 1 << 20
	peakTries = 200
)

// MeasurePeak runs the instructions of the best kernel path in a loop of their
// own and reports the fastest of many short runs. Figures are 0 where the path has
// no such loop. It takes about a second.
func MeasurePeak() (Peak, error) {
	ks, err := choose("")
	if err != nil {
		return Peak{}, err
	}
	p := Peak{Path: ks.name}
	if ks.peakInts == nil {
		return p, nil
	}
	for range peakTries {
		start := time.Now()
		n := ks.peakInts(20000)
		p.IntGOPS = max(p.IntGOPS, float64(n)/time.Since(start).Seconds()/1e9)
	}
	mem, err := allocate(peakBytes)
	if err != nil {
		return p, err
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1 // so that each page is memory of its own
	}
	for i := 0; i+peakPiece <= len(mem); i += peakPiece {
		start := time.Now()
		ks.read(mem[i : i+peakPiece])
		p.ReadGBs = max(p.ReadGBs, peakPiece/time.Since(start).Seconds()/1e9)
	}
	return p, free(mem)
}
