package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table was written by the toolkit's own occupancy header.
func TestOccupancyAsToolkit(t *testing.T) {
	data, err := os.ReadFile("testdata/occupancy.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var cc, want int
		var u usage
		if _, err := fmt.Sscan(line, &cc, &u.threads, &u.registers, &u.static, &u.dynamic, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got, err := blocksPerSM(cc, u); err != nil || got != want {
			t.Errorf("%d %+v: got %d blocks, %v, wanted %d", cc, u, got, err, want)
		}
		rows++
	}
	if rows != 280 {
		t.Fatalf("got %d rows, wanted 280", rows)
	}
}

func TestOccupancyRefuses(t *testing.T) {
	if _, err := blocksPerSM(75, usage{threads: 32}); err == nil {
		t.Error("7.5 was accepted")
	}
	if _, err := blocksPerSM(80, usage{}); err == nil {
		t.Error("no threads were accepted")
	}
	if _, err := blocksPerSM(80, usage{threads: 1025}); err == nil {
		t.Error("1025 threads were accepted")
	}
}
