package accounts

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"hearth/engine/infer"
)

// Bounds of a password. There are no rules of composition (NIST SP 800-63B
// §5.1.1.2): they make passwords alike.
const (
	minPassword = 12   // characters
	maxPassword = 1024 // bytes, so that hashing a huge one is no work for us
)

// parameters of argon2id.
type parameters struct {
	memory  uint32 // KiB
	time    uint32
	threads uint8
}

// rfc9106 is the second recommended choice of RFC 9106 §4, for where memory is
// scarce: 64 MiB, three passes, four lanes.
var rfc9106 = parameters{memory: 64 << 10, time: 3, threads: 4}

const (
	saltBytes = 16
	keyBytes  = 32
	// hashesAtOnce bounds the memory of sign-ins to so many times 64 MiB; more
	// wait in line, for hashWait at most.
	hashesAtOnce = 2
	hashWait     = 5 * time.Second
	// maxWaiting bounds the line.
	maxWaiting = 64
)

// hasher makes and checks password hashes, few at a time.
type hasher struct {
	p     parameters
	slots chan struct{}
	line  chan struct{}
	hook  func() // called at each hash, for tests
	once  sync.Once
	dummy string // hash of nothing, for names that have no password
}

func newHasher(p parameters) *hasher {
	return &hasher{p: p, slots: make(chan struct{}, hashesAtOnce), line: make(chan struct{}, maxWaiting)}
}

// enter waits for a slot.
func (h *hasher) enter(ctx context.Context) (leave func(), err error) {
	busy := &infer.Error{Code: infer.CodeOverloaded, Message: "too many people sign in right now, please try again", RetryAfter: hashWait}
	select {
	case h.line <- struct{}{}:
	default:
		return nil, busy
	}
	defer func() { <-h.line }()
	t := time.NewTimer(hashWait)
	defer t.Stop()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-t.C:
		return nil, busy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *hasher) key(password string, salt []byte, p parameters, n uint32) []byte {
	if h.hook != nil {
		h.hook()
	}
	return argon2.IDKey([]byte(password), salt, p.time, p.memory, p.threads, n)
}

// hash gives the PHC string of a password.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return h.phc(password), nil
}

func (h *hasher) phc(password string) string {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.p.memory, h.p.time, h.p.threads,
		b64(salt), b64(h.key(password, salt, h.p, keyBytes)))
}

// check says whether password is the one of the hash phc, and whether the hash
// was made with other parameters than today's. An empty phc takes as long as any
// and is never right.
func (h *hasher) check(ctx context.Context, phc, password string) (right, stale bool, err error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return false, false, err
	}
	defer leave()
	known := phc != ""
	if !known {
		// Not made anew each time: that would be two hashes, where a known name has one.
		h.once.Do(func() { h.dummy = h.dummyPHC() })
		phc = h.dummy
	}
	p, salt, want, err := parsePHC(phc)
	if err != nil {
		return false, false, err
	}
	if len(password) > maxPassword {
		password, known = "", false
	}
	got := h.key(password, salt, p, uint32(len(want)))
	right = subtle.ConstantTimeCompare(got, want) == 1
	return right && known, p != h.p, nil
}

// dummyPHC is a hash that no password is known for, made without hashing.
func (h *hasher) dummyPHC() string {
	b := make([]byte, saltBytes+keyBytes)
	rand.Read(b)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.p.memory, h.p.time, h.p.threads, b64(b[:saltBytes]), b64(b[saltBytes:]))
}

var errPHC = errors.New("a stored password hash is damaged")

// parsePHC reads a PHC string of ours, with bounds on what it may ask for.
func parsePHC(s string) (p parameters, salt, key []byte, err error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, errPHC
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &p.threads); n != 3 || err != nil {
		return p, nil, nil, errPHC
	}
	if p.memory < 8 || p.memory > 1<<20 || p.time < 1 || p.time > 16 || p.threads < 1 || p.threads > 16 {
		return p, nil, nil, errPHC
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	key, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(salt) < 8 || len(salt) > 64 || len(key) < 16 || len(key) > 64 {
		return p, nil, nil, errPHC
	}
	return p, salt, key, nil
}

// common.txt has what people choose most who must have twelve characters.
//
//go:embed common.txt
var commonText string

var common = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, l := range strings.Split(commonText, "\n") {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			m[l] = true
		}
	}
	return m
})

// CheckPassword says what is wrong with a password for the account name. It
// never repeats the password.
func CheckPassword(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password) || strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return infer.Invalid("password", "cannot hold control characters")
	case n < minPassword:
		return infer.Invalid("password", "is too short: got %d characters, wanted at least %d; a few words in a row do well", n, minPassword)
	case len(password) > maxPassword:
		return infer.Invalid("password", "is too long: wanted at most %d bytes", maxPassword)
	case easy(name, password):
		return infer.Invalid("password", "is among the first that are tried: choose one that is not a common word, a row of keys or the name of the account")
	}
	return nil
}

// easy says whether a password is among the first guesses: common, common twice,
// common with digits behind it, one short thing repeated, a row, or made of the name.
func easy(name, password string) bool {
	p := strings.ToLower(password)
	stem := strings.TrimRight(p, "0123456789!?.*#-_ ")
	name = strings.ToLower(name)
	if stem == "" || common()[p] || common()[stem] || row(p) {
		return true
	}
	for _, w := range []string{name, "hearth"} {
		if len(w) >= 3 && strings.Trim(strings.ReplaceAll(p, w, ""), "0123456789!?.*#-_ ") == "" {
			return true
		}
	}
	for n := 1; n <= len(p)/2; n++ {
		if len(p)%n == 0 && strings.Repeat(p[:n], len(p)/n) == p && (n < 6 || common()[p[:n]]) {
			return true
		}
	}
	return false
}

// row says whether each character is the neighbour of the one before it.
func row(p string) bool {
	up, down := 0, 0
	for i := 1; i < len(p); i++ {
		switch int(p[i]) - int(p[i-1]) {
		case 1, -9: // 9 is followed by 0
			up++
		case -1, 9:
			down++
		}
	}
	return up == len(p)-1 || down == len(p)-1
}
