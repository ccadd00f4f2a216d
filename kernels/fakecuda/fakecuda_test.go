//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"hearth/kernels/ptx"
)

// put stores its value at out[i], i the thread's number, with i*4 bytes skipped.
const source = `.version 7.8
.target sm_80
.address_size 64
.visible .global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry put(.param .u64 out, .param .u32 value) .maxntid 64, 1, 1
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [value];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r1;
	ret;
}
.visible .entry copyword(.param .u64 out, .param .u64 in)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	ld.global.u32 %r1, [%rd2];
	st.global.u32 [%rd1], %r1;
	ret;
}
`

// bench is a library with one context, module and stream on this thread.
type bench struct {
	*testing.T
	l            *library
	c            *context
	s            *stream
	put, word, m uintptr
	kept         []any
}

func open(t *testing.T, env map[string]string) *bench {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	if env["FAKECUDA_DEVICES"] == "" {
		env["FAKECUDA_DEVICES"] = "8.0,memory=8MiB"
	}
	c, err := readConfig(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLibrary(c)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, l: l}
	b.want(success, "init", l.init(0))
	h, r := l.retain(0)
	b.want(success, "retain", r)
	b.want(success, "current", l.setCurrent(h))
	b.c = l.devices[0].ctx
	b.s = b.stream(1)
	if b.m, r = l.loadModule(b.c, []byte(source), jit{}); r != success {
		t.Fatal(r)
	}
	b.put, _ = l.function(b.c, b.m, "put")
	b.word, r = l.function(b.c, b.m, "copyword")
	b.want(success, "function", r)
	return b
}

func (b *bench) want(want result, what string, got result) {
	b.Helper()
	if got != want {
		b.Fatalf("%s: got %d, wanted %d", what, got, want)
	}
}

func (b *bench) stream(flags uint32) *stream {
	h, r := b.l.newStream(b.c, flags)
	b.want(success, "stream", r)
	s, _ := b.l.stream(b.c, h)
	return s
}

func (b *bench) event() *event {
	h, r := b.l.newEvent(b.c, 0)
	b.want(success, "event", r)
	e, _ := of[*event](b.l, h)
	return e
}

func (b *bench) alloc(n uint64) uint64 {
	a, r := b.c.alloc(n)
	b.want(success, "alloc", r)
	return a
}

// launch runs put over n threads, through pointers to parameters as callers have
// them; the words are overwritten before it returns.
func (b *bench) launch(s *stream, out uint64, value uint32, n uint32) result {
	f, _ := of[*function](b.l, b.put)
	words := []unsafe.Pointer{unsafe.Pointer(&out), unsafe.Pointer(&value)}
	block, r := f.pack(unsafe.Pointer(&words[0]), nil)
	b.want(success, "pack", r)
	out, value = 0, 0
	return b.l.launch(s, f, launchArgs{grid: ptx.Dim{X: 1, Y: 1, Z: 1}, block: ptx.Dim{X: n, Y: 1, Z: 1}, params: block})
}

// at is the address of memory that is not on a stack, which moves as it grows.
func at[T any](b *bench, p *T) uintptr {
	b.kept = append(b.kept, p)
	return uintptr(unsafe.Pointer(p))
}

func (b *bench) read(a uint64) uint32 {
	b.Helper()
	w := make([]byte, 4)
	b.want(success, "download", b.l.download(b.s, at(b, &w[0]), a, 4))
	return binary.LittleEndian.Uint32(w)
}

