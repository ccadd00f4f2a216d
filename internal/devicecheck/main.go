// Devicecheck does on a machine with a GPU what only a developer wants of one;
// testdata/device/run calls it.
//
//	devicecheck [-library PATH] [-gpu N] ptx
//	devicecheck [-library PATH] [-gpu N] [-golden FILE] [-compare FILE] isa
//	devicecheck [-library PATH] [-gpu N] [-tokens N] tokens MODEL...
//	devicecheck make SHAPE FILE
//
// ptx has the driver compile every kernel and prints what its compiler says.
// isa runs the cases of what instructions do, keeps what the GPU gave, and tells
// where that differs from what another gave. tokens continues a text with each
// model on the GPU and on the CPU, the likeliest token each time, and compares.
// make writes a model of random weights in the shape of a published one.
//
// Built as a test with the tag gpubox it also runs the cases of kernels, where it
// is given no command.
package main

import (
	"flag"
	"fmt"
	"os"

	"hearth/kernels/cuda/driver"
)

// options are the flags of all commands.
type options struct {
	driver  string
	gpu     int
	tokens  int
	golden  string
	compare string
}

var flags options

func init() {
	flag.StringVar(&flags.driver, "library", "", "the `folder or file` of libcuda.so.1, if the loader does not know it")
	flag.IntVar(&flags.gpu, "gpu", 0, "which GPU, by `number`")
	flag.IntVar(&flags.tokens, "tokens", 64, "continue by `N` tokens")
	flag.StringVar(&flags.golden, "golden", "", "keep what instructions gave in `FILE`")
	flag.StringVar(&flags.compare, "compare", "", "tell where instructions give another result than in `FILE`")
}

func main() {
	flag.Parse()
	if err := run(&flags, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o *options, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("cannot check: got no command, wanted ptx, isa, tokens or make")
	}
	switch args[0] {
	case "ptx":
		return o.compile()
	case "isa":
		return o.isa()
	case "tokens":
		return o.continueAll(args[1:])
	case "make":
		if len(args) != 3 {
			return fmt.Errorf("cannot make a model: got %d arguments, wanted a shape and a file", len(args)-1)
		}
		return makeModel(args[1], args[2])
	}
	return fmt.Errorf("cannot check: got command %q, wanted ptx, isa, tokens or make", args[0])
}

// open loads the driver and finds the GPU.
func (o *options) open() (*driver.Driver, driver.Device, error) {
	d, err := driver.Open(o.driver)
	if err != nil {
		return nil, driver.Device{}, err
	}
	all, err := d.Devices()
	if err != nil {
		return nil, driver.Device{}, err
	}
	if o.gpu < 0 || o.gpu >= len(all) {
		return nil, driver.Device{}, fmt.Errorf("cannot check GPU %d: there are %d", o.gpu, len(all))
	}
	g := all[o.gpu]
	fmt.Printf("%s, compute capability %d.%d, driver of CUDA %s at %s\n", g.Name, g.Compute/10, g.Compute%10, d.VersionString(), d.Path())
	return d, g, g.Supported()
}
