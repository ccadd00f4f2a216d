//go:build !linux

package store

import "os"

// datasync makes what was written durable.
func datasync(f *os.File) error { return f.Sync() }
