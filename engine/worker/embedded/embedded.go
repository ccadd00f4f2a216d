// Package embedded holds the GPU worker inside a release binary. What is
// committed is a placeholder; scripts/release builds the worker first and has
// the compiler see it in the placeholder's place.
package embedded

import (
	_ "embed" // the worker
	"strings"
)

// Read through an embed.FS the program would be copied to the heap; a string
// stays in the pages of the file.
//
//go:embed worker.elf
var program string

// Name is what the worker's process is called.
const Name = "hearth-gpu"

// Worker is the GPU worker's program; empty: this build carries none.
func Worker() string {
	if !strings.HasPrefix(program, "\x7fELF") {
		return ""
	}
	return program
}
