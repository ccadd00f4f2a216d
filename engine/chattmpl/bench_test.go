package chattmpl

import (
	"strings"
	"testing"

	"hearth/engine/infer"
)

// BenchmarkRender renders forty turns of 2 KiB each.
func BenchmarkRender(b *testing.B) {
	var in Input
	for i := range 40 {
		in.Messages = append(in.Messages, say([]infer.Role{infer.RoleUser, infer.RoleAssistant}[i%2], strings.Repeat("some words ", 186)))
	}
	in.AddGenerationPrompt = true
	sources := map[string]string{}
	for _, n := range []string{"chatml", "gemma"} {
		sources[n], _ = Builtin(n)
	}
	for _, path := range sharedVectors(b) {
		f := readVectors(b, path)
		sources[f.Family] = f.Template
	}
	for _, n := range []string{"chatml", "gemma", "qwen3", "llama3.1"} {
		tm := compile(b, sources[n])
		b.Run(n, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := tm.Prompt(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