func TestConfig(t *testing.T) {
	c, err := readConfig(func(k string) string {
		return map[string]string{
			"FAKECUDA_DEVICES": "9.0,name=NVIDIA X,memory=1GiB,used=3MiB,sms=5,uuid=GPU-00112233-4455-6677-8899-aabbccddeeff,bus=7,ecc=on;8.6", "FAKECUDA_DRIVER_VERSION": "13000",
			"FAKECUDA_ERRORS": "cuMemAlloc_v2:3=2, launch:5+=700", "FAKECUDA_HANG": "cuStreamSynchronize:2", "FAKECUDA_DELAY": "5ms", "CUDA_VISIBLE_DEVICES": "1,GPU-0011,9,0",
		}[k]
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.devices) != 2 || c.devices[0].Compute != 86 || c.devices[1].Name != "NVIDIA X" || c.devices[1].Memory != 1<<30 || c.devices[1].Bus != 7 || !c.devices[1].ECC || c.devices[1].ID() != "GPU-00112233-4455-6677-8899-aabbccddeeff" {
		t.Errorf("got devices %+v", c.devices)
	}
	if e := c.errors; len(e) != 2 || !e[0].hits("cuMemAlloc_v2", 3) || e[0].hits("cuMemAlloc_v2", 4) || e[1].hits("launch", 4) || !e[1].hits("launch", 6) || e[1].result != 700 {
		t.Errorf("got errors %+v", c.errors)
	}
	for k, v := range map[string]string{"FAKECUDA_DEVICES": "ampere", "FAKECUDA_DRIVER_VERSION": "twelve", "FAKECUDA_STREAMS": "late", "FAKECUDA_CHECKS": "yes",
		"FAKECUDA_ERRORS": "cuMemAlloc:1=2", "FAKECUDA_HANG": "launch:0", "FAKECUDA_DELAY": "5", "FAKECUDA_WORKERS": "0"} {
		if _, err := readConfig(func(n string) string { return map[string]string{k: v}[n] }); err == nil || !strings.Contains(err.Error(), k) {
			t.Errorf("%s=%s: got %v, wanted an error that names it", k, v, err)
		}
	}
}

// What FAKECUDA_FILE says goes before the environment, and is read anew each time.
func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings")
	read := func(text string) (*config, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readConfig(func(k string) string {
			return map[string]string{"FAKECUDA_FILE": file, "FAKECUDA_HANG": "launch:9", "FAKECUDA_ERRORS": "launch:3=700"}[k]
		})
	}
	for text, want := range map[string]string{"": "9 3", "FAKECUDA_HANG=launch:7\n\n": "7 3", "FAKECUDA_HANG=\nFAKECUDA_ERRORS=launch:5=2\n": " 5"} {
		c, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, list := range [][]injection{c.hangs, c.errors} {
			nth := ""
			if len(list) > 0 {
				nth = fmt.Sprint(list[0].nth)
			}
			got = append(got, nth)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: the launches %q, wanted %q", text, s, want)
		}
	}
	for _, text := range []string{"FAKECUDA_HANG\n", "HANG=launch:1\n", "FAKECUDA_FILE=x\n", "FAKECUDA_HANG=launch:0\n"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), "FAKECUDA_") {
			t.Errorf("%q: got %v, wanted an error", text, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(func(k string) string { return map[string]string{"FAKECUDA_FILE": file}[k] }); err == nil || !strings.Contains(err.Error(), "FAKECUDA_FILE") {
		t.Errorf("a file that is missing: got %v", err)
	}
}

// A page-locked buffer is read when the copy runs, other memory when it is queued.
func TestCopyTimes(t *testing.T) {
	for mode, want := range map[string][2]byte{"lazy": {2, 1}, "eager": {1, 1}} {
		b := open(t, map[string]string{"FAKECUDA_STREAMS": mode})
		page, r := b.l.hostAlloc(4096)
		b.want(success, "host alloc", r)
		locked, plain := host(page, 4096), bytes.Repeat([]byte{1}, 16)
		locked[0] = 1
		x, y := b.alloc(1), b.alloc(1)
		b.want(success, "upload", b.l.upload(b.s, x, page, 1))
		b.want(success, "upload", b.l.upload(b.s, y, at(b, &plain[0]), 1))
		locked[0], plain[0] = 2, 2
		b.want(success, "download", b.l.download(b.s, page+100, x, 1))
		if mode == "lazy" && locked[100] != 0 {
			t.Error("a copy to page-locked memory ran before it was waited for")
		}
		b.want(success, "download", b.l.download(b.s, page+101, y, 1))
		b.want(success, "sync", b.l.synchronize(b.s))
		if got := [2]byte{locked[100], locked[101]}; got != want {
			t.Errorf("%s: got %v, wanted %v", mode, got, want)
		}
		b.want(success, "free", b.l.drop(b.c, page, true))
		b.want(invalidValue, "free twice", b.l.drop(b.c, page, true))
	}
}

func TestHostRegister(t *testing.T) {
	b := open(t, nil)
	p := &b.l.pinned
	b.want(success, "register", p.add(hostRange{0x10000, 0x1000, false}))
	b.want(alreadyRegistered, "overlap", p.add(hostRange{0x10800, 0x1000, false}))
	b.want(alreadyRegistered, "overlap", p.add(hostRange{0xf800, 0x1000, false}))
	if !p.has(0x10000, 0x1000) || !p.has(0x10fff, 1) || p.has(0x10fff, 2) || p.has(0xffff, 1) {
		t.Error("has is wrong at an edge")
	}
	b.want(notRegistered, "unregister", b.l.drop(b.c, 0x10001, false))
	b.want(success, "unregister", b.l.drop(b.c, 0x10000, false))
}

func TestOutOfMemory(t *testing.T) {
	b := open(t, map[string]string{"FAKECUDA_DEVICES": "8.0,memory=8MiB,used=1MiB"})
	free, total := b.c.memInfo()
	if total != 8<<20 || free > 3<<20 || free < 3<<20-8192 {
		t.Fatalf("got %d free of %d", free, total)
	}
	_, r := b.c.alloc(free + 1)
	b.want(outOfMemory, "too much", r)
	var all []uint64
	for {
		a, r := b.c.alloc(100 << 10)
		if r == outOfMemory {
			break
		}
		b.want(success, "alloc", r)
		all = append(all, a)
	}
	if len(all) != int(free/(100<<10)) {
		t.Errorf("got %d pieces of 100 KiB out of %d bytes", len(all), free)
	}
	for _, a := range all {
		b.want(success, "free", b.l.free(b.c, a))
	}
	b.want(invalidValue, "free twice", b.l.free(b.c, all[0]))
	if now, _ := b.c.memInfo(); now != free {
		t.Errorf("got %d bytes free, before there were %d", now, free)
	}
}

func TestLaunch(t *testing.T) {
	b := open(t, nil)
	x := b.alloc(256)
	b.want(success, "launch", b.launch(b.s, x, 42, 64))
	if got := b.read(x + 63*4); got != 42 {
		t.Errorf("got %d, wanted 42", got)
	}
	b.want(invalidValue, "too many threads", b.launch(b.s, x, 1, 65))
	f, _ := of[*function](b.l, b.put)
	b.want(invalidValue, "no grid", b.l.launch(b.s, f, launchArgs{block: ptx.Dim{X: 1, Y: 1, Z: 1}, params: make([]byte, 12)}))
	a := launchArgs{grid: ptx.Dim{X: 1, Y: 1, Z: 1}, block: ptx.Dim{X: 1, Y: 1, Z: 1}, shared: 60 << 10, params: make([]byte, 12)}
	b.want(invalidValue, "more shared memory than allowed", b.l.launch(b.s, f, a))
	b.want(success, "allow", b.l.setFuncAttribute(f, 8, 163<<10))
	b.want(invalidValue, "allow too much", b.l.setFuncAttribute(f, 8, 164<<10))
	if n, r := b.l.funcAttribute(f, 0); n != 64 || r != success {
		t.Errorf("got %d threads of a block (%d)", n, r)
	}
	extra := []uintptr{1, 0, 2, 0, 0}
	block, size := make([]byte, 12), uintptr(12)
	binary.LittleEndian.PutUint64(block, x)
	block[8] = 9
	extra[1], extra[3] = at(b, &block[0]), at(b, &size)
	got, r := f.pack(nil, unsafe.Pointer(&extra[0]))
	b.want(success, "extra", r)
	if !bytes.Equal(got, block) {
		t.Errorf("got parameters %x, wanted %x", got, block)
	}
	if p, n, r := b.l.global(b.c, b.m, "table"); r != success || n != 8 || b.read(p+4) != 0x08070605 {
		t.Errorf("table: got %d bytes (%d)", n, r)
	}
	_, _, r = b.l.global(b.c, b.m, "chair")
	b.want(notFound, "global", r)
}

// A fault destroys the context: every call after it says the same.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  result
		fault func(b *bench, x uint64) result
	}{
		{"out of bounds", illegalAddress, func(b *bench, x uint64) result { return b.launch(b.s, x, 1, 3) }},
		{"misaligned", misaligned, func(b *bench, x uint64) result { return b.launch(b.s, x+2, 1, 1) }},
		{"uninitialised", launchFailed, func(b *bench, x uint64) result {
			f, _ := of[*function](b.l, b.word)
			p := binary.LittleEndian.AppendUint64(nil, b.alloc(4))
			return b.l.launch(b.s, f, launchArgs{grid: ptx.Dim{X: 1, Y: 1, Z: 1}, block: ptx.Dim{X: 1, Y: 1, Z: 1}, params: binary.LittleEndian.AppendUint64(p, x)})
		}},
	} {
		for _, mode := range []string{"lazy", "eager"} {
			b := open(t, map[string]string{"FAKECUDA_STREAMS": mode})
			x := b.alloc(8)
			r := c.fault(b, x)
			if mode == "lazy" {
				b.want(success, c.name, r)
				r = b.l.synchronize(b.s)
			}
			b.want(c.want, c.name, r)
			b.want(c.want, "later call", result(b.l.call("cuMemAlloc_v2", needContext, func(*context) result { return success })))
			_, r = b.l.retain(0)
			b.want(c.want, "retain", r)
		}
	}
}

