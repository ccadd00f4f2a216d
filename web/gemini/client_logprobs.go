package gemini

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// readLogprobs reads logprobsResult.
func readLogprobs(c *jsonread.Cursor) []infer.TokenLogprob {
	var chosen []infer.TokenLogprob
	var tops [][]infer.TopLogprob
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "chosenCandidates":
			for ok := c.Array(); ok && c.More(); {
				t := readLogprob(c)
				chosen = append(chosen, infer.TokenLogprob{ID: t.ID, Bytes: t.Bytes, Logprob: t.Logprob})
			}
		case "topCandidates":
			for ok := c.Array(); ok && c.More(); {
				var top []infer.TopLogprob
				for ok := c.Object(); ok && c.More(); {
					if string(c.Key()) != "candidates" {
						c.Skip()
						continue
					}
					for ok := c.Array(); ok && c.More(); {
						top = append(top, readLogprob(c))
					}
				}
				tops = append(tops, top)
			}
		default:
			c.Skip()
		}
	}
	for i := range chosen {
		if i < len(tops) {
			chosen[i].Top = tops[i]
		}
	}
	return chosen
}

func readLogprob(c *jsonread.Cursor) (t infer.TopLogprob) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "token":
			t.Bytes = []byte(c.Str())
		case "tokenId":
			if n, ok := c.Int(); ok && n >= 0 && n <= 1<<31-1 {
				t.ID = int32(n)
			}
		case "logProbability":
			t.Logprob, _ = c.Float()
		default:
			c.Skip()
		}
	}
	return t
}
