package chattmpl

// Bounds on a template, which is foreign code, and on what it does with a
// request. They sit far above every published template.
const (
	maxSource     = 1 << 20 // bytes of template text; the longest in use are about 20 KiB
	maxNodes      = 100_000 // syntax nodes
	maxParseDepth = 200     // nesting of expressions and blocks
	maxEvalDepth  = 10_000  // nested evaluations, macro bodies included: some 10 MiB of stack
	maxCallDepth  = 64      // nesting of macro calls and recursive loops
	maxRange      = 100_000 // items of range(), as in Jinja's sandbox
	maxJSONDepth  = 64      // nesting of tool schemas and call arguments
	maxRaiseBytes = 500     // of a template's own error text that is passed on
	bytesPerStep  = 64      // string bytes that cost one step
)

// limits bounds one rendering; what is left of them counts down.
type limits struct {
	steps, output, alloc, calls int
}

// What a rendering may spend grows with the request, so that a hostile template
// costs little on a small one: a base, and a share for each message and each
// byte of text. Published templates take about 150 steps a message and copy the
// text some ten times.
const (
	baseSteps        = 2_000_000 // about a tenth of a second
	stepsPerMessage  = 4_000
	stepsPerByte     = 2
	baseOutputBytes  = 4 << 20
	outputPerByte    = 4
	baseAllocBytes   = 64 << 20
	allocPerByte     = 64
	allocPerMessage  = 16 << 10
	outputPerMessage = 4 << 10
)

// limitsFor is the budget of a rendering of in.
func limitsFor(in *Input) limits {
	bytes, items := 0, len(in.Messages)+len(in.Tools)
	for i := range in.Messages {
		m := &in.Messages[i]
		bytes += len(m.Name) + len(m.Reasoning)
		for j := range m.Content {
			bytes += len(m.Content[j].Text)
		}
		items += len(m.ToolCalls)
		for j := range m.ToolCalls {
			bytes += len(m.ToolCalls[j].Name) + len(m.ToolCalls[j].Arguments)
		}
	}
	for i := range in.Tools {
		bytes += len(in.Tools[i].Name) + len(in.Tools[i].Description) + len(in.Tools[i].Parameters)
	}
	for _, a := range in.Args {
		bytes += len(a)
	}
	return limits{
		steps:  baseSteps + stepsPerMessage*items + stepsPerByte*bytes,
		output: baseOutputBytes + outputPerMessage*items + outputPerByte*bytes,
		alloc:  baseAllocBytes + allocPerMessage*items + allocPerByte*bytes,
		calls:  maxCallDepth,
	}
}

// A probe renders a few words, so a template that wants more than this for it
// is not served its wish.
var probeLimits = limits{steps: 100_000, output: 256 << 10, alloc: 4 << 20, calls: maxCallDepth}
