package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt trusts the pages that it maps: a flipped bit in one can make it panic,
// also in goroutines of its own, where nobody can catch it, or touch memory
// outside the file. So the tree is walked here first, with bounds, from a file
// that is read and not mapped. The layout is that of bbolt's internal/common
// (page.go, meta.go, bucket.go), in the machine's byte order:
//
//	page     id 8, flags 2, count 2, overflow pages 4, then the elements
//	branch   position 4 from the element, key size 4, child page 8
//	leaf     flags 4 (1: the value is a bucket), position 4, key size 4, value size 4
//	bucket   root page 8 (0: a leaf page follows in place), sequence 8
//	meta     page header, magic 4, version 4, page size 4, flags 4, root bucket 16,
//	         freelist page 8, pages in use 8, transaction 8, FNV-1a of all that 8
const (
	pageHeaderSize = 16
	elementSize    = 16
	bucketHeader   = 16
	branchPage     = 0x01
	leafPage       = 0x02
	bucketLeaf     = 0x01
	metaSize       = 64
	maxTreeDepth   = 64
	maxPageBytes   = 64 << 20 // a page with its overflow
)

var order = binary.NativeEndian

type metaPage struct{ pageSize, root, pages, txid uint64 }

// readMeta reads the meta page at off, if there is one.
func readMeta(f io.ReaderAt, off int64) (metaPage, bool) {
	var b [pageHeaderSize + metaSize]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		return metaPage{}, false
	}
	m := b[pageHeaderSize:]
	h := fnv.New64a()
	h.Write(m[:56])
	if order.Uint32(m[0:]) != 0xED0CDAED || order.Uint32(m[4:]) != 2 || order.Uint64(m[56:]) != h.Sum64() {
		return metaPage{}, false
	}
	p := metaPage{uint64(order.Uint32(m[8:])), order.Uint64(m[16:]), order.Uint64(m[40:]), order.Uint64(m[48:])}
	sane := p.pageSize >= 1024 && p.pageSize <= 1<<16 && p.pageSize&(p.pageSize-1) == 0
	return p, sane && (off == 0 || uint64(off) == p.pageSize)
}

// inspect finds the newer meta page of a database file, compares it with the
// size of the file and walks every page that it leads to.
func inspect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("cannot open the database: %s is not a regular file", path)
	}
	var best metaPage
	found := false
	for _, off := range [...]int64{0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		if m, ok := readMeta(f, off); ok && (!found || m.txid > best.txid) {
			best, found = m, true
		}
	}
	if !found {
		return &DamageError{path, errors.New("it has no valid meta page: not a database of ours, or overwritten; restore a backup")}
	}
	if best.pages > 1<<40 || best.pages*best.pageSize > uint64(st.Size()) {
		return &DamageError{path, fmt.Errorf("it is %d bytes long, want at least %d: it was cut short; restore a backup",
			st.Size(), best.pages*best.pageSize)}
	}
	w := newPageWalk(f, best.pageSize, best.pages)
	if err := w.tree(best.root, nil, nil, 0); err != nil {
		return &DamageError{path, err}
	}
	return nil
}

// pageWalk visits pages and proves that each is what its place asks for: its
// own id, elements within its bounds, keys in order and between those of its
// parent, and reached only once.
type pageWalk struct {
	f        io.ReaderAt
	pageSize uint64
	pages    uint64 // one past the last page in use
	seen     []uint64
	// One page and its keys for each depth of the walk, used again and again.
	bufs [maxTreeDepth + 2][]byte
	keys [maxTreeDepth + 2][][]byte
}

func newPageWalk(f io.ReaderAt, pageSize, pages uint64) *pageWalk {
	return &pageWalk{f: f, pageSize: pageSize, pages: pages, seen: make([]uint64, pages/64+1)}
}

// claim marks a page as reached.
func (w *pageWalk) claim(id uint64) error {
	if w.seen[id/64]&(1<<(id%64)) != 0 {
		return fmt.Errorf("page %d is reached twice", id)
	}
	w.seen[id/64] |= 1 << (id % 64)
	return nil
}

