//go:build amd64 && !purego && !vnniemu

package cpu

func emulated() []candidate { return nil }
