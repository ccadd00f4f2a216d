package fakeprovider

import (
	"bytes"
	"strings"
)

// sse frames one event in the plainest form; frameBytes gives it another.
func sse(name string, data []byte) []byte {
	var b []byte
	if name != "" {
		b = append(b, "event: "+name+"\n"...)
	}
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// frameBytes rewrites a plain frame as f says. What is no text of events (a
// whole body, lines of JSON, Bedrock's frames) stays as it is.
func frameBytes(f *Framing, b []byte, stream bool, i int, last bool) []byte {
	if !stream || !bytes.HasPrefix(b, []byte("data: ")) && !bytes.HasPrefix(b, []byte("event: ")) {
		return b
	}
	s := string(b)
	if f.MultiLine {
		s = multiLine(s)
	}
	if f.NoSpace {
		s = strings.ReplaceAll("\n"+s, "\ndata: ", "\ndata:")
		s = strings.ReplaceAll(s, "\nevent: ", "\nevent:")[1:]
	}
	if f.Fields {
		s = "id: 7\nretry: 3000\nnobody: knows\n" + s
	}
	if f.Comments {
		s = ": keep-alive\n\n:\n" + s
	}
	if last && f.NoFinalBlank {
		s = strings.TrimSuffix(s, "\n")
	}
	if last && f.NoFinalNewline {
		s = strings.TrimRight(s, "\n")
	}
	switch f.Newline {
	case "crlf":
		s = strings.ReplaceAll(s, "\n", "\r\n")
	case "cr":
		s = strings.ReplaceAll(s, "\n", "\r")
	}
	if f.BOM && i == 0 {
		s = "\ufeff" + s
	}
	return []byte(s)
}

// multiLine breaks the JSON of data lines after its first comma outside strings.
func multiLine(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		data, ok := strings.CutPrefix(l, "data: ")
		if !ok {
			continue
		}
		in, esc := false, false
		for k := 0; k < len(data); k++ {
			switch c := data[k]; {
			case esc:
				esc = false
			case in && c == '\\':
				esc = true
			case c == '"':
				in = !in
			case c == ',' && !in:
				lines[i] = "data: " + data[:k+1] + "\ndata: " + data[k+1:]
				k = len(data)
			}
		}
	}
	return strings.Join(lines, "\n")
}
