//go:build !unix

package progress

import "os"

// terminalWidth is the usual width if f is a console, else 0.
func terminalWidth(f *os.File) int {
	if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		return 80
	}
	return 0
}
