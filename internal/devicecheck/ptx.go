package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
)

var entryLine = regexp.MustCompile(`(?m)^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)`)

func (o *options) compile() error {
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
}

// loadAll compiles every module for the GPU and reads back each kernel's needs.
// It goes on after a fault: a run on a rented machine should show all of them.
func loadAll(c *driver.Context) error {
	images, err := cuda.Images(c.GPU().Compute)
	if err != nil {
		return err
	}
	var faults []error
	kernels, took := 0, time.Duration(0)
	for _, name := range slices.Sorted(maps.Keys(images)) {
		began := time.Now()
		m, err := c.LoadModule(name, images[name], true)
		if err != nil {
			fmt.Println("FAIL", err)
			faults = append(faults, err)
			continue
		}
		lasted := time.Since(began)
		took += lasted
		fmt.Printf("%s: compiled in %v\n%s\n", name, lasted.Round(time.Millisecond), m.Log)
		for _, e := range entryLine.FindAllSubmatch(images[name], -1) {
			f, err := m.Function(string(e[1]))
			if err != nil {
				fmt.Println("FAIL", err)
				faults = append(faults, err)
				continue
			}
			kernels++
			fmt.Printf("  %-40s %4d threads %4d registers %6d B shared %4d B local\n", e[1], f.MaxThreads, f.Registers, f.StaticShared, f.Local)
			if f.Local > 0 {
				faults = append(faults, fmt.Errorf("kernel %s of %s uses %d bytes of local memory", e[1], name, f.Local))
			}
		}
		if err := m.Unload(); err != nil {
			faults = append(faults, err)
		}
	}
	fmt.Printf("%d modules, %d kernels, compiled in %v, %d faults\n", len(images), kernels, took.Round(time.Millisecond), len(faults))
	return errors.Join(faults...)
}
