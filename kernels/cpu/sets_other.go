//go:build !amd64 || purego

package cpu

func sets() []*kernelSet { return []*kernelSet{&portable} }
