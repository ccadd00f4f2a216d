package admin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

var voidElements = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// checkHTML holds a document to what the pages promise: elements close in order,
// no id stands twice, no inline script or style, no foreign address, a name for
// every control, a heading, one h1.
func checkHTML(t *testing.T, doc string) {
	t.Helper()
	for _, fault := range htmlFaults(doc) {
		t.Error(fault)
	}
}

type htmlCheck struct {
	faults   []string
	open     []string
	ids      map[string]int
	labels   map[string]bool // ids that a label is for
	controls []control       // without a name of their own
	refs     []string        // ids that attributes speak of
	heads    int
	level    int
}

type control struct{ what, id string }

func (c *htmlCheck) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func htmlFaults(doc string) []string {
	c := &htmlCheck{ids: map[string]int{}, labels: map[string]bool{}}
	z := html.NewTokenizer(strings.NewReader(doc))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if z.Err() != io.EOF {
				c.fault("cannot be read: %v", z.Err())
			}
			break
		}
		tok := z.Token()
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			c.begin(tok, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			c.end(tok.Data)
		}
	}
	return c.sum()
}

func (c *htmlCheck) begin(tok html.Token, closed bool) {
	inSVG := slices.Contains(c.open, "svg") || tok.Data == "svg"
	attrs := map[string]string{}
	for _, a := range tok.Attr {
		if _, twice := attrs[a.Key]; twice {
			c.fault("<%s> has %s twice", tok.Data, a.Key)
		}
		attrs[a.Key] = a.Val
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			c.fault("<%s> has the attribute %s", tok.Data, a.Key)
		}
	}
	c.attributes(tok.Data, attrs)
	switch {
	case closed && !inSVG && !slices.Contains(voidElements, tok.Data):
		c.fault("<%s/> closes itself, which HTML does not know", tok.Data)
	case !closed && !slices.Contains(voidElements, tok.Data):
		c.open = append(c.open, tok.Data)
	}
}

func (c *htmlCheck) attributes(name string, attrs map[string]string) {
	if id, ok := attrs["id"]; ok {
		c.ids[id]++
	}
	for _, key := range []string{"aria-labelledby", "aria-describedby", "aria-controls", "data-copy", "data-filter", "list", "form"} {
		if v := attrs[key]; v != "" {
			c.refs = append(c.refs, strings.Fields(v)...)
		}
	}
	for _, key := range []string{"href", "src", "action", "formaction", "sse-connect"} {
		if v, ok := attrs[key]; ok && (!strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "#") || strings.HasPrefix(v, "//")) {
			c.fault("<%s> has %s=%q, which is not an address of ours", name, key, v)
		}
	}
	switch name {
	case "style", "iframe", "object", "embed", "base":
		c.fault("there is a <%s>", name)
	case "script":
		if attrs["src"] == "" {
			c.fault("there is an inline script")
		}
	case "img":
		if _, ok := attrs["alt"]; !ok {
			c.fault("an image has no alt")
		}
	case "label":
		c.labels[attrs["for"]] = true
	case "input", "select", "textarea":
		c.control(name, attrs)
	case "button":
		if attrs["type"] == "" {
			c.fault("a button has no type")
		}
	case "h1", "h2", "h3", "h4":
		c.heading(int(name[1] - '0'))
	}
}

func (c *htmlCheck) heading(level int) {
	if level == 1 {
		c.heads++
	}
	c.level = level
}

func (c *htmlCheck) control(name string, attrs map[string]string) {
	if attrs["type"] == "hidden" || attrs["aria-label"] != "" || attrs["aria-labelledby"] != "" || slices.Contains(c.open, "label") {
		return
	}
	c.controls = append(c.controls, control{name + " " + attrs["name"], attrs["id"]})
}

func (c *htmlCheck) end(name string) {
	if n := len(c.open); n == 0 || c.open[n-1] != name {
		c.fault("</%s> closes nothing, open are %v", name, c.open)
		return
	}
	c.open = c.open[:len(c.open)-1]
}

func (c *htmlCheck) sum() []string {
	if len(c.open) > 0 {
		c.fault("never closed: %v", c.open)
	}
	for id, n := range c.ids {
		if n > 1 || id == "" {
			c.fault("id %q stands %d times", id, n)
		}
	}
	for _, k := range c.controls {
		if k.id == "" || !c.labels[k.id] {
			c.fault("%s has no label", k.what)
		}
	}
	for _, id := range c.refs {
		if c.ids[id] == 0 {
			c.fault("something speaks of id %q, which is not there", id)
		}
	}
	if c.heads != 1 {
		c.fault("there are %d h1", c.heads)
	}
	return c.faults
}

func TestHTMLCheckFinds(t *testing.T) {
	for _, bad := range []string{
		`<h1>a</h1><p>`, `<h1>a</h1><p></div>`, `<h1>a</h1><a id="x"></a><b id="x"></b>`, `<h1>a</h1><input name="a">`,
		`<h1>a</h1><p onclick="x">a</p>`, `<h1>a</h1><script>1</script>`, `<h1>a</h1><a href="https://example.com">a</a>`,
		`<h1>a</h1><button>a</button>`, `<p></p>`, `<h1>a</h1><p style="color:red"></p>`, `<h1>a</h1><button type="button" data-copy="no">c</button>`,
	} {
		if len(htmlFaults(bad)) == 0 {
			t.Errorf("no fault was found in %s", bad)
		}
	}
	if f := htmlFaults(`<h1>a</h1><label for="a">A</label><input id="a"><svg><path d="M0 0"/></svg>`); len(f) > 0 {
		t.Errorf("found faults that are none: %v", f)
	}
}
