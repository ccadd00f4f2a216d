package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// jsonStep is any of the objects in normalizer, pre_tokenizer, decoder and
// post_processor: "type" says which fields count.
type jsonStep struct {
	Type          string            `json:"type"`
	Normalizers   []json.RawMessage `json:"normalizers"`
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	Decoders      []json.RawMessage `json:"decoders"`
	Processors    []json.RawMessage `json:"processors"`

	Prepend string `json:"prepend"`
	Content string `json:"content"`
	Pattern struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`

	StripLeft     *bool  `json:"strip_left"`
	StripRight    *bool  `json:"strip_right"`
	CharsmapBytes string `json:"precompiled_charsmap"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`

	Single        []jsonTemplateItem         `json:"single"`
	SpecialTokens map[string]jsonTemplateIDs `json:"special_tokens"`
	Cls           *jsonPairOf                `json:"cls"`
	Sep           *jsonPairOf                `json:"sep"`
}

// step decodes one object and notes it for the hash.
func (r *jsonReader) step(raw json.RawMessage) (jsonStep, error) {
	var s jsonStep
	if r.steps++; r.steps > maxSteps {
		return s, fmt.Errorf("cannot read tokenizer.json: got more than %d steps", maxSteps)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("cannot read tokenizer.json: %w", err)
	}
	if len(s.Normalizers)+len(s.PreTokenizers)+len(s.Decoders)+len(s.Processors) == 0 {
		plain, err := json.Marshal(s)
		if err != nil {
			return s, fmt.Errorf("cannot read tokenizer.json: %w", err)
		}
		r.describe.Write(plain)
	}
	return s, nil
}

func (r *jsonReader) each(list []json.RawMessage, read func(json.RawMessage) error) error {
	for _, raw := range list {
		if err := read(raw); err != nil {
			return err
		}
	}
	return nil
}

func (r *jsonReader) readNormalizer(raw json.RawMessage) error {
	s, err := r.step(raw)
	if err != nil {
		return err
	}
	add := func(step normStep) error {
		r.norm = append(r.norm, step)
		return nil
	}
	switch s.Type {
	case "Sequence":
		return r.each(s.Normalizers, r.readNormalizer)
	case "NFC":
		return add(normForm(norm.NFC))
	case "NFD":
		return add(normForm(norm.NFD))
	case "NFKC":
		return add(normForm(norm.NFKC))
	case "NFKD":
		return add(normForm(norm.NFKD))
	case "Lowercase":
		return add(normLower())
	case "Strip":
		return add(normStrip(s.StripLeft == nil || *s.StripLeft, s.StripRight == nil || *s.StripRight))
	case "Prepend":
		return add(normPrepend(s.Prepend))
	case "Replace":
		switch p := s.Pattern; {
		case p.String != nil && *p.String != "":
			return add(normReplace(*p.String, s.Content))
		case p.Regex != nil:
			re, err := compileRegex(*p.Regex)
			if err != nil {
				return err
			}
			return add(normRegex(re, s.Content))
		}
		return fmt.Errorf("cannot use normalizer Replace: it has no pattern")
	case "Precompiled":
		if s.CharsmapBytes == "" {
			return nil
		}
		b, err := base64.StdEncoding.DecodeString(s.CharsmapBytes)
		if err != nil {
			return fmt.Errorf("cannot read precompiled_charsmap: %w", err)
		}
		c, err := newCharsmap(b)
		if err != nil {
			return err
		}
		return add(c.step)
	}
	return fmt.Errorf("cannot use normalizer %.40q: it is not supported", s.Type)
}

func (r *jsonReader) readPreTokenizer(raw json.RawMessage) error {
	s, err := r.step(raw)
	if err != nil {
		return err
	}
	add := func(st splitter) error {
		r.stages = append(r.stages, st)
		return nil
	}
	if r.byteLevel && s.Type != "Digits" {
		return fmt.Errorf("cannot use pre-tokenizer %.40q: it comes after ByteLevel", s.Type)
	}
	switch s.Type {
	case "Sequence":
		return r.each(s.PreTokenizers, r.readPreTokenizer)
	case "ByteLevel":
		return r.byteLevelStep(&s)
	case "Digits":
		most := 0
		if s.IndividualDigits {
			most = 1
		}
		if r.byteLevel {
			return add(isolate(byteDigits(most)))
		}
		return add(isolate(run(classNumber, most)))
	case "Split":
		st, err := s.splitter()
		if err != nil {
			return err
		}
		return add(st)
	case "Punctuation":
		if s.Behavior == "Contiguous" || s.Behavior == "contiguous" {
			return add(isolate(punctuationRun))
		}
		return add(isolate(splitPunctuation))
	case "WhitespaceSplit":
		return add(splitSpaces)
	case "Metaspace":
		return r.metaspaceStep(&s)
	}
	return fmt.Errorf("cannot use pre-tokenizer %.40q: it is not supported", s.Type)
}

// byteLevelStep: from here on text is bytes.
func (r *jsonReader) byteLevelStep(s *jsonStep) error {
	r.byteLevel = true
	if s.AddPrefixSpace != nil && *s.AddPrefixSpace {
		if len(r.stages) > 0 {
			return fmt.Errorf("cannot use pre-tokenizer ByteLevel: add_prefix_space after another step is not supported")
		}
		r.norm = append(r.norm, func(s string, _ bool) string {
			if s == "" || s[0] == ' ' {
				return s
			}
			return " " + s
		})
	}
	if s.UseRegex == nil || *s.UseRegex {
		r.stages = append(r.stages, isolate(gpt2))
	}
	return nil
}

func (r *jsonReader) metaspaceStep(s *jsonStep) error {
	if len(r.stages) > 0 {
		return fmt.Errorf("cannot use pre-tokenizer Metaspace: it comes after another step")
	}
	rep := s.Replacement
	if rep == "" {
		rep = meta
	}
	scheme := s.PrependScheme
	if scheme == "" {
		scheme = "always"
		if s.AddPrefixSpace != nil && !*s.AddPrefixSpace {
			scheme = "never"
		}
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		return fmt.Errorf("cannot use pre-tokenizer Metaspace: got prepend_scheme %.20q, want always, first or never", scheme)
	}
	r.norm = append(r.norm, normMetaspace(rep, scheme != "never", scheme == "first"))
	if s.Split == nil || *s.Split {
		r.stages = append(r.stages, splitString(rep, mergedWithNext))
	}
	return nil
}

// splitter makes a Split step.
func (s *jsonStep) splitter() (splitter, error) {
	var b splitBehaviour
	switch s.Behavior {
	case "Isolated", "":
		b = isolated
	case "Removed":
		b = removed
	case "MergedWithPrevious":
		b = mergedWithPrevious
	case "MergedWithNext":
		b = mergedWithNext
	default:
		return nil, fmt.Errorf("cannot use pre-tokenizer Split: behavior %.40q is not supported", s.Behavior)
	}
	switch {
	case s.Pattern.String != nil && *s.Pattern.String != "" && !s.Invert:
		return splitString(*s.Pattern.String, b), nil
	case s.Pattern.Regex != nil:
		// Removing what is not matched is the same as isolating where the
		// expression matches everything, which is how tiktoken's are written.
		if b != isolated && !(b == removed && s.Invert) {
			return nil, fmt.Errorf("cannot use pre-tokenizer Split: behavior %.40q of an expression is not supported", s.Behavior)
		}
		p, err := patternOf(*s.Pattern.Regex)
		if err != nil {
			return nil, err
		}
		if b == removed {
			return keepMatches(p), nil
		}
		return isolate(p), nil
	}
	return nil, fmt.Errorf("cannot use pre-tokenizer Split: it has no pattern")
}

func (r *jsonReader) readDecoder(raw json.RawMessage) error {
	s, err := r.step(raw)
	if err != nil {
		return err
	}
	switch s.Type {
	case "Sequence":
		return r.each(s.Decoders, r.readDecoder)
	case "ByteLevel":
		if !r.byteLevel {
			return fmt.Errorf("cannot use decoder ByteLevel: the pre-tokenizer has no ByteLevel")
		}
	case "ByteFallback":
		r.byteFallback = true
	case "Replace":
		if s.Pattern.String == nil || *s.Pattern.String != meta || s.Content != " " {
			return fmt.Errorf("cannot use decoder Replace: want U+2581 to become a space")
		}
		r.metaDecoder = true
	case "Metaspace":
		if s.Replacement != "" && s.Replacement != meta {
			return fmt.Errorf("cannot use decoder Metaspace: got replacement %.20q, want U+2581", s.Replacement)
		}
		r.metaDecoder = true
	case "Fuse", "Strip": // of whole texts; pieces are kept exact
	default:
		return fmt.Errorf("cannot use decoder %.40q: it is not supported", s.Type)
	}
	return nil
}
