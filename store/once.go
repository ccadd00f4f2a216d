package store

import (
	"crypto/sha256"
	"encoding/hex"
)

// onceKey is the place of a caller's Idempotency-Key. The key itself is not
// kept: callers put what they like into it.
func onceKey(keyID, key string) [32]byte {
	h := sha256.New()
	h.Write([]byte("hearth idempotency key 1\x00" + keyID + "\x00" + key))
	return [32]byte(h.Sum(nil))
}

// IdempotencyMark is what a row says of the Idempotency-Key of an API key's
// request: the same for every repeat; empty if there was none.
func IdempotencyMark(keyID, key string) string {
	if key == "" {
		return ""
	}
	sum := onceKey(keyID, key)
	return hex.EncodeToString(sum[:16])
}
