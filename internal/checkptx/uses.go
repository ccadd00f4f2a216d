package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// use is what launches of a kernel ask for, the most of all that are known.
type use struct {
	Threads int // of a block
	Dynamic int // bytes of dynamic shared memory of a block
}

// uses are by "module kernel" and compute capability × 10.
type uses map[string]map[string]use

func (u uses) of(k key, p pair) (use, bool) {
	got, ok := u[k.String()][fmt.Sprint(p.cc)]
	return got, ok
}

// readUses reads launches.json; without it nothing is known.
func readUses(file string) (uses, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var u uses
	if err := json.Unmarshal(data, &u); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	return u, nil
}
