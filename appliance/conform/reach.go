package conform

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

// ErrUnreachable says that no case can tell anything of a provider: it is down,
// or does not know the credential.
var ErrUnreachable = errors.New("no case was put to it")

// Reach asks an upstream one short question. The error is ErrUnreachable, with
// the reason, where every case would fail for the same one; whatever else goes
// wrong is for the cases to find.
func (b *Bridge) Reach(ctx context.Context, name string) error {
	u, err := b.find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	r := infer.NewRequest()
	r.Model, r.Sampling.MaxTokens = name, 16
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "Hi"}}}}
	for _, err := range u.backend.Generate(ctx, r) {
		if err == nil {
			continue
		}
		e := infer.AsError(err)
		if e.Upstream == nil {
			return nil
		}
		switch e.Upstream.Class {
		case infer.FailConnect, infer.FailTimeout, infer.FailAuth, infer.FailQuota:
		default:
			return nil
		}
		why := e.Message
		if e.Cause != nil {
			why += ": " + e.Cause.Error()
		}
		return fmt.Errorf("%s: %w", oneLine(why), ErrUnreachable)
	}
	return nil
}

// oneLine writes what may not stand in a line of a report, such as a line's end,
// as Go does in a string.
func oneLine(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}
