package output

const alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// CallIDs returns a generator of ids "call_" and 24 letters or digits from a
// source of random words, which is called three times for each.
func CallIDs(random func() uint64) func() string {
	return func() string {
		var b [29]byte
		copy(b[:], "call_")
		for i := 5; i < len(b); {
			w := random()
			for range 8 { // 8 × log2(62) is under 48 bits of the word
				b[i] = alnum[w%uint64(len(alnum))]
				w /= uint64(len(alnum))
				i++
			}
		}
		return string(b[:])
	}
}
