//go:build !linux

package cpu

import "unsafe"

// allocate returns n zero bytes, aligned to 64.
func allocate(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, n+63)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[skip : skip+n : skip+n], nil
}

func free([]byte) error { return nil }
