//go:build !linux

package cpu

import "runtime"

func physicalCores() int { return runtime.NumCPU() }
