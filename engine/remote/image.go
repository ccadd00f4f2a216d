package remote

// Image is a program that is part of this one and is started without being
// installed: from memory, or where the machine forbids that, from a file in Dir.
type Image struct {
	// Name is what the process is called, and the beginning of the file's name.
	Name string
	// ELF is the program. It is a string since an embedded string stays in the
	// pages of this program's file, where a slice would be copied to the heap.
	ELF string
	// Dir takes the file, with mode 0700; empty: there is no such place.
	Dir string
}
