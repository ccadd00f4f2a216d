package policy

import (
	"math/bits"
	"net/netip"
)

// Kinds of personal data, and how each is known. Left and right of each there
// must be no letter or digit.
//
//	email        local@domain, the domain with a dot and a last label of letters
//	phone        + and 8 to 15 digits, also in groups; (ddd) ddd-dddd and
//	             ddd-ddd-dddd of North America. Not: a bare run of digits
//	iban         country, check digits and the length of that country; the
//	             check modulo 97 must hold (ISO 13616)
//	credit_card  13 to 19 digits, in groups or not, with the first digits of the
//	             large issuers; Luhn's check must hold (ISO/IEC 7812)
//	ssn          ddd-dd-dddd, without the areas 000, 666, 9dd
//	ip           IPv4 addresses of four parts and IPv6 addresses
//	api_key      known beginnings (sk-, ghp_, AKIA, xoxb-, …), JSON web tokens and
//	             the head line of a private key
//
// Nothing is undone first: a number in words, in full-width digits or inside
// Base64 is not found.
var detectors = []detector{
	{"api_key", beginsKey, false, apiKey},
	{"iban", isLetter, false, iban},
	{"credit_card", isDigit, false, creditCard},
	{"ssn", isDigit, false, ssn},
	{"ip", func(c byte) bool { return isDigit(c) || isHexLetter(c) || c == ':' }, false, ipAddress},
	{"phone", func(c byte) bool { return isDigit(c) || c == '+' || c == '(' }, false, phone},
	{"email", isLocalPart, true, email},
}

// detector says whether a match begins at the cursor's position, and where it
// ends; 0: none.
type detector struct {
	name   string
	begins func(first byte) bool // what a match can begin with
	inside bool                  // a match can begin behind a letter or digit
	match  func(c *cursor) (end int)
}

func detectorNames() []string {
	var names []string
	for _, d := range detectors {
		names = append(names, d.name)
	}
	return names
}

// cursor is a place in a text of which more may come. A detector reads only
// through it: one that had to look beyond what there is has not decided yet.
type cursor struct {
	b     []byte
	i     int // where a match would begin
	last  bool
	short bool // something beyond the end was asked for
}

// at gives the byte k after the beginning, 0 behind the end of the text.
func (c *cursor) at(k int) byte {
	if c.i+k < len(c.b) {
		return c.b[c.i+k]
	}
	if !c.last {
		c.short = true
	}
	return 0
}

// before gives the byte in front, 0 at the beginning of the text.
func (c *cursor) before() byte {
	if c.i == 0 {
		return 0
	}
	return c.b[c.i-1]
}

// personal finds kinds of personal data, those listed first win.
type personal struct {
	kinds []detector
	// first and inner have a bit for each kind that can begin with a byte: at a
	// border, and behind a letter or digit.
	first, inner [256]uint16
}

func newPersonal(names []string) *personal {
	p := &personal{}
	for _, d := range detectors {
		for _, n := range names {
			if n == d.name {
				p.add(d)
			}
		}
	}
	return p
}

func (p *personal) add(d detector) {
	bit := uint16(1) << len(p.kinds)
	p.kinds = append(p.kinds, d)
	for c := range p.first {
		if d.begins(byte(c)) {
			p.first[c] |= bit
			if d.inside {
				p.inner[c] |= bit
			}
		}
	}
}

func (p *personal) find(b []byte, from int, last bool) (start, end, open int) {
	c := cursor{b: b, last: last}
	for c.i = from; c.i < len(b); c.i++ {
		may := p.first[b[c.i]]
		if may != 0 && isWord(c.before()) {
			may = p.inner[b[c.i]]
		}
		for ; may != 0; may &= may - 1 {
			end := p.kinds[bits.TrailingZeros16(may)].match(&c)
			if c.short {
				return -1, -1, c.i
			}
			if end > 0 {
				return c.i, c.i + end, c.i
			}
		}
	}
	return -1, -1, len(b)
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }

// isWord has every byte of a character beyond ASCII too: they are letters more
// often than not.
func isWord(c byte) bool { return isAlnum(c) || c == '_' || c >= 0x80 }

// Bounds of RFC 5321 §4.5.3.1.
const (
	maxLocalPart = 64
	maxDomain    = 253
)

func isLocalPart(c byte) bool {
	return isAlnum(c) || c == '.' || c == '_' || c == '%' || c == '+' || c == '-'
}

func email(c *cursor) int {
	n := 0
	for n <= maxLocalPart && isLocalPart(c.at(n)) {
		n++
	}
	// In the middle of a run only a local part of full length begins.
	if n == 0 || n > maxLocalPart || c.at(n) != '@' || n < maxLocalPart && isLocalPart(c.before()) {
		return 0
	}
	start := n + 1
	end, label, letters, dots := 0, 0, true, 0
	for k := start; k < start+maxDomain; k++ {
		switch ch := c.at(k); {
		case isAlnum(ch):
			label++
			letters = letters && isLetter(ch)
			if dots > 0 && letters && label >= 2 {
				end = k + 1
			}
		case ch == '-' && label > 0:
			label++
			letters = false
		case ch == '.' && label > 0:
			dots, label, letters = dots+1, 0, true
		default:
			return end
		}
	}
	return end
}

