package driver

import (
	"fmt"
	"unsafe"

	"hearth/kernels/cuda/kernel"
)

// MemInfo tells the free and all bytes of the GPU's memory.
func (c *Context) MemInfo() (free, total int64, err error) {
	var f, t uint64
	err = c.call(callMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

// Alloc takes n bytes of the GPU's memory, aligned to 256.
func (c *Context) Alloc(n int64) (kernel.Addr, error) {
	var p uint64
	if n <= 0 {
		return 0, fmt.Errorf("cannot allocate GPU memory: got %d bytes, wanted 1 or more", n)
	}
	if err := c.call(callMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n)); err != nil {
		return 0, detail(err, "%d MiB were asked for", (n+1<<20-1)>>20)
	}
	return kernel.Addr(p), nil
}

// Free gives memory of Alloc back.
func (c *Context) Free(p kernel.Addr) error { return c.call(callMemFree, uintptr(p)) }

// HostAlloc takes n bytes of page-locked memory, which copies may go to and from
// without waiting.
func (c *Context) HostAlloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("cannot allocate page-locked memory: got %d bytes, wanted 1 or more", n)
	}
	p := new(unsafe.Pointer)
	if err := c.call(callMemHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(n), 0); err != nil {
		return nil, detail(err, "%d bytes of page-locked memory were asked for", n)
	}
	return unsafe.Slice((*byte)(*p), n), nil
}

// HostFree gives memory of HostAlloc back.
func (c *Context) HostFree(b []byte) error {
	return c.call(callMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// HostRegister locks memory that is not Go's, a mapping for instance.
func (c *Context) HostRegister(b []byte) error {
	return c.call(callMemHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0)
}

// HostUnregister undoes HostRegister.
func (c *Context) HostUnregister(b []byte) error {
	return c.call(callMemHostUnregister, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// Upload queues a copy to the GPU. src is page-locked and stays as it is until
// the copy has run.
func (s *Stream) Upload(dst kernel.Addr, src []byte) error {
	return s.copy(callMemcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), int64(len(src)))
}

// Download queues a copy from the GPU. dst is page-locked.
func (s *Stream) Download(dst []byte, src kernel.Addr) error {
	return s.copy(callMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), int64(len(dst)))
}

// Copy queues a copy within the GPU.
func (s *Stream) Copy(dst, src kernel.Addr, n int64) error {
	return s.copy(callMemcpyDtoDAsync, uintptr(dst), uintptr(src), n)
}

// Fill queues the setting of n bytes.
func (s *Stream) Fill(dst kernel.Addr, value byte, n int64) error {
	return s.copy(callMemsetD8Async, uintptr(dst), uintptr(value), n)
}

// copy is what the four above share: two words, a size and the stream. Host
// memory among the words is not Go's, so nothing moves or frees it.
func (s *Stream) copy(n call, a, b uintptr, size int64) error {
	if size == 0 {
		return nil
	}
	args := s.c.args[:4]
	args[0], args[1], args[2], args[3] = a, b, uintptr(size), s.handle
	return s.c.raw(n, args)
}
