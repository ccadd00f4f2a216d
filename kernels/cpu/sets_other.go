package cpu

func sets() []*kernelSet { return []*kernelSet{&portable} }
