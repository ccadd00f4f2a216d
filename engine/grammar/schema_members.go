package grammar

import (
	"net/url"
	"strconv"
	"strings"
)

// readArray reads the array keywords; done is false for any other.
func (k *keyword) readArray() (done bool, err error) {
	a := &k.n.arr
	done = true
	switch k.name {
	case "prefixItems":
		err = k.prefix()
	case "items":
		if k.v.kind == '[' { // drafts up to 2019-09
			err = k.prefix()
			break
		}
		a.items, err = k.schema()
	case "additionalItems": // has a meaning beside an array of items only
		if it := k.in.member("items"); it != nil && it.kind == '[' {
			a.items, err = k.schema()
		}
	case "contains":
		a.contains, err = k.schema()
	case "minContains":
		a.minContains, err = k.count()
	case "maxContains":
		a.maxContains, err = k.count()
	case "minItems":
		a.min, err = k.count()
	case "maxItems":
		a.max, err = k.count()
	case "uniqueItems":
		if k.v.kind != 't' && k.v.kind != 'f' {
			err = k.fault("must be a boolean, got %s", short(k.v))
		}
		a.unique = k.v.kind == 't'
	case "unevaluatedItems":
		a.unevaluated, err = k.schema()
	default:
		return false, nil
	}
	return true, err
}

func (k *keyword) prefix() error {
	if k.v.kind != '[' {
		return k.fault("must be an array of schemas, got %s", kindName(k.v))
	}
	for i, x := range k.v.items {
		n, err := k.d.parse(x, k.ptr()+"/"+itoa(i))
		if err != nil {
			return err
		}
		k.n.arr.prefix = append(k.n.arr.prefix, n)
	}
	return nil
}

// readObject reads the object keywords and leaves all others alone.
func (k *keyword) readObject() (err error) {
	o := &k.n.obj
	switch k.name {
	case "properties":
		o.props, err = k.schemas()
	case "patternProperties":
		if o.patterns, err = k.schemas(); err == nil {
			for _, p := range o.patterns {
				if err = k.checkPattern(p.name); err != nil {
					o.patterns = nil
					return k.d.tolerate(err)
				}
			}
		}
	case "additionalProperties":
		o.additional, err = k.schema()
	case "propertyNames":
		o.names, err = k.schema()
	case "required":
		if k.v.kind == 't' || k.v.kind == 'f' { // draft 3, and a common slip: says nothing since draft 4
			return k.fault("must be an array of strings, got %s", short(k.v))
		}
		o.required, err = k.texts()
	case "minProperties":
		o.min, err = k.count()
	case "maxProperties":
		o.max, err = k.count()
	case "dependentRequired":
		err = k.dependencies()
	case "dependentSchemas":
		o.depSchemas, err = k.schemas()
	case "dependencies": // draft 7: both in one
		err = k.dependencies()
	case "unevaluatedProperties":
		o.unevaluated, err = k.schema()
	default:
		return nil
	}
	return err
}

func (k *keyword) dependencies() error {
	if k.v.kind != '{' {
		return k.fault("must be an object, got %s", kindName(k.v))
	}
	for i, name := range k.v.names {
		x := *k
		x.v = k.v.items[i]
		if x.v.kind == '[' || k.name == "dependentRequired" {
			needs, err := x.texts()
			if err != nil {
				return err
			}
			k.n.obj.depRequired = append(k.n.obj.depRequired, dependency{name, needs})
			continue
		}
		n, err := k.d.parse(x.v, k.ptr()+"/"+escapePointer(name))
		if err != nil {
			return err
		}
		k.n.obj.depSchemas = append(k.n.obj.depSchemas, named{name, n})
	}
	return nil
}

// index notes every $id and $anchor of the document. Values of enum, const and
// the like are not schemas and are passed over.
func (d *schemaDoc) index(v *value) {
	for i, x := range v.items {
		if v.kind == '{' {
			switch name := v.names[i]; {
			case name == "enum" || name == "const" || name == "default" || name == "examples":
				continue
			case x.kind == 's' && (name == "$id" || name == "id"):
				d.ids[strings.TrimSuffix(x.text, "#")] = v
			case x.kind == 's' && (name == "$anchor" || name == "$dynamicAnchor"):
				d.ids["#"+x.text] = v
			}
		}
		if len(x.items) > 0 {
			d.index(x)
		}
	}
}

// readRef resolves a reference within the document.
func (k *keyword) readRef() error {
	if k.v.kind != 's' {
		return k.fault("must be a string, got %s", kindName(k.v))
	}
	base, fragment, _ := strings.Cut(k.v.text, "#")
	from := k.d.root
	if base != "" {
		if from = k.d.ids[base]; from == nil {
			return k.fault("cannot follow %s: only references within the schema are supported", quoteShort(k.v.text))
		}
	}
	target := from
	fragment, err := url.PathUnescape(fragment)
	switch {
	case err != nil:
		target = nil
	case fragment == "":
	case fragment[0] == '/':
		target = from.at(fragment)
	default:
		target = k.d.ids["#"+fragment]
	}
	if target == nil {
		return k.fault("cannot find %s", quoteShort(k.v.text))
	}
	ptr := fragment // a pointer, if it goes down from the root
	if base != "" || fragment != "" && fragment[0] != '/' {
		ptr = k.ptr()
	}
	k.n.ref, err = k.d.parse(target, ptr)
	return err
}

func quoteShort(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strconv.Quote(s)
}

// at follows a JSON pointer (RFC 6901); nil if it leads nowhere.
func (v *value) at(pointer string) *value {
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v.kind {
		case '{':
			v = v.member(part)
		case '[':
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v.items) || part != itoa(i) {
				return nil
			}
			v = v.items[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}
