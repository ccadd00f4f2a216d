package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// provider answers every request with a stream that never ends by itself, one
// piece every gap.
func provider(gap time.Duration) (base string, stop func(), err error) {
	piece := []byte("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n")
	return serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[{"id":"mock","object":"model"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		tick := time.NewTicker(gap)
		defer tick.Stop()
		for {
			if _, err := w.Write(piece); err != nil || rc.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// serve is a provider on a port of its own.
func serve(h http.HandlerFunc) (base string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String() + "/v1", func() { _ = s.Close() }, nil
}

// stream is one open stream of a caller.
type stream struct {
	conn  net.Conn
	text  strings.Builder // what stands at its end
	first chan error      // its first piece has come, or it never will
	done  chan struct{}
	at    time.Time // when it ended
	whole bool      // with the end of the exchange, not of the connection alone
}

// streams are open streams of one key.
type streams struct {
	list   []*stream
	pieces atomic.Int64
	wg     sync.WaitGroup
}

// open opens n streams of a key, and waits for the first piece of each.
func (b *box) open(ctx context.Context, key string, n int) (*streams, error) {
	s := &streams{}
	slots := make(chan struct{}, 32)
	errs := make(chan error, n)
	for range n {
		slots <- struct{}{}
		st := &stream{first: make(chan error, 1), done: make(chan struct{})}
		s.list = append(s.list, st)
		s.wg.Go(func() {
			defer close(st.done)
			b.follow(s, st, key)
		})
		go func() {
			defer func() { <-slots }()
			select {
			case err := <-st.first:
				errs <- err
			case <-time.After(time.Minute):
				errs <- fmt.Errorf("no first piece within a minute")
			case <-ctx.Done():
				errs <- ctx.Err()
			}
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// follow reads a stream to its end, over a connection of its own.
func (b *box) follow(s *streams, st *stream, key string) {
	host := strings.TrimPrefix(b.api, "https://")
	conn, err := tls.Dial("tcp", host, &tls.Config{RootCAs: b.roots})
	if err != nil {
		st.first <- err
		return
	}
	defer conn.Close()
	st.conn = conn
	body := `{"model":"mock","stream":true,"max_tokens":90000,"messages":[{"role":"user","content":"Hello, how are you today?"}]}`
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, key, len(body), body)
	r := bufio.NewReaderSize(conn, 2048)
	told := false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			break
		}
		if !told && (strings.HasPrefix(string(line), "data: ") || strings.HasPrefix(string(line), "HTTP/1.1 ") && !strings.HasPrefix(string(line), "HTTP/1.1 200")) {
			told = true
			if line[0] == 'H' {
				st.first <- fmt.Errorf("%s", strings.TrimSpace(string(line)))
				return
			}
			st.first <- nil
		}
		if strings.HasPrefix(string(line), "data: ") {
			s.pieces.Add(1)
		}
		if strings.Contains(string(line), `"error"`) {
			st.text.Write(line)
		}
		if string(line) == "0\r\n" {
			st.whole = true
			break
		}
	}
	st.at = time.Now()
	if !told {
		st.first <- fmt.Errorf("the connection ended before the first piece")
	}
}

// ended counts the streams that are over.
func (s *streams) ended() int {
	n := 0
	for _, st := range s.list {
		select {
		case <-st.done:
			n++
		default:
		}
	}
	return n
}

// close ends the streams from the caller's side.
func (s *streams) close() {
	for _, st := range s.list {
		if st.conn != nil {
			st.conn.Close()
		}
	}
	s.wg.Wait()
}