// tree walks the page id, all of whose keys must be in [low, high); nil means
// no bound.
func (w *pageWalk) tree(id uint64, low, high []byte, depth int) error {
	if depth > maxTreeDepth {
		return fmt.Errorf("page %d is nested too deeply", id)
	}
	if id < 2 || id >= w.pages {
		return fmt.Errorf("page %d is named, want 2 to %d", id, w.pages-1)
	}
	if w.bufs[depth] == nil {
		w.bufs[depth] = make([]byte, w.pageSize)
	}
	page := w.bufs[depth]
	if _, err := w.f.ReadAt(page, int64(id*w.pageSize)); err != nil {
		return fmt.Errorf("cannot read page %d: %w", id, err)
	}
	overflow := uint64(order.Uint32(page[12:]))
	if got := order.Uint64(page); got != id || overflow >= w.pages-id || (overflow+1)*w.pageSize > maxPageBytes {
		return fmt.Errorf("page %d calls itself %d, with %d more", id, got, overflow)
	}
	for i := id; i <= id+overflow; i++ {
		if err := w.claim(i); err != nil {
			return err
		}
	}
	if overflow > 0 {
		page = make([]byte, (overflow+1)*w.pageSize)
		if _, err := w.f.ReadAt(page, int64(id*w.pageSize)); err != nil {
			return fmt.Errorf("cannot read page %d: %w", id, err)
		}
	}
	return w.page(id, page, low, high, depth, false)
}

// page walks the elements of one page. One that lies in place within another
// holds no buckets (bbolt's Bucket.inlineable), which also bounds the walk.
func (w *pageWalk) page(id uint64, page, low, high []byte, depth int, inPlace bool) error {
	flags, count := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return fmt.Errorf("page %d has flags %#x and %d elements", id, flags, count)
	}
	if pageHeaderSize+count*elementSize > len(page) {
		return fmt.Errorf("page %d has %d elements, more than it has room for", id, count)
	}
	if cap(w.keys[depth]) < count {
		w.keys[depth] = make([][]byte, count)
	}
	keys := w.keys[depth][:count]
	for i := range keys {
		e := page[pageHeaderSize+i*elementSize:]
		sizes := [3]uint64{uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), 0} // position, key, value
		if flags == leafPage {
			sizes = [3]uint64{uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))}
		}
		if sizes[0]+sizes[1]+sizes[2] > uint64(len(e)) || sizes[0] < elementSize || sizes[1] == 0 {
			return fmt.Errorf("page %d, element %d is out of bounds", id, i)
		}
		keys[i] = e[sizes[0] : sizes[0]+sizes[1]]
		switch {
		case i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0,
			i == 0 && low != nil && bytes.Compare(low, keys[i]) > 0,
			high != nil && bytes.Compare(keys[i], high) >= 0:
			return fmt.Errorf("page %d, element %d is out of order", id, i)
		}
		if inPlace && (flags != leafPage || order.Uint32(e) != 0) {
			return fmt.Errorf("page %d, element %d has a bucket in a bucket in place", id, i)
		}
		if flags == leafPage {
			value := e[sizes[0]+sizes[1] : sizes[0]+sizes[1]+sizes[2]]
			if err := w.leaf(id, i, order.Uint32(e), value, depth); err != nil {
				return err
			}
		}
	}
	if flags == leafPage {
		return nil
	}
	for i := range keys {
		next := high
		if i+1 < count {
			next = keys[i+1]
		}
		if err := w.tree(order.Uint64(page[pageHeaderSize+i*elementSize+8:]), keys[i], next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf walks the value of a leaf element if it is a bucket.
func (w *pageWalk) leaf(id uint64, i int, flags uint32, value []byte, depth int) error {
	switch {
	case flags == 0:
		return nil
	case flags != bucketLeaf || len(value) < bucketHeader:
		return fmt.Errorf("page %d, element %d has flags %#x and %d bytes", id, i, flags, len(value))
	}
	if root := order.Uint64(value); root != 0 {
		return w.tree(root, nil, nil, depth+1)
	}
	if len(value) < bucketHeader+pageHeaderSize {
		return fmt.Errorf("page %d, element %d is no bucket", id, i)
	}
	return w.page(id, value[bucketHeader:], nil, nil, depth+1, true)
}
