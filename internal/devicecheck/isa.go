package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"

	"hearth/kernels/cuda/driver"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/conformance"
)

// isa runs what instructions are held to on the GPU, and keeps what it gave.
func (o *options) isa() error {
	d, dev, err := o.open()
	if err != nil {
		return err
	}
	g, err := d.OpenGPU(dev)
	if err != nil {
		return err
	}
	defer g.Close()
	results, wrong, err := conform(g)
	if o.compare != "" {
		err = errors.Join(err, compareWith(o.compare, results))
	}
	if o.golden != "" {
		text, fault := json.MarshalIndent(results, "", " ")
		err = errors.Join(err, fault)
		if fault == nil {
			err = errors.Join(err, os.WriteFile(o.golden, append(text, '\n'), 0o644))
		}
	}
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d cases differ from the manual", wrong)
	}
	return err
}

// conform runs all cases that the GPU has instructions for. It goes on after a
// wrong result and after what the driver refuses; an error that destroys the
// context ends it.
func conform(g kernel.GPU) (results []*conformance.Result, wrong int, err error) {
	cases, err := conformance.Cases()
	if err != nil {
		return nil, 0, err
	}
	left := 0
	for i := range cases {
		c := &cases[i]
		if c.Target > g.Target().Compute {
			left++
			continue
		}
		r, err := conformance.Run(g, c)
		var e *driver.Error
		if errors.As(err, &e) && !e.Sticky() {
			wrong++
			fmt.Println("FAIL", err)
			continue
		}
		if err != nil {
			return results, wrong, err
		}
		results = append(results, r)
		if len(r.Wrong) > 0 {
			wrong++
			fmt.Printf("FAIL %s\n", c.Name)
			for _, w := range r.Wrong[:min(len(r.Wrong), 4)] {
				fmt.Println("  ", w)
			}
		}
	}
	fmt.Printf("%d cases of instructions, %d wrong, %d left out for their architecture\n", len(results), wrong, left)
	return results, wrong, nil
}

// compareWith tells which cases gave other bits than another GPU, or the
// interpreter, gave, as an earlier run kept them. That is no fault where the manual
// leaves bits open; a file of other cases is one.
func compareWith(file string, results []*conformance.Result) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var kept []*conformance.Result
	if err := json.Unmarshal(text, &kept); err != nil {
		return fmt.Errorf("cannot read results from %s: %w", file, err)
	}
	before := map[string][][]string{}
	for _, r := range kept {
		before[r.Case] = r.Out
	}
	same, other := 0, 0
	for _, r := range results {
		out, ok := before[r.Case]
		switch {
		case !ok:
		case reflect.DeepEqual(out, r.Out):
			same++
		default:
			other++
			fmt.Printf("OTHER BITS %s\n", r.Case)
		}
	}
	fmt.Printf("%d cases gave the bits of %s, %d others\n", same, file, other)
	if same+other == 0 {
		return fmt.Errorf("%s has none of the cases", file)
	}
	return nil
}
