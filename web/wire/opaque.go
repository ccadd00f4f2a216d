package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// Opaque makes an end user's id fit a provider's bound of bytes: one that is
// longer becomes its SHA-256, cut to fit, which tells users apart as well; one that may not be shown at
// all (limit 0) becomes the whole hash.
// Agents send ids of some 150 bytes where providers take 64.
func Opaque(id string, limit int) string {
	if len(id) <= limit || id == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	out := hex.EncodeToString(sum[:])
	if limit <= 0 {
		return out
	}
	return out[:min(limit, len(out))]
}
