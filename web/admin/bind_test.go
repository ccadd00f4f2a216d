package admin

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

type inner struct {
	Period string `json:"period"`
	Cap    int64  `json:"cap_nano"`
}

type embedded struct {
	Note string `json:"note,omitempty"`
}

type input struct {
	Name    string        `json:"name"`
	Count   int           `json:"count"`
	Part    float64       `json:"part"`
	On      bool          `json:"on"`
	Grace   time.Duration `json:"grace_ns"`
	Until   time.Time     `json:"until,omitzero"`
	Words   []string      `json:"words"`
	Budgets []inner       `json:"budgets"`
	Limits  struct {
		Rate int `json:"rate"`
	} `json:"limits"`
	Maybe *int `json:"maybe"`
	Value any  `json:"value"`
	embedded
}

func TestBind(t *testing.T) {
	f := func(query string, want input) {
		t.Helper()
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var got input
		if err := bind(&got, values); err != nil {
			t.Errorf("%s: %v", query, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", query, got, want)
		}
	}
	two := 2
	f("", input{})
	f("name=a&count=3&part=0.5&on=on", input{Name: "a", Count: 3, Part: 0.5, On: true})
	f("count=&until=&maybe=&on=false", input{})
	f("maybe=2&note=x", input{Maybe: &two, embedded: embedded{"x"}})
	f("grace_ns:duration=1h&grace_ns=", input{Grace: time.Hour})
	f("until=2026-01-31", input{Until: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)})
	f("until=2026-01-31T12:30", input{Until: time.Date(2026, 1, 31, 12, 30, 0, 0, time.UTC)})
	f("words:words=a,+b%0Ac&_back=/x", input{Words: []string{"a", "b", "c"}})
	f("words:lines=a+b%0D%0Ac", input{Words: []string{"a b", "c"}})
	f("words=a&words=b", input{Words: []string{"a", "b"}})
	f("budgets.0.period=day&budgets.0.cap_nano:usd=1.5&budgets.9.period=&budgets.9.cap_nano:usd=", input{Budgets: []inner{{"day", 1_500_000_000}}})
	f("budgets.1.period=b&budgets.0.period=a", input{Budgets: []inner{{Period: "a"}, {Period: "b"}}})
	f("limits.rate=7", input{Limits: struct {
		Rate int `json:"rate"`
	}{7}})
	f("value=x", input{Value: "x"})
	f("value:text=", input{Value: ""})
}

func TestBindRefuses(t *testing.T) {
	for _, query := range []string{
		"nobody=1", "name.first=1", "count=three", "count=1.5", "count=1e999", "part=x", "grace_ns:duration=1", "until=tomorrow",
		"budgets.x.period=day", "budgets.64.period=day", "budgets.-1.period=day", "budgets.0.cap_nano:usd=1e9", "budgets.0.cap_nano:usd=1/3",
		"budgets.0.cap_nano:usd=0.0000000001", "budgets.0.cap_nano:usd=99999999999999999999", "limits=1", "limits.rate.more=1",
		strings.Repeat("a.", 20) + "b=1", strings.Repeat("n", 300) + "=1", "Name=x",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var got input
		if err := bind(&got, values); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("%.60s: got %v, %+v", query, err, got)
		}
	}
}

func FuzzBind(f *testing.F) {
	f.Add("name=a&budgets.0.cap_nano:usd=1.5&words:lines=a")
	f.Add("value:text=&limits.rate=7&_x=1")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		var got input
		_ = bind(&got, values) // no panic
	})
}

func TestLocalPath(t *testing.T) {
	for path, want := range map[string]string{
		"/keys": "/keys", "/keys?a=b#c": "/keys?a=b#c", "": "/", "keys": "/", "//evil.example": "/", "/\\evil.example": "/", "https://evil.example/": "/",
		"/x\r\nSet-Cookie: a=b": "/", "javascript:alert(1)": "/", "/\t/evil.example": "/", "\\\\evil": "/",
	} {
		if got := localPath(path, "/"); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
