package cuda

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// files are the compiled kernels: ptx/NAME.compute_80.ptx and …_90.ptx of NAME.cu,
// made by the script compile. The build of a release puts a compressed copy in
// the place of each.
//
//go:embed ptx
var files embed.FS

// targets are the virtual architectures that kernels are compiled for, falling.
var targets = []int{90, 80}

// imageTarget is the virtual architecture whose PTX a GPU of this compute
// capability takes; 0 if it is older than all.
func imageTarget(compute int) int {
	for _, t := range targets {
		if compute >= t {
			return t
		}
	}
	return 0
}

// stored are the compiled kernels for a compute capability, by module, as they are
// embedded: what expand takes.
func stored(compute int) (map[string][]byte, error) {
	t := imageTarget(compute)
	if t == 0 {
		return nil, fmt.Errorf("cannot use a GPU of compute capability %d.%d: wanted %d.%d or newer", compute/10, compute%10, targets[len(targets)-1]/10, targets[len(targets)-1]%10)
	}
	suffix := fmt.Sprintf(".compute_%d.ptx", t)
	all, err := fs.ReadDir(files, "ptx")
	if err != nil {
		return nil, err
	}
	images := map[string][]byte{}
	for _, f := range all {
		if name, ok := strings.CutSuffix(f.Name(), suffix); ok {
			if images[name], err = files.ReadFile(path.Join("ptx", f.Name())); err != nil {
				return nil, err
			}
		}
	}
	return images, nil
}

// expand gives the PTX of an image, which may be compressed.
func expand(image []byte) ([]byte, error) {
	if !bytes.HasPrefix(image, []byte{0x1f, 0x8b}) { // RFC 1952, ID1 and ID2
		return image, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Images are the PTX of all kernels for a compute capability (80, 86, 89, 90 …),
// by module.
func Images(compute int) (map[string][]byte, error) {
	images, err := stored(compute)
	if err != nil {
		return nil, err
	}
	for name := range images {
		if images[name], err = expand(images[name]); err != nil {
			return nil, fmt.Errorf("cannot unpack kernels %s: %w", name, err)
		}
	}
	return images, nil
}
