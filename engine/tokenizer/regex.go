package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// knownPatterns are the expressions of published tokenizers that have a scanner
// by hand.
var knownPatterns = map[string]pattern{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: gpt2,

	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                llama3Rules.match,
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                   dbrxRules.match,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                     qwen2Rules.match,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                         qwen35Rules.match,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: o200kRules.match,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                tekkenRules.match,

	// cl100k as tiktoken writes it now. Its possessive quantifiers stand where
	// there is nothing to go back to, and \s*[\r\n] ends where \s*[\r\n]+ does.
	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`: llama3Rules.match,
	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:      qwen2Rules.match,

	`\p{N}{1,3}`:        run(classNumber, 3),
	`\p{N}`:             run(classNumber, 1),
	`\p{N}+`:            run(classNumber, 0),
	`[0-9][0-9][0-9]`:   threeDigits,
	"[一-龥\u3040-ゟ゠-ヿ]+": cjkRun,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+": deepseek3,
}

// patternOf finds the scanner of an expression, or makes one that runs it.
func patternOf(expr string) (pattern, error) {
	if p, ok := knownPatterns[expr]; ok {
		return p, nil
	}
	return regexPattern(expr)
}

// maxRegexBytes bounds an expression; the longest published ones have 400.
const maxRegexBytes = 2048

// whiteSpace are the characters of \s in Unicode expressions, which Go's \s,
// being ASCII, is not.
const whiteSpace = `\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`

// compileRegex compiles an expression for Go's engine, which runs in linear
// time; \s and \S mean Unicode white space, look-around is refused.
func compileRegex(expr string) (*regexp.Regexp, error) {
	if len(expr) > maxRegexBytes {
		return nil, fmt.Errorf("cannot use expression: got %d bytes, want at most %d", len(expr), maxRegexBytes)
	}
	var b strings.Builder
	inClass := false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case c == '\\' && i+1 < len(expr):
			i++
			switch {
			case expr[i] == 's' && inClass:
				b.WriteString(whiteSpace)
			case expr[i] == 's':
				b.WriteString("[" + whiteSpace + "]")
			case expr[i] == 'S' && !inClass:
				b.WriteString("[^" + whiteSpace + "]")
			case strings.IndexByte("SwWdDbB", expr[i]) >= 0:
				return nil, fmt.Errorf("cannot use expression %.200q: \\%c there is not supported", expr, expr[i])
			default:
				b.WriteByte(c)
				b.WriteByte(expr[i])
			}
			continue
		case c == '[' && !inClass:
			inClass = true
			if i+1 < len(expr) && expr[i+1] == '^' {
				b.WriteByte(c)
				i++
				c = '^'
			}
		case c == ']':
			inClass = false
		}
		b.WriteByte(c)
	}
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("cannot use expression %.200q: %w", expr, err)
	}
	return re, nil
}

// regexPattern runs an expression that has no scanner. The one look-ahead that
// tokenizers use, \s+(?!\S) before \s+, is done by hand: a run of white space
// leaves its last character to the word that follows.
func regexPattern(expr string) (pattern, error) {
	const lookahead = `|\s+(?!\S)|\s+`
	head, special := strings.CutSuffix(expr, lookahead)
	re, err := compileRegex(`\A(?:` + head + `)`)
	if err != nil {
		return nil, err
	}
	return func(s string) int {
		if m := re.FindStringIndex(s); m != nil {
			if m[1] > 0 {
				return m[1]
			}
		}
		if !special {
			return 0
		}
		t := runes{bmpClasses(), s}
		return t.spaces()
	}, nil
}

// keepMatches leaves out what p does not match.
func keepMatches(p pattern) splitter {
	return func(s string) int {
		if n := p(s); n > 0 {
			return n
		}
		return -gap(p, s)
	}
}

func normRegex(re *regexp.Regexp, repl string) normStep {
	return func(s string, _ bool) string { return re.ReplaceAllLiteralString(s, repl) }
}

// byteDigits is the Digits step after ByteLevel: it sees the characters that
// stand for bytes, of which ², ³, ¹, ¼, ½ and ¾ are numbers too.
func byteDigits(most int) pattern {
	var number [256]bool
	for b := range number {
		number[b] = classOf(bmpClasses(), byteRune[b])&classNumber != 0
	}
	return func(s string) int {
		n := 0
		for n < len(s) && number[s[n]] && (most == 0 || n < most) {
			n++
		}
		return n
	}
}

// punctuationRun matches a run of what splitPunctuation isolates.
func punctuationRun(s string) int {
	end := 0
	for end < len(s) {
		_, w := utf8.DecodeRuneInString(s[end:])
		if splitPunctuation(s[end:end+w]) == 0 {
			break
		}
		end += w
	}
	return end
}
