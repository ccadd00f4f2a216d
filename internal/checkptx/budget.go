package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// budget is what one kernel may cost, on every device. It is data, committed
// beside the kernels: a change that costs more shows in its diff.
type budget struct {
	Module string `json:"module"`
	Kernel string `json:"kernel"`
	// Threads of a block. Where the PTX bounds them this is that bound.
	Threads int `json:"threads"`
	// Shared is the most static shared memory of a block, in bytes.
	Shared int `json:"shared"`
	// Has lists instructions that the machine code must hold (the list wanted).
	Has []string `json:"has"`
	// Narrow is the most global loads of less than 4 bytes within loops.
	Narrow int `json:"narrow"`
	// OldLocal is the most local memory, bytes of stack and spills, with a ptxas
	// before the newest. With the newest there is none.
	OldLocal int `json:"old_local,omitempty"`
	// On has a limit for each row of pairs.
	On map[string]limit `json:"on"`
}

// limit is what a kernel may use on one device.
type limit struct {
	Registers  int `json:"registers"`             // the most a thread uses, whichever ptxas it is
	Dynamic    int `json:"dynamic,omitempty"`     // the most dynamic shared memory that a launch asks for, bytes a block
	Least      int `json:"least,omitempty"`       // and the least
	Blocks     int `json:"blocks"`                // the fewest resident on an SM at once, with Dynamic
	MostBlocks int `json:"most_blocks,omitempty"` // and with Least; 0: as Blocks
}

// pair is a target of the compiler with a device that its PTX runs on.
type pair struct{ target, cc int }

// pairs are all that we ship: 9.0 has PTX of its own, but that of 8.0 must do too.
var pairs = []pair{{80, 80}, {80, 86}, {80, 89}, {80, 90}, {90, 90}}

// String is the key of budget.On.
func (p pair) String() string {
	if p.target == 80 && p.cc == 90 {
		return "90 from 80"
	}
	return fmt.Sprint(p.cc)
}

// key names a kernel. Two modules may each have one of the same name.
type key struct{ module, kernel string }

func (k key) String() string { return k.module + " " + k.kernel }

func readBudgets(file string) (map[key]*budget, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[key]*budget{}, nil
	} else if err != nil {
		return nil, err
	}
	var list []*budget
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	all := map[key]*budget{}
	for _, b := range list {
		k := key{b.Module, b.Kernel}
		if all[k] != nil {
			return nil, fmt.Errorf("cannot read %s: %v is there twice", file, k)
		}
		for _, h := range b.Has {
			if !slices.Contains(wanted, h) {
				return nil, fmt.Errorf("cannot read %s: %v has %q, wanted one of %s", file, k, h, strings.Join(wanted, ", "))
			}
		}
		all[k] = b
	}
	return all, nil
}

// writeBudgets writes the file in the order of names, a line for what holds
// everywhere and one for the devices.
func writeBudgets(file string, all map[key]*budget) error {
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, k := range sortedKeys(all) {
		b := *all[k]
		on, err := json.Marshal(b.On)
		if err != nil {
			return err
		}
		b.On = nil
		head, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		fmt.Fprintf(&out, "%s,\n\t\"on\":%s}", strings.TrimSuffix(string(head), `,"on":null}`), on)
	}
	out.WriteString("\n]\n")
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func sortedKeys[V any](m map[key]V) []key {
	var keys []key
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(strings.Compare(a.module, b.module), strings.Compare(a.kernel, b.kernel))
	})
	return keys
}
