// Package chattmpl renders a conversation with the model's own chat template, a
// Jinja program that comes inside the model file.
//
// It is an evaluator of our own, for two reasons no library meets.
//
// A model file is foreign code. Its template runs under limits on steps, output,
// memory, nesting and calls (limits.go), and it can reach nothing but the values
// it is given: there is no attribute walk, only the listed methods of strings,
// mappings and lists, none of which changes its object.
//
// A prompt mixes the template's control tokens with text from the request, and
// the tokenizer must know which is which, or a user who types "<|im_end|>" ends
// his own turn and speaks as the system. So each string here carries the origin
// of its bytes (text.go) through concatenation, slicing, filters and formatting;
// the result is a list of segments, and only trusted ones may become control
// tokens. Trusted is what the template's source spells, the BOS and EOS texts,
// roles (a closed set) and numbers; everything else that came with the request,
// with the JSON punctuation around it, is not. Segments are for the choice of
// tokens only: text is to be tokenized across their borders as one string in
// which a control token counts only where it lies wholly in trusted text.
//
// The language is Jinja 3.1 as transformers sets it up: trim_blocks and
// lstrip_blocks, loop controls, the generation tag, tojson without HTML escapes,
// raise_exception, strftime_now, immutable lists and mappings. Left out are
// import, include, extends, autoescape, and filters that no template uses
// (urlize, wordwrap, pprint, random and the like); they fail at Compile by name.
// Lists stand in for generators, so printing one shows its items.
//
// Render evaluates; Prompt also adapts what a template cannot express.
package chattmpl
