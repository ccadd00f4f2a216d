package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ledger is what the committer decides by: the end of the chain, the open holds
// and the balances seen so far. It runs ahead of the file only within a commit;
// if that fails it is thrown away and loaded anew.
type ledger struct {
	seq      uint64
	head     [32]byte
	open     map[string]*openHold
	heldNano int64               // sum of the open holds' amounts
	balances map[string]*balance // cache, by balanceKey
}

type openHold struct {
	row      *Row // as held
	amount   int64
	postings []Posting
	since    time.Time // monotonic; when this process made or found it
}

// maxCachedBalances bounds the cache. Past it, balances without open holds are
// forgotten, to be read again when next needed.
const maxCachedBalances = 1 << 16

// balance is the derived position of one budget window.
type balance struct {
	spent, held, overdraft int64
	dirty                  bool
}

func balanceKey(budget, window string) string { return budget + "\x00" + window }

func balanceName(key string) string { return "balance " + strings.Replace(key, "\x00", " ", 1) }

func (b *balance) encode(key string) []byte {
	v := be64(uint64(b.spent))
	v = binary.BigEndian.AppendUint64(v, uint64(b.held))
	v = binary.BigEndian.AppendUint64(v, uint64(b.overdraft))
	return seal([]byte(key), v)
}

func decodeBalance(key string, v []byte) (balance, error) {
	v, err := unseal(balanceName(key), []byte(key), v)
	if err != nil {
		return balance{}, err
	}
	if len(v) != 24 {
		return balance{}, &DamageError{balanceName(key), fmt.Errorf("it has %d bytes, want 24", len(v))}
	}
	b := balance{
		spent:     int64(binary.BigEndian.Uint64(v)),
		held:      int64(binary.BigEndian.Uint64(v[8:])),
		overdraft: int64(binary.BigEndian.Uint64(v[16:])),
	}
	if b.spent < 0 || b.held < 0 || b.overdraft < 0 || b.overdraft > b.spent {
		return balance{}, &DamageError{balanceName(key), errors.New("its sums contradict each other")}
	}
	return b, nil
}

// apply books a posting. It fails, changing nothing, on overflow or if a sum
// would become negative.
func (b *balance) apply(kind Kind, p *Posting) error {
	spent, ok1 := addNano(b.spent, p.SpentNano)
	held, ok2 := addNano(b.held, p.HeldNano)
	over := b.overdraft
	ok3 := true
	if kind == KindOverdraft {
		over, ok3 = addNano(over, p.SpentNano)
	}
	if _, ok4 := addNano(spent, held); !ok1 || !ok2 || !ok3 || !ok4 {
		return ErrOverflow
	}
	if spent < 0 || held < 0 || over < 0 {
		return fmt.Errorf("budget %s, window %s would have spent %d, held %d nano-USD", p.Budget, p.Window, spent, held)
	}
	b.spent, b.held, b.overdraft = spent, held, over
	return nil
}

// addNano adds and says whether the sum fits.
func addNano(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

// fits says whether amount more can be held under limit. All are ≥ 0.
func (b *balance) fits(amount, limit int64) bool {
	used, ok := addNano(b.spent, b.held)
	if !ok || amount > math.MaxInt64-used {
		return false
	}
	return used+amount <= limit
}

func (l *ledger) openIDs() []string {
	ids := make([]string, 0, len(l.open))
	for id := range l.open {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return int(int64(l.open[a].row.HoldSeq - l.open[b].row.HoldSeq))
	})
	return ids
}

// tailChecked is how many records at the end of the chain are verified when
// the file is opened; Check verifies all.
const tailChecked = 256

func loadLedger(tx *bolt.Tx) (*ledger, error) {
	l := &ledger{open: map[string]*openHold{}, balances: map[string]*balance{}}
	m := tx.Bucket(bucketMeta)
	var err error
	if l.seq, l.head, err = decodePoint("the head of the ledger", m.Get(metaHead)); err != nil {
		return nil, err
	}
	base, baseHash, err := decodePoint("the base of the ledger", m.Get(metaBase))
	if err != nil {
		return nil, err
	}
	if err := checkTail(tx, l, base, baseHash); err != nil {
		return nil, err
	}
	now := time.Now()
	c := tx.Bucket(bucketOpen).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		what := fmt.Sprintf("the open hold of request %.128q", k)
		if len(v) != 8 {
			return nil, &DamageError{what, errShort}
		}
		r, _, err := readRecord(tx, binary.BigEndian.Uint64(v))
		if err != nil {
			return nil, err
		}
		if r.Kind != KindHold || r.RequestID != string(k) {
			return nil, &DamageError{what, fmt.Errorf("record %d is the %s of %q", r.Seq, r.Kind, r.RequestID)}
		}
		if err := l.addOpen(r, now); err != nil {
			return nil, &DamageError{what, err}
		}
	}
	return l, nil
}

func (l *ledger) addOpen(r *Record, now time.Time) error {
	held, ok := addNano(l.heldNano, r.Row.HoldNano)
	if !ok {
		return ErrOverflow
	}
	l.heldNano = held
	l.open[r.RequestID] = &openHold{row: r.Row, amount: r.Row.HoldNano, postings: r.Postings, since: now}
	return nil
}

// checkTail verifies the last records and that they end at the head.
func checkTail(tx *bolt.Tx, l *ledger, base uint64, baseHash [32]byte) error {
	if k, _ := tx.Bucket(bucketLedger).Cursor().Last(); k == nil {
		if l.seq != base || l.head != baseHash {
			return &DamageError{"the ledger", fmt.Errorf("it is empty, but its head says record %d", l.seq)}
		}
		return nil
	} else if last := binary.BigEndian.Uint64(pad8(k)); last != l.seq || len(k) != 8 {
		return &DamageError{"the ledger", fmt.Errorf("its last record is %d, but its head says %d", last, l.seq)}
	}
	first := base + 1
	if l.seq > tailChecked && l.seq-tailChecked > first {
		first = l.seq - tailChecked
	}
	var prev [32]byte
	for seq := first; seq <= l.seq; seq++ {
		r, hash, err := readRecord(tx, seq)
		if err != nil {
			return err
		}
		if seq > first && r.Prev != prev || seq == base+1 && r.Prev != baseHash {
			return &DamageError{recordName(seq), errors.New("it does not follow its predecessor")}
		}
		prev = hash
	}
	if prev != l.head {
		return &DamageError{recordName(l.seq), errors.New("it is not the one that the head of the ledger names")}
	}
	return nil
}

func pad8(k []byte) []byte {
	var b [8]byte
	copy(b[:], k)
	return b[:]
}

func recordName(seq uint64) string { return fmt.Sprintf("ledger record %d", seq) }

// readRecord reads one record by its place and gives its hash too.
func readRecord(tx *bolt.Tx, seq uint64) (*Record, [32]byte, error) {
	b := tx.Bucket(bucketLedger).Get(be64(seq))
	if b == nil {
		return nil, [32]byte{}, &DamageError{recordName(seq), errors.New("it is missing")}
	}
	r, err := parseRecord(seq, b)
	if err != nil {
		return nil, [32]byte{}, err
	}
	return r, recordHash(b), nil
}

// parseRecord decodes what is stored at seq.
func parseRecord(seq uint64, b []byte) (*Record, error) {
	r, err := decodeRecord(b)
	if err != nil {
		return nil, &DamageError{recordName(seq), err}
	}
	if r.Seq != seq {
		return nil, &DamageError{recordName(seq), fmt.Errorf("it calls itself %d", r.Seq)}
	}
	return r, nil
}