func TestJIT(t *testing.T) {
	for _, c := range []struct {
		devices, driver, from, to string
		want                      result
		log                       string
	}{
		{"8.0", "11080", "", "", success, ""},
		{"8.0", "12020", ".version 7.8", ".version 8.3", unsupportedPTX, "Unsupported .version 8.3; current version is '8.2'"},
		{"8.0", "12030", ".version 7.8", ".version 8.3", success, ""},
		{"8.0", "12020", "sm_80", "sm_90", invalidPTX, "higher than default SM"},
		{"8.9", "12020", "sm_80", "sm_86", success, ""},
		{"8.9", "12020", "sm_80", "sm_90a", 209, ""},
		{"8.0", "12020", "st.global.u32", "st.global.q32", invalidPTX, "ptx line 14"},
		{"8.0", "12020", ".version", ".verse", invalidImage, ""},
	} {
		b := open(t, map[string]string{"FAKECUDA_DEVICES": c.devices, "FAKECUDA_DRIVER_VERSION": c.driver})
		log, size := make([]byte, 512), uintptr(512)
		options := []int32{5, 6}
		values := []uintptr{at(b, &log[0]), size}
		j, r := readJIT(2, unsafe.Pointer(&options[0]), unsafe.Pointer(&values[0]))
		b.want(success, "options", r)
		_, r = b.l.loadModule(b.c, []byte(strings.Replace(source, c.from, c.to, 1)), j)
		b.want(c.want, c.from+" "+c.to, r)
		if text, _, _ := bytes.Cut(log, []byte{0}); !strings.Contains(string(text), c.log) || int(values[1]) != len(text) {
			t.Errorf("%s: got log %q (%d), wanted %q", c.to, text, values[1], c.log)
		}
	}
}
