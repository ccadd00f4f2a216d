package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A journal is a file of constant size, its blocks written beforehand, to which
// the records of a commit are appended with one sync: cheaper than the two syncs
// and scattered pages of a bbolt commit. There are two of them: while the records
// of one go into the database, new ones are appended to the other. A record is
// durable once it is in either; at the next start those that the database lacks
// are taken from here.
type journal struct {
	f    *os.File
	size int64
	off  int64 // where the next frame goes; those before are in the database or pending
}

// A frame is the records of one commit: magic 8, mark of the database 8, bytes
// of the rest without the checksum 4, number of records 4, sequence of the first
// 8, then for each its length 4 and bytes; checksum 4. Frames begin at multiples
// of frameAlign.
const (
	frameMagic  = "hearthJ1"
	frameHeader = 32
	frameAlign  = 512
)

// journalBytes is the size of a journal that is made; tests have smaller ones.
var journalBytes int64 = 2 << 20

// frame is one commit as it was found.
type frame struct {
	mark    [8]byte // of the database that it is of
	first   uint64
	records [][]byte
}

func (f *frame) last() uint64 { return f.first + uint64(len(f.records)) - 1 }

// openJournal opens or makes a journal of that size.
func openJournal(path string, size int64) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < size {
		err = writeZeros(f, st.Size(), size)
		if err == nil {
			err = syncDir(filepath.Dir(path))
		}
	} else if err == nil {
		size = st.Size()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &journal{f: f, size: size}, nil
}

// writeZeros makes a file longer, with blocks that need no further allocation.
func writeZeros(f *os.File, from, to int64) error {
	block := make([]byte, 1<<20)
	for from < to {
		n, err := f.WriteAt(block[:min(int64(len(block)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return f.Sync()
}

// beginFrame and endFrame enclose the records of a frame.
func beginFrame(b []byte, mark [8]byte) []byte {
	b = append(b[:0], frameMagic...)
	b = append(b, mark[:]...)
	return append(b, make([]byte, frameHeader-len(b))...)
}

func addToFrame(b, record []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	return append(b, record...)
}

func endFrame(b []byte, n int, first uint64) []byte {
	binary.LittleEndian.PutUint32(b[16:], uint32(len(b)-frameHeader))
	binary.LittleEndian.PutUint32(b[20:], uint32(n))
	binary.LittleEndian.PutUint64(b[24:], first)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

func aligned(n int64) int64 { return (n + frameAlign - 1) / frameAlign * frameAlign }

// fits says whether a frame of n bytes has room.
func (j *journal) fits(n int) bool { return j.off+aligned(int64(n)) <= j.size }

// append writes a frame durably.
func (j *journal) append(b []byte) error {
	if _, err := j.f.WriteAt(b, j.off); err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	if err := datasync(j.f); err != nil {
		return fmt.Errorf("cannot sync the journal: %w", err)
	}
	j.off += aligned(int64(len(b)))
	return nil
}

func (j *journal) close() error { return j.f.Close() }

// read gives the frames from the start on, each the successor of the one before.
// Frames of earlier rounds may lie behind.
func (j *journal) read() ([]frame, error) {
	b, err := j.bytes()
	if err != nil {
		return nil, err
	}
	var out []frame
	for off := 0; off < len(b); {
		f, n, err := parseFrame(b[off:])
		if err != nil || len(out) > 0 && f.first != out[len(out)-1].last()+1 {
			break
		}
		out = append(out, f)
		off += int(aligned(int64(n)))
	}
	return out, nil
}

func (j *journal) bytes() ([]byte, error) {
	b := make([]byte, j.size)
	_, err := io.ReadFull(io.NewSectionReader(j.f, 0, j.size), b)
	return b, err
}

// nothingAfter looks for whole frames behind a broken one: if there are any that
// come after seq, something that was durable has been lost.
func (j *journal) nothingAfter(seq uint64, mark [8]byte) error {
	b, err := j.bytes()
	for off := 0; off < len(b); off += frameAlign {
		if f, _, err := parseFrame(b[off:]); err == nil && f.last() > seq && f.mark == mark {
			return &DamageError{"the journal", fmt.Errorf("record %d is there, and some before it are not", f.last())}
		}
	}
	return err
}

var errNoFrame = errors.New("there is no whole frame")

// parseFrame reads the frame that b begins with and gives its length.
func parseFrame(b []byte) (frame, int, error) {
	if len(b) < frameHeader+4 || string(b[:8]) != frameMagic {
		return frame{}, 0, errNoFrame
	}
	n, count := int64(binary.LittleEndian.Uint32(b[16:])), int64(binary.LittleEndian.Uint32(b[20:]))
	if n > int64(len(b)-frameHeader-4) || count < 1 || count > n/4 {
		return frame{}, 0, errNoFrame
	}
	end := frameHeader + int(n)
	if checksum(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return frame{}, 0, errNoFrame
	}
	f := frame{mark: [8]byte(b[8:16]), first: binary.LittleEndian.Uint64(b[24:])}
	rest := b[frameHeader:end]
	for range count {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return frame{}, 0, errNoFrame
		}
		size := int(binary.LittleEndian.Uint32(rest))
		f.records = append(f.records, rest[4:4+size])
		rest = rest[4+size:]
	}
	if len(rest) > 0 || f.first == 0 {
		return frame{}, 0, errNoFrame
	}
	return f, end + 4, nil
}
