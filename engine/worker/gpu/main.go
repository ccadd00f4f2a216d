package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"hearth/engine/worker/report"
)

// Commands of the worker.
const (
	CommandServe  = "serve"
	CommandList   = "list"
	CommandDoctor = "doctor"
	CommandBench  = "bench"
	CommandPlan   = "plan"
)

// Main is the worker's program: a command and its one argument, JSON. It returns
// the exit status.
func Main(args []string, build string) int {
	if err := run(context.Background(), args, build, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, build string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("this program is started by hearth: got %d arguments, wanted a command and its options", len(args))
	}
	if args[0] == CommandServe {
		return serve(ctx, args[1], build)
	}
	if args[0] == CommandPlan {
		p, err := plan(args[1], build)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(p)
	}
	var q report.Query
	if err := json.Unmarshal([]byte(args[1]), &q); err != nil {
		return fmt.Errorf("cannot read the options: %w", err)
	}
	var answer any
	switch args[0] {
	case CommandList:
		answer = listed(q)
	case CommandDoctor:
		answer = checkup(q)
	case CommandBench:
		b, err := bench(ctx, q)
		if err != nil {
			return explain(err)
		}
		answer = b
	default:
		return fmt.Errorf("got command %q, wanted %s, %s, %s, %s or %s", args[0], CommandServe, CommandList, CommandDoctor, CommandBench, CommandPlan)
	}
	return json.NewEncoder(out).Encode(answer)
}

// listed is what is there, or why nothing is.
func listed(q report.Query) *report.List {
	m, err := open(q.Library)
	if err != nil {
		return &report.List{Devices: []report.Device{}, Fault: faultOf(err)}
	}
	return m.list()
}
