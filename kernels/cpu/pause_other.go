//go:build !amd64 || purego

package cpu

// pause has no portable form; the loop around it is the wait.
func pause() {}
