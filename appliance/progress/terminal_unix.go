//go:build unix

package progress

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is the number of columns of the terminal behind f, 0 if it is
// none.
func terminalWidth(f *os.File) int {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if ws.Col == 0 {
		return 80 // a terminal that does not tell
	}
	return int(ws.Col)
}
