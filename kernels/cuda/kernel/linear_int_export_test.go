package kernel

import (
	"fmt"

	"hearth/kernels"
)

// IsInt says whether a type has integer kernels.
func IsInt(t kernels.DType) bool { return intTypes[t] != nil }

// IntGeometry is what int_weights.cuh must say of each type.
func IntGeometry() map[string]string {
	folds := []string{"kFoldOffset", "kFoldMin", "kFoldHalves", "kFoldSums"}
	g := map[string]string{}
	for _, t := range intTypes {
		g[t.name] = fmt.Sprintf("kBlocks = %d, kBytes = %d, kFold = %s, kOffset = %d, kChunk = %d", t.blocks, t.bytes, folds[t.fold], t.offset, t.chunk)
	}
	return g
}

// The tiers of the integer linears, for tests that choose one themselves. cut
// says whether segments go to blocks of their own.

func IntGemv(t Target, w *Weight, c LinearCall) ([]Launch, error) {
	s := w.intShape()
	return []Launch{s.gemv(t, w, c, s.gemvStages(c.Rows, t.Shared))}, nil
}

func IntTile(t Target, w *Weight, c LinearCall, cut bool) ([]Launch, error) {
	t.SMs = 0
	if cut {
		t.SMs = 1 << 20
	}
	s := w.intShape()
	l, err := s.tile(t, w, c)
	if err != nil {
		return nil, err
	}
	return c.withPost(t, []Launch{s.quantize(w, c), l}, s.out)
}

// IntScratchUsed is how much scratch a call with rows rows writes on a device
// with that many multiprocessors.
func IntScratchUsed(w *Weight, rows, sms int) int64 {
	s := w.intShape()
	l, err := s.tile(Target{SMs: sms, Shared: 227 << 10}, w, LinearCall{Rows: rows})
	if err != nil {
		return -1
	}
	groups := (rows + 7) / 8
	if n := s.operandBytes(groups); l.Grid.Z == 1 {
		return n
	}
	return s.operandBytes(groups) + s.partBytes(groups)
}

// IntShare is how many blocks each of several weights gets of slots.
func IntShare(ws []*Weight, slots int) []int {
	var parts []intShape
	for _, w := range ws {
		parts = append(parts, w.intShape())
	}
	blocks, _, _ := gemvShare(parts, slots)
	return blocks
}
