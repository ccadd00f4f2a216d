package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// jsonTemplateItem is a part of a TemplateProcessing.
type jsonTemplateItem struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type jsonTemplateIDs struct {
	IDs []int64 `json:"ids"`
}

// jsonPairOf is ["[CLS]", 101].
type jsonPairOf struct {
	name string
	id   int64
}

func (p *jsonPairOf) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return fmt.Errorf("got %d values, want a token and its id", len(list))
	}
	if err := json.Unmarshal(list[0], &p.name); err != nil {
		return err
	}
	return json.Unmarshal(list[1], &p.id)
}

// jsonConfig is what counts of tokenizer_config.json.
type jsonConfig struct {
	BOS    jsonName `json:"bos_token"`
	EOS    jsonName `json:"eos_token"`
	PAD    jsonName `json:"pad_token"`
	EOT    jsonName `json:"eot_token"`
	AddBOS *bool    `json:"add_bos_token"`
	AddEOS *bool    `json:"add_eos_token"`

	AddedTokensDecoder map[string]jsonAdded `json:"added_tokens_decoder"`
}

// jsonName is a token's name, plain or as {"content": name}; "" for null.
type jsonName string

func (n *jsonName) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(b, &o)
		*n = jsonName(o.Content)
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*n = jsonName(s)
	return err
}

// readConfig also takes over added tokens that only the configuration has.
func (r *jsonReader) readConfig(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if len(b) > maxJSONBytes {
		return fmt.Errorf("cannot read tokenizer_config.json: got %d bytes, want at most %d", len(b), maxJSONBytes)
	}
	if err := json.Unmarshal(b, &r.cfg); err != nil {
		return fmt.Errorf("cannot read tokenizer_config.json: %w", err)
	}
	have := make(map[string]bool, len(r.added))
	for _, a := range r.added {
		have[a.Content] = true
	}
	known := len(r.added)
	for key, a := range r.cfg.AddedTokensDecoder {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return fmt.Errorf("cannot read added_tokens_decoder: got key %.40q, want an id", key)
		}
		if a.ID = id; !have[a.Content] {
			r.added = append(r.added, a)
		}
	}
	slices.SortFunc(r.added[known:], func(a, b jsonAdded) int { return int(a.ID - b.ID) })
	return nil
}

// setNamed finds the tokens with a role, and what goes around a text.
func (r *jsonReader) setNamed(t *Tokenizer) error {
	for _, x := range []struct {
		id   *int32
		name jsonName
	}{{&t.bos, r.cfg.BOS}, {&t.eos, r.cfg.EOS}, {&t.pad, r.cfg.PAD}, {&t.eot, r.cfg.EOT}} {
		if id, ok := t.index.find(string(x.name)); ok && x.name != "" {
			*x.id = id
		}
	}
	if raw := r.parts["post_processor"]; len(raw) > 0 && string(raw) != "null" {
		if err := r.readPostProcessor(t, raw); err != nil {
			return err
		}
	}
	if p := r.cfg.AddBOS; p != nil {
		has := len(t.prefix) > 0
		switch {
		case *p && !has && t.bos != NoID:
			t.prefix = []int32{t.bos}
		case !*p && len(t.prefix) == 1 && t.prefix[0] == t.bos:
			t.prefix = nil
		}
	}
	if p := r.cfg.AddEOS; p != nil {
		has := len(t.suffix) > 0
		switch {
		case *p && !has && t.eos != NoID:
			t.suffix = []int32{t.eos}
		case !*p && len(t.suffix) == 1 && t.suffix[0] == t.eos:
			t.suffix = nil
		}
	}
	return nil
}

func (r *jsonReader) readPostProcessor(t *Tokenizer, raw json.RawMessage) error {
	s, err := r.step(raw)
	if err != nil {
		return err
	}
	put := func(list *[]int32, id int64) error {
		if id < 0 || id >= int64(len(t.names)) {
			return fmt.Errorf("cannot use post-processor: got id %d, want one below %d", id, len(t.names))
		}
		*list = append(*list, int32(id))
		return nil
	}
	switch s.Type {
	case "Sequence":
		return r.each(s.Processors, func(raw json.RawMessage) error { return r.readPostProcessor(t, raw) })
	case "ByteLevel": // only moves offsets
	case "TemplateProcessing":
		list := &t.prefix
		for _, item := range s.Single {
			if item.Sequence != nil {
				list = &t.suffix
			}
			if item.SpecialToken == nil {
				continue
			}
			for _, id := range s.SpecialTokens[item.SpecialToken.ID].IDs {
				if err := put(list, id); err != nil {
					return err
				}
			}
		}
	case "BertProcessing", "RobertaProcessing":
		if s.Cls == nil || s.Sep == nil {
			return fmt.Errorf("cannot use post-processor %s: it lacks cls or sep", s.Type)
		}
		if err := put(&t.prefix, s.Cls.id); err != nil {
			return err
		}
		return put(&t.suffix, s.Sep.id)
	default:
		return fmt.Errorf("cannot use post-processor %.40q: it is not supported", s.Type)
	}
	return nil
}
