package tokenizer

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPatterns compares the scanners by hand with the expressions they stand
// for, run by Go's engine, on random text.
func TestPatterns(t *testing.T) {
	alphabet := []string{
		"a", "b", "Z", "É", "é", "ǅ", "ʰ", "中", "あ", "ß", "ſ", "\u0301", "\u0903", "1", "2", "²", "Ⅷ", " ", " ", " ", "\t", "\n", "\r",
		"\u00a0", "\u3000", "\u2028", "\x00", "'", "'s", "'LL", "'rE", "'ſ", ".", "/", "_", "$", "+", "`", "€", "—", "\U0001f600", "\U00010400", "\ufffd", "\u200b",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for expr, p := range knownPatterns {
		ref, err := regexPattern(strings.NewReplacer("?+", "?", "++", "+").Replace(expr)) // Go has no possessive ones
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		for range 3000 {
			var b strings.Builder
			for range 1 + rng.IntN(12) {
				b.WriteString(alphabet[rng.IntN(len(alphabet))])
			}
			s := b.String()
			got, want := cutAll(isolate(p), s), cutAll(isolate(ref), s)
			if got != want {
				t.Fatalf("%.60s\n%q:\n got %q\nwant %q", expr, s, got, want)
			}
		}
	}
}

// cutAll joins the pieces of s with a bar.
func cutAll(split splitter, s string) string {
	var out []string
	for s != "" {
		n := split(s)
		if n < 0 {
			s = s[-n:]
			continue
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return strings.Join(out, "|")
}

// TestFamilies shows each way of splitting once.
func TestFamilies(t *testing.T) {
	const text = "It's 12345 CamelCase, <b>naïve</b>\n\n  茶x  'LL"
	for pre, want := range map[string]string{
		"gpt-2":          "It|'s| 12345| CamelCase|,| <|b|>|naïve|</|b|>|\n\n | 茶x| | '|LL",
		"llama-bpe":      "It|'s| |123|45| CamelCase|,| <|b|>naïve|</|b|>\n\n| | 茶x| | '|LL",
		"qwen2":          "It|'s| |1|2|3|4|5| CamelCase|,| <|b|>naïve|</|b|>\n\n| | 茶x| | '|LL",
		"tekken":         "It|'s| |1|2|3|4|5| Camel|Case|,| <|b|>naïve|</|b|>\n\n| | 茶x| | '|LL",
		"gpt-4o":         "It's| |123|45| Camel|Case|,| <|b|>naïve|</|b|>\n\n| | 茶x| | '|LL",
		"smollm":         "It|'s| |1|2|3|4|5| CamelCase|,| <|b|>|naïve|</|b|>|\n\n | 茶x| | '|LL",
		"deepseek-v3":    "It|'s| |123|45| CamelCase|,| <|b|>na|ïve|</|b|>\n\n|  |茶|x| | '|LL",
		"default":        "It|'|s| |123|45| CamelCase|,| |<|b|>|naïve|</|b|>|\n\n | 茶x|  |'|LL",
		"falcon":         "It|'|s| |123|45| CamelCase|,| |<|b|>|naïve|</|b|>|\n\n | 茶x|  |'|LL",
		"bloom":          "It's| 12345| CamelCase|,| <b>naïve</b>|\n\n | 茶x| | 'LL",
		"deepseek-coder": "It|'|s| |1|2|3|4|5| CamelCase|,| <|b|>|naïve|<|/|b|>|\n|\n| | |茶|x| | '|LL",
	} {
		f, ok := familyOf(pre)
		if !ok {
			t.Errorf("%s is not known", pre)
			continue
		}
		var pieces []string
		var walk func(s string, level int)
		walk = func(s string, level int) {
			if level == len(f.stages) {
				pieces = append(pieces, s)
				return
			}
			for s != "" {
				n := f.stages[level](s)
				walk(s[:n], level+1)
				s = s[n:]
			}
		}
		walk(text, 0)
		if got := strings.Join(pieces, "|"); got != want {
			t.Errorf("%s:\n got %q\nwant %q", pre, got, want)
		}
	}
}

func TestSplitString(t *testing.T) {
	for _, c := range []struct {
		b    splitBehaviour
		want string
	}{
		{isolated, "-|-|a|-|b|-"}, {removed, "a|b"}, {mergedWithPrevious, "-|-|a-|b-"}, {mergedWithNext, "-|-a|-b|-"},
	} {
		if got := cutAll(splitString("-", c.b), "--a-b-"); got != c.want {
			t.Errorf("%d: got %s, want %s", c.b, got, c.want)
		}
	}
}

// TestCharsmap reads a trie that writes a as bb and nothing else.
func TestCharsmap(t *testing.T) {
	units := make([]uint32, 512)
	units[0] = 256 << 10                // children at 256 ^ byte
	units[256^'a'] = 'a' | 1<<8 | 1<<10 // leaf at its place ^ 1
	units[256^'a'^1] = 1<<31 | 1        // offset 1 of the blob
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	c, err := newCharsmap(append(b, "\x00bb\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.step("xaa\u00e9a", false); got != "xbbbb\u00e9bb" {
		t.Errorf("got %q", got)
	}
}

func TestSqueeze(t *testing.T) {
	if got := normSqueeze("  a   b c ", false); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
