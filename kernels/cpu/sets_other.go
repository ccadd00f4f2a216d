//go:build (!amd64 && !arm64) || purego

package cpu

func candidates() []candidate { return []candidate{{set: &portable}} }
