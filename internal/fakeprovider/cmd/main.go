// Command cmd is a fake provider as a process, for tests with real clients: it
// listens, prints its address, and answers by what the last turn says.
//
//	"call TOOL"      calls the tool once, with the first listed property; once a
//	                 result of it is there, it answers in text
//	"error KIND"     fails
//	"die"            breaks off in mid-stream
//	anything else    a short text
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hearth/internal/fakeprovider"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "listen on `ADDR`")
	log := flag.String("log", "", "write each request as a line of JSON to `FILE`")
	flag.Parse()
	s, err := fakeprovider.New(fakeprovider.Options{Addr: *addr, Handle: fakeprovider.Actor(*log)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	done := make(chan os.Signal, 1)
	signal.Notify(done, os.Interrupt, syscall.SIGTERM)
	<-done
	s.Close()
}
