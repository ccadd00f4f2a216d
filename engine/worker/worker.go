// Command worker is the GPU worker: the part of Hearth that loads the NVIDIA
// driver's libraries, which a static program cannot. A release carries it inside
// and starts it from memory; nobody else has a use for it.
package main

import (
	"os"

	"hearth/engine/worker/gpu"
	"hearth/engine/worker/host"
)

func main() { os.Exit(gpu.Main(os.Args[1:], host.Build())) }
