// Package store keeps everything that must outlive the process in one bbolt
// file: the money ledger with its request rows, the API keys and small blobs
// for other parts.
//
// # Ledger
//
// The ledger is an append-only chain of records. A request that may cost money
// makes a hold before it is dispatched and ends with exactly one of settle,
// release or expire. A charge above the hold adds an explicit overdraft record.
// Each record carries its sequence number, a schema version, a CRC-32C and the
// SHA-256 of its predecessor; a record that does not match is refused by name,
// never interpreted. Amounts are int64 nano-USD and every sum is checked for
// overflow.
//
// The request row (what was asked for, what was used, what it cost, how it
// ended; never content) travels inside the records: its opening half in the
// hold, the whole of it in the record that ends the hold. Row and money can
// therefore never disagree about being written.
//
// Balances (committed and held nano-USD for each budget and window) are derived
// from the records, cached in a bucket in the same transaction, and re-derived
// by Check.
//
// # The bound
//
// At every instant, for every budget window, committed + held ≤ cap, where
// committed does not count overdrafts explicitly recorded as such. A hold names
// all its budgets and is granted against all of them or none. A hold belongs to
// the window in which it was made and is settled there, also after that window
// has ended.
//
// # Durability
//
// One goroutine, the committer, owns all writing. It takes whatever waits,
// checks each operation against the state in memory, appends the accepted ones to
// a journal and answers only after that has been synced; behind its back the
// records then go into the database, many in one bbolt transaction. It adds no
// delay of its own: a lone operation is committed at once, and while a commit
// runs the next group gathers. Whoever reads sees all that was acknowledged.
//
// A commit that returns an error has an unknown outcome (bbolt may show the
// change if the sync of its meta page failed). The store then refuses all work
// until it has read the file again and settled by request id what was left in
// doubt: holds are undone, ends are done. It tries that by itself, ever more
// rarely; Reopen makes it try now. A full disk is healed at once, by giving up
// space that was set aside; see Options.BallastBytes.
//
// FORMAT.md describes the file.
package store
