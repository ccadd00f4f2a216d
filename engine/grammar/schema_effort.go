package grammar

import "strings"

// maxLeftOut is how many keywords BestEffort leaves out before it gives up.
const maxLeftOut = 32

// tolerate drops a fault that best effort may go on after.
func (d *schemaDoc) tolerate(err error) error {
	if f, ok := err.(*fault); ok && f.beyond && d.effort {
		return nil
	}
	return err
}

// leaveOut takes the keyword at fault out of the schema it stands in or, if that
// cannot be told, out of all; false if that changes nothing.
func (d *schemaDoc) leaveOut(err error) bool {
	f, ok := err.(*fault)
	if !ok || !d.effort || f.against || d.bd.g.b.err != nil {
		return false
	}
	keyword := f.keyword
	if keyword == "" {
		keyword, _, _ = strings.Cut(f.about, " ")
	}
	changed := false
	for _, n := range d.nodes {
		if n.ptr == f.pointer || n.ptr+"/"+keyword == f.pointer {
			changed = n.forget(keyword) || changed
		}
	}
	for _, n := range d.nodes {
		if !changed {
			changed = n.forget(keyword)
		}
	}
	return changed
}

// forget takes one keyword out of n and reports whether it was there.
func (n *node) forget(keyword string) bool {
	was := false
	switch keyword {
	case "allOf":
		was, n.allOf = n.allOf != nil, nil
	case "anyOf":
		was, n.anyOf, n.anyOfSets = n.anyOf != nil || n.anyOfSets != nil, nil, nil
	case "oneOf":
		was = n.oneOf != nil
		if n.anyOf == nil {
			n.anyOf = n.oneOf
		}
		n.oneOf = nil
	case "not":
		was, n.not = n.not != nil, nil
	case "if":
		was, n.ifThen = n.ifThen[0] != nil, [3]*node{}
	case "minimum", "maximum", "multipleOf":
		was, n.num = n.num != num{}, num{}
	case "pattern":
		was, n.str.pattern = n.str.pattern != nil, nil
	case "format":
		was, n.str.format = n.str.format != "", ""
	default:
		return n.arr.forget(keyword) || n.obj.forget(keyword)
	}
	return was
}

func (a *arrayWords) forget(keyword string) bool {
	was := false
	switch keyword {
	case "contains":
		was, a.contains = a.contains != nil, nil
	case "uniqueItems":
		was, a.unique = a.unique, false
	case "unevaluatedItems":
		was, a.unevaluated = a.unevaluated != nil, nil
	}
	return was
}

func (o *objectWords) forget(keyword string) bool {
	was := false
	switch keyword {
	case "patternProperties": // additionalProperties means others then: both go
		was, o.patterns, o.additional = o.patterns != nil, nil, nil
	case "propertyNames":
		was, o.names = o.names != nil, nil
	case "minProperties":
		was, o.min = o.min > 0, 0
	case "maxProperties":
		was, o.max = o.max >= 0, -1
	case "dependentRequired", "dependentSchemas":
		was = o.depRequired != nil || o.depSchemas != nil
		o.depRequired, o.depSchemas = nil, nil
	case "unevaluatedProperties":
		was, o.unevaluated = o.unevaluated != nil, nil
	}
	return was
}
