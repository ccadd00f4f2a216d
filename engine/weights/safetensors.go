package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hearth/kernels"
)

// The safetensors format: github.com/huggingface/safetensors, README.md. Eight
// bytes of header length, a JSON object that gives each tensor its type, shape
// and byte range, then the data, covered without holes.

// safetensorsEntry is a tensor as the header describes it.
type safetensorsEntry struct {
	DType   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// safetensorsTypes are the types that hold weights as they are.
var safetensorsTypes = map[string]kernels.DType{"F32": kernels.F32, "F16": kernels.F16, "BF16": kernels.BF16}

// rawBytes are the element sizes of the types that only quantized models have.
// Their tensors are parts of a weight: see packed.go.
var rawBytes = map[string]uint64{"I32": 4, "I64": 8, "F8_E4M3": 1}

// rawTensor is a tensor of such a type, a view of a mapping.
type rawTensor struct {
	name, dtype string
	shape       []int
	data        []byte
}

// parseSafetensors reads a whole file. Results are views of data, by name. Types
// of quantized models are known if packed is set.
func parseSafetensors(data []byte, packed bool) ([]Tensor, []rawTensor, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("a safetensors file begins with 8 bytes of header length, got %d bytes", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) {
		return nil, nil, fmt.Errorf("safetensors header of %d bytes, but only %d follow", n, len(data)-8)
	}
	if n > maxHeaderBytes {
		return nil, nil, fmt.Errorf("safetensors header of %d bytes, more than the %d allowed", n, maxHeaderBytes)
	}
	section := data[8+n:]
	var tensors []Tensor
	var raw []rawTensor
	var ranges []byteRange
	err := eachMember(data[8:8+n], func(name string, d *json.Decoder) error {
		if name == "__metadata__" {
			var m map[string]string
			return d.Decode(&m)
		}
		var e safetensorsEntry
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if len(tensors)+len(raw) >= maxTensors {
			return fmt.Errorf("more than %d tensors", maxTensors)
		}
		if packed && rawBytes[e.DType] != 0 {
			r, err := e.placeRaw(name, section)
			if err != nil {
				return err
			}
			raw = append(raw, r)
		} else {
			t, err := e.place(name, section)
			if err != nil {
				return err
			}
			tensors = append(tensors, t)
		}
		ranges = append(ranges, byteRange{e.Offsets[0], e.Offsets[1], name})
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors header: %w", err)
	}
	if err := checkOverlap(ranges); err != nil {
		return nil, nil, err
	}
	if err := checkHoles(ranges, len(section)); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, raw, nil
}

// place checks an entry against the data section and makes its view.
func (e *safetensorsEntry) place(name string, section []byte) (Tensor, error) {
	typ, ok := safetensorsTypes[e.DType]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q has type %q, which is not supported", name, e.DType)
	}
	shape, err := e.dims(name, section)
	if err != nil {
		return Tensor{}, err
	}
	size, rows, err := tensorBytes(name, typ, shape)
	if err != nil {
		return Tensor{}, err
	}
	if got := e.Offsets[1] - e.Offsets[0]; got != size {
		return Tensor{}, fmt.Errorf("tensor %q (%s, %v) has %d bytes, wanted %d", name, typ, shape, got, size)
	}
	cols := 1
	if len(shape) > 0 {
		cols = shape[len(shape)-1]
	}
	return Tensor{Tensor: kernels.Tensor{
		Name: name, Type: typ, Rows: rows, Cols: cols,
		Data: section[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]],
	}, Shape: shape}, nil
}

// placeRaw does so for a type of rawBytes.
func (e *safetensorsEntry) placeRaw(name string, section []byte) (rawTensor, error) {
	shape, err := e.dims(name, section)
	if err != nil {
		return rawTensor{}, err
	}
	halves, _, err := tensorBytes(name, kernels.F16, shape) // two bytes an element
	if err != nil {
		return rawTensor{}, err
	}
	got, size := e.Offsets[1]-e.Offsets[0], rawBytes[e.DType]
	if got%size != 0 || got/size != halves/2 {
		return rawTensor{}, fmt.Errorf("tensor %q (%s, %v) has %d bytes, wanted %d an element", name, e.DType, shape, got, size)
	}
	return rawTensor{name, e.DType, shape, section[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]]}, nil
}

// dims checks the name, the range and the number of dimensions.
func (e *safetensorsEntry) dims(name string, section []byte) ([]int, error) {
	if len(name) == 0 || len(name) > maxNameBytes {
		return nil, fmt.Errorf("tensor name of %d bytes, wanted 1 to %d", len(name), maxNameBytes)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] > e.Offsets[1] || e.Offsets[1] > uint64(len(section)) {
		return nil, fmt.Errorf("tensor %q has data_offsets %v, wanted a range within %d bytes", name, e.Offsets, len(section))
	}
	if len(e.Shape) > 8 {
		return nil, fmt.Errorf("tensor %q has %d dimensions, wanted 8 at most", name, len(e.Shape))
	}
	shape := make([]int, len(e.Shape))
	for i, d := range e.Shape {
		if d > uint64(len(section)) {
			return nil, fmt.Errorf("tensor %q has shape %v, more values than the file has bytes", name, e.Shape)
		}
		shape[i] = int(d)
	}
	return shape, nil
}

// checkHoles takes sorted ranges and refuses bytes that belong to no tensor, as
// the format does.
func checkHoles(ranges []byteRange, size int) error {
	at := uint64(0)
	for _, r := range ranges {
		if r.start != at {
			return fmt.Errorf("tensor %q begins at byte %d of the data, wanted %d: there is a hole", r.name, r.start, at)
		}
		at = r.end
	}
	if at != uint64(size) {
		return fmt.Errorf("the tensors end at byte %d of the data, which has %d", at, size)
	}
	return nil
}

// eachMember walks a JSON object, giving f each name and a decoder that stands
// before the value. A name that occurs twice is an error.
func eachMember(object []byte, f func(name string, d *json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("not a JSON object"), err)
	}
	seen := map[string]struct{}{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return fmt.Errorf("got %v where a name was wanted", t)
		}
		if _, dup := seen[name]; dup {
			return fmt.Errorf("%q occurs twice", name)
		}
		seen[name] = struct{}{}
		if err := f(name, d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if rest := bytes.Trim(object[d.InputOffset():], " \t\r\n\x00"); len(rest) > 0 {
		return errors.New("bytes after the JSON object")
	}
	return nil
}
