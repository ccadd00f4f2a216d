//go:build unix

package appliance

import "golang.org/x/sys/unix"

// freeBytes is how much this user may still write under dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
