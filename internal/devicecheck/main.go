// Devicecheck does on a machine with a GPU what only a developer wants of one;
// testdata/device/run calls it.
//
//	devicecheck [-library PATH] [-gpu N] ptx
//	devicecheck [-library PATH] [-gpu N] [-golden FILE] isa
//	devicecheck [-library PATH] [-gpu N] [-tokens N] tokens MODEL...
//
// ptx has the driver compile every kernel and prints what its compiler says.
// isa runs the cases of what instructions do and keeps what the GPU gave.
// tokens continues a text with each model on the GPU and on the CPU, the
// likeliest token each time, and compares.
package main

import (
	"flag"
	"fmt"
	"os"

	"hearth/kernels/cuda/driver"
)

// options are the flags of all commands.
type options struct {
	driver string
	gpu    int
	tokens int
	golden string
}

func main() {
	var o options
	flag.StringVar(&o.driver, "library", "", "the `folder or file` of libcuda.so.1, if the loader does not know it")
	flag.IntVar(&o.gpu, "gpu", 0, "which GPU, by `number`")
	flag.IntVar(&o.tokens, "tokens", 64, "continue by `N` tokens")
	flag.StringVar(&o.golden, "golden", "", "keep what instructions gave in `FILE`")
	flag.Parse()
	if err := run(&o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o *options, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("cannot check: got no command, wanted ptx, isa or tokens")
	}
	switch args[0] {
	case "ptx":
		d, g, err := o.open()
		if err != nil {
			return err
		}
		c, err := d.Context(g)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Do(func() error { return loadAll(c) })
	case "isa":
		return o.isa()
	case "tokens":
		return o.compareAll(args[1:])
	}
	return fmt.Errorf("cannot check: got command %q, wanted ptx, isa or tokens", args[0])
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
