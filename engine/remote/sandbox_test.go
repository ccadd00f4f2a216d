//go:build linux

package remote

func sandboxMain() int { return 0 }