// phone reads digits in groups.
func phone(c *cursor) int {
	if b := c.before(); isWord(b) || b == '+' {
		return 0
	}
	switch first := c.at(0); {
	case first == '+' && c.at(1) >= '1' && c.at(1) <= '9':
		return international(c)
	case first == '(' || isDigit(first):
		return northAmerican(c)
	}
	return 0
}

// international is E.164: a country code and at most 15 digits in all.
func international(c *cursor) int {
	digits, end, gap := 0, 0, 0
	for k := 1; k < 34; k++ {
		switch ch := c.at(k); {
		case isDigit(ch):
			if digits++; digits > 15 {
				return 0
			}
			end, gap = k+1, 0
		case (ch == ' ' || ch == '-' || ch == '.' || ch == '(' || ch == ')' || ch == '/') && gap < 2:
			gap++
		default:
			if digits < 8 || isWord(c.at(end)) {
				return 0
			}
			return end
		}
	}
	return 0
}

func northAmerican(c *cursor) int {
	k := 0
	group := func(n int) bool {
		for range n {
			if !isDigit(c.at(k)) {
				return false
			}
			k++
		}
		return true
	}
	gap := func(chars string) bool {
		for i := range len(chars) {
			if c.at(k) == chars[i] {
				k++
				return true
			}
		}
		return false
	}
	if gap("(") {
		if !group(3) || !gap(")") {
			return 0
		}
		gap(" -.")
	} else if !group(3) || !gap("-. ") {
		return 0
	}
	if !group(3) || !gap("-. ") || !group(4) || isWord(c.at(k)) {
		return 0
	}
	return k
}

func creditCard(c *cursor) int {
	if b := c.before(); isWord(b) || c.at(0) < '2' || c.at(0) > '6' {
		return 0
	}
	var digits [19]byte
	n, end := 0, 0
	for k := 0; n < len(digits); k++ {
		ch := c.at(k)
		if (ch == ' ' || ch == '-') && n > 0 && isDigit(c.at(k-1)) {
			continue
		}
		if !isDigit(ch) {
			break
		}
		digits[n] = ch - '0'
		n++
		// The longest that holds: a group of other digits may follow.
		if n >= 13 && luhn(digits[:n]) && !isWord(c.at(k+1)) {
			end = k + 1
		}
	}
	return end
}

// luhn: ISO/IEC 7812-1, annex B.
func luhn(digits []byte) bool {
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i])
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

func ssn(c *cursor) int {
	if b := c.before(); isWord(b) || b == '-' || !isDigit(c.at(0)) {
		return 0
	}
	for k := range 11 {
		if sep := k == 3 || k == 6; sep != (c.at(k) == '-') || !sep && !isDigit(c.at(k)) {
			return 0
		}
	}
	if next := c.at(11); isWord(next) || next == '-' {
		return 0
	}
	three := func(k int, s string) bool { return c.at(k) == s[0] && c.at(k+1) == s[1] && c.at(k+2) == s[2] }
	switch {
	case three(0, "000") || three(0, "666") || c.at(0) == '9',
		c.at(4) == '0' && c.at(5) == '0',
		three(7, "000") && c.at(10) == '0':
		return 0
	}
	return 11
}

// ibanLength gives the length of an account number by its country (the registry
// of ISO 13616).
var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22,
	"CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22,
	"GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30,
	"KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27,
	"MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33,
	"SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29,
	"VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

func iban(c *cursor) int {
	if isWord(c.before()) || !isLetter(c.at(0)) || !isLetter(c.at(1)) || !isDigit(c.at(2)) || !isDigit(c.at(3)) {
		return 0
	}
	size := ibanLength[string([]byte{c.at(0) &^ 0x20, c.at(1) &^ 0x20})]
	var chars [34]byte
	n, k := 0, 0
	for ; n < size; k++ {
		ch := c.at(k)
		if ch == ' ' && n%4 == 0 && n > 0 && c.at(k-1) != ' ' {
			continue
		}
		if !isAlnum(ch) {
			return 0
		}
		chars[n] = ch
		n++
	}
	if size == 0 || isWord(c.at(k)) || mod97(chars[:size]) != 1 {
		return 0
	}
	return k
}

// mod97: ISO/IEC 7064, MOD 97-10, with the first four characters moved behind.
func mod97(chars []byte) int {
	r := 0
	for i := range chars {
		ch := chars[(i+4)%len(chars)]
		if isDigit(ch) {
			r = (r*10 + int(ch-'0')) % 97
		} else {
			r = (r*100 + int(ch|0x20-'a') + 10) % 97
		}
	}
	return r
}

