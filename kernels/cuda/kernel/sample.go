package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"hearth/kernels"
)

const (
	sampleModule = "sample"
	sampleChunk  = 4096
	maxVocab     = 1 << 19 // of sample_pick: 1024 segments of 512 tokens

	// MaxTop is the most alternatives that Sample gives.
	MaxTop = 20
	// SampleRecordBytes, AdjustBytes and PickBytes are the sizes of what is written
	// for a row, for an adjustment, and read for a row.
	SampleRecordBytes = 48
	AdjustBytes       = 12
	PickBytes         = 8 + 8*MaxTop
)

// SampleCall chooses tokens of rows of logits. All of it lies in device memory.
type SampleCall struct {
	Rows, Vocab int
	Logits      Mat  // (Rows, Vocab), left as it is
	Adjusted    Addr // as Logits, for rows that have something to adjust
	Records     Addr // SampleRecordBytes a row: AppendChoice writes them
	List        Addr // adjustments
	Masks       Addr // uint32
	Partials    Addr // PartialBytes
	Picks       Addr // PickBytes a row
	Top         bool // a row wants alternatives
}

// PartialBytes is the size of SampleCall.Partials.
func PartialBytes(rows, vocab int) int64 { return 16 * int64(rows) * int64(blocks(vocab, sampleChunk)) }

// Sample gives the launches of c.
func Sample(_ Target, c SampleCall) ([]Launch, error) {
	if err := checkRows("choose", c.Rows, c.Vocab); err != nil {
		return nil, err
	}
	if c.Vocab > maxVocab {
		return nil, fmt.Errorf("cannot choose: got a vocabulary of %d tokens, wanted at most %d", c.Vocab, maxVocab)
	}
	chunks := blocks(c.Vocab, sampleChunk)
	launch := func(name string, grid Dim, threads uint32, args ...any) Launch {
		return Launch{Module: sampleModule, Name: name, Grid: grid, Block: Dim{threads, 1, 1}, Params: Pack(args...)}
	}
	all := []Launch{
		launch("sample_adjust", Dim{chunks, uint32(c.Rows), 1}, 256,
			c.Logits.Addr, int32(c.Logits.Stride), c.Adjusted, c.Records, c.List, c.Masks, c.Partials, int32(c.Vocab)),
		launch("sample_pick", Dim{uint32(c.Rows), 1, 1}, 512,
			c.Logits.Addr, int32(c.Logits.Stride), c.Adjusted, c.Records, c.Partials, int32(chunks), c.Picks, int32(c.Vocab)),
	}
	if c.Top {
		all = append(all, launch("sample_top", Dim{uint32(c.Rows), 1, 1}, 512,
			c.Logits.Addr, int32(c.Logits.Stride), c.Records, c.Partials, int32(chunks), c.Picks, int32(c.Vocab)))
	}
	return all, nil
}

// SampleInput is what a step tells the kernels of its choices, as bytes for the
// device.
type SampleInput struct {
	Records, List, Masks []byte
	Top                  bool
}

// Reset empties s and keeps its memory.
func (s *SampleInput) Reset() {
	s.Records, s.List, s.Masks, s.Top = s.Records[:0], s.List[:0], s.Masks[:0], false
}

// Append adds the choice of the next row.
func (s *SampleInput) Append(c *kernels.Choice, vocab int) error {
	const skip, logprob, adjusted = 1, 2, 4
	var flags uint32
	if c.Logits {
		flags = skip
	}
	if c.Logprob || c.Top > 0 {
		flags |= logprob
	}
	if c.Top > MaxTop {
		return fmt.Errorf("cannot choose: got %d alternatives, wanted at most %d", c.Top, MaxTop)
	}
	if len(c.Adjust) > 0 || c.Allowed != nil {
		flags |= adjusted
	}
	mask := int32(-1)
	if c.Allowed != nil {
		if len(c.Allowed) < (vocab+31)/32 {
			return fmt.Errorf("cannot choose: got a mask of %d words for %d tokens", len(c.Allowed), vocab)
		}
		mask = int32(len(s.Masks) / 4)
		for _, w := range c.Allowed[:(vocab+31)/32] {
			s.Masks = binary.LittleEndian.AppendUint32(s.Masks, w)
		}
	}
	from := len(s.List) / AdjustBytes
	for _, a := range c.Adjust {
		if a.Token < 0 || int(a.Token) >= vocab {
			return fmt.Errorf("cannot choose: got an adjustment of token %d of %d", a.Token, vocab)
		}
		s.List = binary.LittleEndian.AppendUint32(s.List, uint32(a.Token))
		s.List = appendFloat(s.List, a.Divide)
		s.List = appendFloat(s.List, a.Add)
	}
	s.Top = s.Top || c.Top > 0
	scale := float32(0)
	if c.Temperature > 0 {
		scale = float32(math.Log2E / float64(c.Temperature))
	}
	b := s.Records
	b = binary.LittleEndian.AppendUint32(b, uint32(from))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Adjust)))
	b = binary.LittleEndian.AppendUint32(b, uint32(mask))
	b = appendFloat(b, scale)
	b = binary.LittleEndian.AppendUint32(b, uint32(max(0, c.TopK)))
	b = appendFloat(b, c.MinP)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Top))
	b = binary.LittleEndian.AppendUint32(b, flags)
	share := fraction(float64(c.TopP))
	if c.TopP <= 0 {
		share = 1 // the likeliest alone
	}
	b = binary.LittleEndian.AppendUint64(b, share)
	s.Records = binary.LittleEndian.AppendUint64(b, fraction(c.Uniform))
	return nil
}

func appendFloat(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// fraction is x of [0, 1) in units of 2^-64; 0 for what is not in it, and 1 for
// what is too small but not 0.
func fraction(x float64) uint64 {
	if !(x > 0 && x < 1) {
		return 0
	}
	mant, exp := math.Frexp(x) // x = mant · 2^exp, mant in [0.5, 1)
	v := uint64(mant * (1 << 53))
	shift := 11 + exp
	if shift >= 0 {
		return v << shift
	}
	if -shift >= bits.Len64(v) {
		return 1
	}
	return v >> -shift
}

// ReadPick reads what Sample wrote for a row into p.
func ReadPick(p *kernels.Pick, c *kernels.Choice, b []byte) {
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	p.Token = int32(u32(0))
	p.Logprob = math.Float32frombits(u32(4))
	p.Top = p.Top[:0]
	for i := range c.Top {
		p.Top = append(p.Top, kernels.Ranked{Token: int32(u32(8 + 4*i)), Logprob: math.Float32frombits(u32(8 + 4*MaxTop + 4*i))})
	}
}
