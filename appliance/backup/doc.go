// Package backup writes and reads the backups of an appliance: one file with
// everything but the models, and puts one back in place.
//
// # The file
//
// A backup is a tar archive (POSIX.1-2001) in one zstd frame (RFC 8878), so that
// `tar --zstd -x` opens it too. Its members, in order:
//
//	backup.json     Head: format, version, time. Read before anything else
//	hearth.db       a consistent copy of the database, as of one transaction
//	appliance.toml  the configuration, and further small files of the appliance
//	manifest.json   last: counts and sums of the ledger, models, and the size and
//	                SHA-256 of each member before it
//
// With a passphrase the whole of that is encrypted; see seal.go. Models are not
// in it: they are large, and their digests say which ones belong to it.
//
// # Putting one back
//
// Nothing is changed before the whole backup has been unpacked beside what is
// there, compared with its manifest and walked (Stage). Then what is there moves
// aside as one set, its journals included, whose records would else be added to
// the restored ledger; the database comes in last (Apply). A plan file says how
// far that is: whatever moment the power fails at, the next start goes on with
// it, and there is no moment at which a mixture could be opened.
package backup

import (
	"fmt"
	"regexp"
	"time"

	"hearth/store"
)

// Format is the version of the layout that this build writes, and the newest it
// reads.
const Format = 1

// Names of members that every backup has.
const (
	Database   = "hearth.db"
	Config     = "appliance.toml"
	headName   = "backup.json"
	finalName  = "manifest.json"
	maxHead    = 1 << 20
	maxFinal   = 64 << 20
	maxMembers = 64
	maxFile    = 64 << 20 // of members other than the database
	// maxDatabase bounds the database: 16 TiB, more than bbolt maps.
	maxDatabase = 16 << 40
)

// Head is what is known before the copy is made.
type Head struct {
	Format   int       `json:"format"`
	Hearth   string    `json:"hearth"` // version of the program that wrote it
	Revision string    `json:"revision,omitempty"`
	Created  time.Time `json:"created"`
	Host     string    `json:"host,omitempty"`
	Kind     string    `json:"kind"` // "manual" or "scheduled"
	Note     string    `json:"note,omitempty"`
}

// Manifest is what a backup is.
type Manifest struct {
	Head
	Ledger  store.Summary `json:"ledger"`
	Members []Member      `json:"members"`
	// Models are the installed models, which are not in it.
	Models []Model `json:"models,omitempty"`
	// Outside are files and variables that the configuration refers to and that
	// are not in it: credentials and certificates of others.
	Outside []string `json:"outside,omitempty"`
}

// Member is one file of a backup.
type Member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Model is an installed model by its digest.
type Model struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Source string `json:"source,omitempty"`
}

// check says in words why a backup cannot be read by this build.
func (h *Head) check() error {
	switch {
	case h.Format < 1:
		return fmt.Errorf("cannot read this backup: its format is %d, which there is none of", h.Format)
	case h.Format > Format:
		return fmt.Errorf("cannot read this backup: it was written by hearth %.40s in format %d, and this build reads formats up to %d: use that version or a newer one",
			h.Hearth, h.Format, Format)
	}
	return nil
}

// memberName is what a member may be called: a plain name, so that none can be
// written anywhere else.
var memberName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// limit is the most bytes that a member may have.
func limit(name string) int64 {
	switch name {
	case Database:
		return maxDatabase
	case headName:
		return maxHead
	case finalName:
		return maxFinal
	}
	return maxFile
}
