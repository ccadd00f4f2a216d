//go:build cudadev && linux

package appliance

import (
	"context"
	"flag"
	"fmt"

	"hearth/engine/remote"
	"hearth/engine/worker/gpu"
	"hearth/engine/worker/host"
)

// gpuWorkerCommand is the hidden subcommand of a build for developing on a
// machine with a GPU, in which the GPU worker is this program again.
const gpuWorkerCommand = "gpu-worker"

func init() {
	gpuHere = func(args []string) *remote.Command {
		return &remote.Command{Args: append([]string{gpuWorkerCommand}, args...)}
	}
	linkedCommands = append(linkedCommands, &command{
		name: gpuWorkerCommand, args: "COMMAND OPTIONS", hidden: true,
		short: "the GPU worker, linked into this program",
		setup: func(*flag.FlagSet) func(context.Context, *Env, []string) error {
			return func(_ context.Context, _ *Env, args []string) error {
				if status := gpu.Main(args, host.Build()); status != 0 {
					return fmt.Errorf("the GPU worker ended with status %d", status)
				}
				return nil
			}
		},
	})
}