func ipAddress(c *cursor) int {
	first, b := c.at(0), c.before()
	if isWord(b) || b == '.' || b == ':' || !(isDigit(first) || first == ':' || isHexLetter(first)) {
		return 0
	}
	n, dots, colons, groups := 0, 0, 0, 0
	digit := false
	for ; n <= 45; n++ {
		ch := c.at(n)
		switch {
		case ch == '.':
			dots++
		case ch == ':':
			colons++
		case isDigit(ch) || isHexLetter(ch):
			if n == 0 || c.at(n-1) == ':' || c.at(n-1) == '.' {
				groups++
			}
			digit = digit || isDigit(ch)
		case isWord(ch):
			return 0
		default:
			return parsedIP(c, n, dots, colons, groups, digit)
		}
	}
	return 0
}

func isHexLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'f' }

// parsedIP decides on a run of the characters of addresses. A full stop or colon
// at its end belongs to the sentence.
func parsedIP(c *cursor, n, dots, colons, groups int, digit bool) int {
	if dots < 3 && colons < 2 || groups < 2 || !digit {
		return 0
	}
	if last := c.at(n - 1); last == '.' || last == ':' && c.at(n-2) != ':' {
		n--
	}
	if _, err := netip.ParseAddr(string(c.b[c.i : c.i+n])); err != nil {
		return 0
	}
	return n
}

// maxKeyBytes bounds an API key or token.
const maxKeyBytes = 4096

// keyPrefixes are beginnings of credentials, with the fewest characters that
// follow.
var keyPrefixes = []struct {
	prefix string
	least  int
}{
	{"sk-", 20}, {"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16}, {"rk_test_", 16}, {"whsec_", 16},
	{"ghp_", 30}, {"gho_", 30}, {"ghu_", 30}, {"ghs_", 30}, {"ghr_", 30}, {"github_pat_", 30}, {"glpat-", 16},
	{"xoxb-", 16}, {"xoxp-", 16}, {"xoxa-", 16}, {"xoxr-", 16}, {"xoxs-", 16}, {"xapp-", 16},
	{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ya29.", 20}, {"hk_", 30}, {"hf_", 20}, {"npm_", 30}, {"pypi-", 30},
	{"dop_v1_", 30}, {"shpat_", 30}, {"SG.", 30}, {"gsk_", 30}, {"r8_", 30}, {"AGE-SECRET-KEY-1", 30}, {"eyJ", 30},
}

// beginsKey has the first letters of keyPrefixes, and the dash of a private key.
func beginsKey(c byte) bool {
	if c == '-' {
		return true
	}
	for _, p := range keyPrefixes {
		if p.prefix[0] == c {
			return true
		}
	}
	return false
}

const privateKeyHead = "-----BEGIN "

func apiKey(c *cursor) int {
	if isWord(c.before()) {
		return 0
	}
	if c.at(0) == '-' {
		return privateKey(c)
	}
	for _, p := range keyPrefixes {
		if n := len(p.prefix); startsWith(c, p.prefix) {
			k := n
			for k < maxKeyBytes && isKeyChar(c.at(k)) {
				k++
			}
			for k > n && c.at(k-1) == '.' {
				k-- // of the sentence
			}
			if k-n >= p.least {
				return k
			}
		}
	}
	return 0
}

func isKeyChar(ch byte) bool { return isAlnum(ch) || ch == '_' || ch == '-' || ch == '.' }

// startsWith looks no further than the first difference.
func startsWith(c *cursor, s string) bool {
	for i := range len(s) {
		if c.at(i) != s[i] {
			return false
		}
	}
	return true
}

// privateKey matches from the head line to the end of the block, or as far as
// it is Base64.
func privateKey(c *cursor) int {
	if !startsWith(c, privateKeyHead) {
		return 0
	}
	k := len(privateKeyHead)
	for k < 64 && (c.at(k) == ' ' || isLetter(c.at(k)) || isDigit(c.at(k))) {
		k++
	}
	const tail = "PRIVATE KEY-----"
	k -= len("PRIVATE KEY")
	if k < len(privateKeyHead) {
		return 0
	}
	at := cursor{b: c.b, i: c.i + k, last: c.last}
	if ok := startsWith(&at, tail); !ok || at.short {
		c.short = c.short || at.short
		return 0
	}
	k += len(tail)
	for k < maxKeyBytes && isPEMChar(c.at(k)) {
		k++
	}
	for c.at(k-1) == '\n' || c.at(k-1) == '\r' {
		k--
	}
	return k
}

func isPEMChar(ch byte) bool {
	return isAlnum(ch) || ch == '+' || ch == '/' || ch == '=' || ch == '\n' || ch == '\r' || ch == '\\'
}
