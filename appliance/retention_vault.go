package appliance

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hearth/engine/infer"
)

// vault holds kept content in files, one a request:
//
//	"HKC1" | length of the head, 2 bytes | head, JSON | nonce, 12 bytes | sealed content
//
// sealed by AES-256-GCM with everything before the nonce as additional data. The
// key is a file of its own, made with the first content. It is safe for
// concurrent use.
type vault struct {
	dir, keyFile string
	now          func() time.Time

	mu    sync.Mutex // guards below
	aead  cipher.AEAD
	items map[string]*keptItem // by request id
}

type keptItem struct {
	keptHead
	Bytes int64 `json:"bytes"`
}

const (
	vaultMagic  = "HKC1"
	maxKeptHead = 4 << 10
	maxKeptFile = 16 << 20
	keptSuffix  = ".kept"
)

// openVault reads what is there; nothing is made.
func openVault(dir, keyFile string, now func() time.Time) (*vault, error) {
	v := &vault{dir: dir, keyFile: keyFile, now: now, items: map[string]*keptItem{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		if absentFile(err) {
			return v, nil
		}
		return nil, err
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), keptSuffix)
		if !ok {
			continue // a file that was being written
		}
		head, size, err := v.readHead(f.Name())
		if err != nil || head.Request != id {
			// Nobody can say when it expires: it must not stay for ever.
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return nil, err
			}
			continue
		}
		v.items[id] = &keptItem{*head, size}
	}
	return v, nil
}

func (v *vault) readHead(name string) (*keptHead, int64, error) {
	f, err := os.Open(filepath.Join(v.dir, name))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	b := make([]byte, len(vaultMagic)+2+maxKeptHead)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, 0, err
	}
	head, _, err := parseKept(b[:n])
	return head, st.Size(), err
}

var errKept = errors.New("not a file of kept content")

// parseKept reads the head and tells where the nonce begins.
func parseKept(b []byte) (*keptHead, int, error) {
	at := len(vaultMagic) + 2
	if len(b) < at || string(b[:len(vaultMagic)]) != vaultMagic {
		return nil, 0, errKept
	}
	n := int(binary.BigEndian.Uint16(b[len(vaultMagic):]))
	if n > maxKeptHead || len(b) < at+n {
		return nil, 0, errKept
	}
	var h keptHead
	if err := json.Unmarshal(b[at:at+n], &h); err != nil {
		return nil, 0, errKept
	}
	return &h, at + n, nil
}

// sealerLocked opens the key, and makes it if make is set.
func (v *vault) sealerLocked(make bool) (cipher.AEAD, error) {
	if v.aead != nil {
		return v.aead, nil
	}
	key, err := os.ReadFile(v.keyFile)
	if absentFile(err) && make && len(v.items) == 0 {
		key = append(key, randomKey()...)
		err = writeFile(v.keyFile, key, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of kept content: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("cannot use the key of kept content: it has %d bytes, wanted 32", len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if v.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	return v.aead, nil
}

func randomKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails, see crypto/rand
	return key
}

// put seals content and writes it; the oldest under the same table makes room.
func (v *vault) put(h *keptHead, content []byte, most int64) error {
	if !keptID(h.Request) {
		return errors.New("cannot keep content under that id")
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if len(head) > maxKeptHead {
		return errors.New("cannot keep content: its head is too large")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	seal, err := v.sealerLocked(true)
	if err != nil {
		return err
	}
	b := append([]byte(vaultMagic), 0, 0)
	binary.BigEndian.PutUint16(b[len(vaultMagic):], uint16(len(head)))
	b = append(b, head...)
	at := len(b)
	nonce := make([]byte, seal.NonceSize())
	rand.Read(nonce)
	b = append(b, nonce...)
	b = seal.Seal(b, nonce, content, b[:at])
	if err := v.roomLocked(h.Retention, most-int64(len(b))); err != nil {
		return err
	}
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(v.path(h.Request), b, 0o600); err != nil {
		return err
	}
	v.items[h.Request] = &keptItem{*h, int64(len(b))}
	return nil
}

// keptID says whether an id may be a file's name.
func keptID(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

func (v *vault) path(id string) string { return filepath.Join(v.dir, id+keptSuffix) }

// roomLocked deletes the oldest of a table until at most so many bytes are left.
func (v *vault) roomLocked(retention string, most int64) error {
	var list []*keptItem
	sum := int64(0)
	for _, it := range v.items {
		if it.Retention == retention {
			list, sum = append(list, it), sum+it.Bytes
		}
	}
	if sum <= most {
		return nil
	}
	slices.SortFunc(list, func(a, b *keptItem) int { return a.At.Compare(b.At) })
	for _, it := range list {
		if sum <= most {
			break
		}
		if err := v.removeLocked(it.Request); err != nil {
			return err
		}
		sum -= it.Bytes
	}
	return nil
}

func (v *vault) removeLocked(id string) error {
	if err := os.Remove(v.path(id)); err != nil && !absentFile(err) {
		return err
	}
	delete(v.items, id)
	return nil
}

// remove deletes what gone says, and tells how many those were.
func (v *vault) remove(gone func(h *keptHead) bool) (n int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, it := range v.items {
		if gone(&it.keptHead) {
			if e := v.removeLocked(id); e != nil {
				err = errors.Join(err, e)
				continue
			}
			n++
		}
	}
	if n > 0 {
		err = errors.Join(err, syncDir(v.dir))
	}
	return n, err
}

// head finds an item.
func (v *vault) head(id string) (keptItem, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	it := v.items[id]
	if it == nil || !v.now().Before(it.Expires) {
		return keptItem{}, false
	}
	return *it, true
}

// list gives the items that pass, newest first.
func (v *vault) list(pass func(*keptItem) bool) []keptItem {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	out := []keptItem{}
	for _, it := range v.items {
		if now.Before(it.Expires) && pass(it) {
			out = append(out, *it)
		}
	}
	slices.SortFunc(out, func(a, b keptItem) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Request, b.Request)) })
	return out
}

// open reads and unseals the content of a request.
func (v *vault) open(id string) (*keptContent, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.items[id] == nil {
		return nil, infer.Errorf(infer.CodeNotFound, "no content is kept of %.64q", id)
	}
	seal, err := v.sealerLocked(false)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(v.path(id))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeptFile))
	if err != nil {
		return nil, err
	}
	return unsealKept(seal, b)
}

func unsealKept(seal cipher.AEAD, b []byte) (*keptContent, error) {
	_, at, err := parseKept(b)
	if err != nil {
		return nil, err
	}
	if len(b) < at+seal.NonceSize() {
		return nil, errKept
	}
	plain, err := seal.Open(nil, b[at:at+seal.NonceSize()], b[at+seal.NonceSize():], b[:at])
	if err != nil {
		return nil, fmt.Errorf("the kept content is damaged or of another key: %w", err)
	}
	var c keptContent
	return &c, json.Unmarshal(plain, &c)
}

// sums tells how much is kept by table.
func (v *vault) sums() []retainedBy {
	v.mu.Lock()
	defer v.mu.Unlock()
	by := map[string]retainedBy{}
	for _, it := range v.items {
		b := by[it.Retention]
		by[it.Retention] = retainedBy{it.Retention, b.items + 1, b.bytes + it.Bytes}
	}
	out := make([]retainedBy, 0, len(by))
	for _, b := range by {
		out = append(out, b)
	}
	return out
}
