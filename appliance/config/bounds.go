package config

import "bytes"

// Bounds of a text, beyond which no configuration goes. Work and memory for a key
// grow with the square of its parts; the text may come from somebody who may only
// look, and have it checked.
const (
	// maxNesting bounds the brackets that lie in one another.
	maxNesting = 1000
	// maxBrackets bounds tables and lists in all.
	maxBrackets = 50_000
	// maxKeyParts bounds the parts of a dotted key.
	maxKeyParts = 64
	// maxFaults bounds those that are told.
	maxFaults = 200
)

// overgrown says at which line a text goes beyond the bounds and how, 0 if
// nowhere. Depth counts brackets in strings and comments too, so that no quote in
// an odd place hides one; that only matters where a thousand of them stand.
func overgrown(data []byte) (line int, how string) {
	at := func(i int) int { return 1 + bytes.Count(data[:i], []byte("\n")) }
	depth := 0
	for i, c := range data {
		switch c {
		case '[', '{':
			if depth++; depth > maxNesting {
				return at(i), "brackets lie deeper in one another than 1000"
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	brackets, parts := 0, 1
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '#':
			for i+1 < len(data) && data[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			i = stringEnd(data, i)
		case '[', '{':
			if brackets++; brackets > maxBrackets {
				return at(i), "there are more than 50000 tables and lists"
			}
			parts = 1
		case ']', '}', ',', '=', '\n':
			parts = 1
		case '.':
			if parts++; parts > maxKeyParts {
				return at(i), "a key has more than 64 parts"
			}
		}
	}
	return 0, ""
}

// stringEnd is where the string that opens at i has its last quote; one that is
// not closed ends with its line, or with the text.
func stringEnd(data []byte, i int) int {
	quote := data[i]
	long := i+2 < len(data) && data[i+1] == quote && data[i+2] == quote
	if long {
		i += 2
	}
	for i++; i < len(data); i++ {
		switch {
		case data[i] == '\\' && quote == '"':
			i++
		case data[i] == '\n' && !long:
			return i - 1
		case data[i] == quote && !long:
			return i
		case data[i] == quote && i+2 < len(data) && data[i+1] == quote && data[i+2] == quote:
			for i += 2; i+1 < len(data) && data[i+1] == quote; { // up to two stand before the closing three
				i++
			}
			return i
		}
	}
	return len(data)
}
