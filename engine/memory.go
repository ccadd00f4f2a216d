package engine

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// AvailableMemory is the memory that can be had without swapping and without
// being killed for it, in bytes, or 0 where the system does not tell: the least
// of what the machine has and of what is left below the limits of the control
// groups (version 2) around this process.
func AvailableMemory() int64 {
	free := machineMemory()
	if limit, used := GroupMemory(); limit > 0 && free > 0 {
		free = min(free, max(1, limit-used))
	}
	return free
}

// machineMemory is MemAvailable of /proc/meminfo.
func machineMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}

const groupRoot = "/sys/fs/cgroup"

// GroupMemory gives the tightest limit of the control groups around this process
// and what is used below it, without file pages that the kernel can drop. Zero:
// no limit, or none that can be read.
func GroupMemory() (limit, used int64) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, 0
	}
	at := "/"
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok { // see cgroups(7)
			at = path.Clean("/" + strings.TrimSpace(p))
		}
	}
	for ; ; at = path.Dir(at) {
		dir := groupRoot + at
		if most, ok := readNumber(dir + "/memory.max"); ok {
			current, _ := readNumber(dir + "/memory.current")
			now := max(0, current-inactiveFile(dir))
			if limit == 0 || most-now < limit-used {
				limit, used = most, now
			}
		}
		if at == "/" {
			return limit, used
		}
	}
}

func readNumber(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64) // "max" is no limit
	return n, err == nil
}

func inactiveFile(dir string) int64 {
	b, err := os.ReadFile(dir + "/memory.stat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "inactive_file "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}
