package kernel

// mixedParts is the most weights of one launch.
const mixedParts = 3

// mixable tells whether a launch that multiplies x by w may multiply it by other
// types too: what is fused at the end is a bias at most, and rows are few.
func mixable(t Target, w *Weight, c *LinearCall) bool {
	if family(w.Type) != familyInt || !few(c.Rows, w.K) || c.Act != NoActivation || c.Residual || c.Post != nil {
		return false
	}
	s := w.intShape()
	return s.gemvStages(c.Rows, t.Shared) > 0
}

// mixRun is how many weights, from the first on, one launch multiplies x by:
// types whose blocks have one size, and with it the same segments.
func mixRun(t Target, ws []*Weight, cs []LinearCall) int {
	n := 0
	for n < min(len(ws), mixedParts) && mixable(t, ws[n], &cs[n]) && intTypes[ws[n].Type].blocks == intTypes[ws[0].Type].blocks {
		n++
	}
	return max(n, 1)
}

// gemvMixed is the launch of linears that mixRun found. Each has blocks of its
// own, which do what gemv does.
func gemvMixed(t Target, ws []*Weight, cs []LinearCall) (Launch, error) {
	shapes, shared := make([]intShape, len(ws)), 0
	stages := make([]int, len(ws))
	for i, w := range ws {
		if err := checkInt(w, &cs[i]); err != nil {
			return Launch{}, err
		}
		shapes[i] = w.intShape()
		stages[i] = shapes[i].gemvStages(cs[i].Rows, t.Shared)
		shared = max(shared, shapes[i].gemvShared(cs[i].Rows, stages[i]))
	}
	s, c := &shapes[0], &cs[0]
	of := "mixed_32"
	if s.blocks > 1 {
		of = "mixed_k"
	}
	grid, total := gemvGrid(t, shapes, shared), 0
	params := []any{c.X.Addr, c.Norm, int32(c.Rows), int32(c.X.Stride), int32(s.blobs), int32(s.segments), c.Eps}
	for i := range mixedParts {
		if i >= len(ws) {
			params = append(params, Addr(0), Addr(0), Addr(0), int32(0), int32(0), int32(0), int32(0), int32(0), int32(0))
			continue
		}
		params = append(params, ws[i].Addr, cs[i].Y.Addr, cs[i].Bias, int32(cs[i].Y.Stride), int32(shapes[i].out), int32(shapes[i].strips),
			int32(stages[i]), int32(shapes[i].number), int32(grid[i]))
		total += grid[i]
	}
	return Launch{
		Module: "linear_int_" + of, Name: gemvName(c.Rows, of),
		Grid: Dim{uint32(total), 1, 1}, Block: Dim{uint32(32 * s.segments), 1, 1}, Shared: uint32(shared), Params: Pack(params...),
	}, nil
}
