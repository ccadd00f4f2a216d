package grammar

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func obj(props string) string {
	return `{"type":"object","properties":{` + props + `},"required":["t"],"additionalProperties":false}`
}

// heavySchemas are dear to compile: a huge enum, and alternatives inside each
// other that are 2^11 when written out.
func heavySchemas() map[string]string {
	var words []string
	for i := 0; i < 20000; i++ {
		words = append(words, fmt.Sprintf(`"%x-word-%d"`, i*7919%1000003, i))
	}
	tower := `{"type":"integer","minimum":0,"maximum":9}`
	for i := 0; i < 11; i++ {
		one := func(n string) string {
			return `{"type":"object","properties":{"` + n + `":` + tower + `},"required":["` + n + `"],"additionalProperties":false}`
		}
		tower = `{"anyOf":[` + one("a") + `,` + one("b") + `]}`
	}
	return map[string]string{
		"enum-20000":   obj(`"t":{"enum":[` + strings.Join(words, ",") + `]}`),
		"any-of-tower": obj(`"t":` + tower),
		"flat":         obj(`"t":{"type":"string","maxLength":12},"n":{"type":"integer","minimum":0,"maximum":99}`),
		"email":        obj(`"t":{"type":"string","format":"email","maxLength":24}`),
		"date-time":    obj(`"t":{"type":"string","format":"date-time","maxLength":30}`),
		"any-json":     `{"type":"object"}`,
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, s := range heavySchemas() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := testCompiler(sharedVocab)
				if _, err := c.compile(context.Background(), FromSchema(json.RawMessage(s), SchemaOptions{})); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
