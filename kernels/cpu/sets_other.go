//go:build (!amd64 && !arm64) || purego

package cpu

func sets() []*kernelSet { return []*kernelSet{&portable} }
