package chattmpl

// Bounds on a template, which is foreign code, and on what it does with a
// request. They sit far above every published template on the longest
// conversation that the server accepts (4 096 messages, 20 MiB of text).
const (
	maxSource      = 1 << 20    // bytes of template text; the longest in use are about 20 KiB
	maxNodes       = 100_000    // syntax nodes
	maxParseDepth  = 200        // nesting of expressions and blocks
	maxEvalDepth   = 10_000     // nested evaluations, macro bodies included: some 10 MiB of stack
	maxCallDepth   = 64         // nesting of macro calls and recursive loops
	maxRange       = 100_000    // items of range(), as in Jinja's sandbox
	maxSteps       = 20_000_000 // evaluation steps: about a second of work
	maxOutputBytes = 64 << 20   // rendered text
	maxAllocBytes  = 512 << 20  // memory ever asked for by one rendering
	maxJSONDepth   = 64         // nesting of tool schemas and call arguments
	maxRaiseBytes  = 500        // of a template's own error text that is passed on
	bytesPerStep   = 64         // string bytes that cost one step
)

// Limits bounds one rendering; tests lower them.
type limits struct {
	steps, output, alloc, calls int
}

var defaultLimits = limits{steps: maxSteps, output: maxOutputBytes, alloc: maxAllocBytes, calls: maxCallDepth}

// A probe renders a few words, so a template that wants more than this for it
// is not served its wish.
var probeLimits = limits{steps: 500_000, output: 1 << 20, alloc: 32 << 20, calls: maxCallDepth}
