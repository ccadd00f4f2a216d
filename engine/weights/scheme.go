package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// scheme is how the matrices of a quantized Hugging Face model are stored, from
// quantization_config of its config.json.
type scheme struct {
	method packedMethod
	bits   int // of integers: 4 or 8
	group  int // values of K that share a scale; -1: a whole row
	// minusOne: stored zero points are one less than what is subtracted, as the
	// first version of the GPTQ format has it.
	minusOne bool
	block    [2]int // of FP8: outputs and values of K that share a scale; 0: a row's, or the tensor's
}

type packedMethod uint8

const (
	methodAWQ  packedMethod = iota
	methodGPTQ              // levels in words along K
	methodPack              // "pack-quantized" of compressed-tensors: words along K, row by row
	methodFP8
)

// name is what people call it.
func (s *scheme) name() string {
	switch s.method {
	case methodAWQ:
		return "AWQ"
	case methodGPTQ:
		return fmt.Sprintf("GPTQ-INT%d", s.bits)
	case methodPack:
		return fmt.Sprintf("INT%d", s.bits)
	}
	return "FP8"
}

// quantizationConfig holds the fields that bear on what the tensors mean. How
// activations were meant to be rounded does not: devices have their own rules.
type quantizationConfig struct {
	Method     string         `json:"quant_method"`
	Bits       int            `json:"bits"`
	WBit       int            `json:"w_bit"` // older AWQ
	Group      *int           `json:"group_size"`
	QGroup     *int           `json:"q_group_size"` // older AWQ
	Version    string         `json:"version"`
	Checkpoint string         `json:"checkpoint_format"`
	Marlin     bool           `json:"is_marlin_format"`
	Dynamic    map[string]any `json:"dynamic"` // GPTQ: other rules for some layers
	Fmt        string         `json:"fmt"`
	BlockSize  []int          `json:"weight_block_size"`
	Format     string         `json:"format"`
	Groups     map[string]struct {
		Weights *packedWeights `json:"weights"`
		Format  string         `json:"format"`
	} `json:"config_groups"`
}

// packedWeights is a group of compressed-tensors.
type packedWeights struct {
	Bits     int    `json:"num_bits"`
	Type     string `json:"type"`
	Strategy string `json:"strategy"`
	Group    *int   `json:"group_size"`
	Block    []int  `json:"block_structure"`
}

// readScheme gives nil for a model that is not quantized.
func readScheme(config []byte) (*scheme, error) {
	var c struct {
		Quantization *quantizationConfig `json:"quantization_config"`
		Compression  *quantizationConfig `json:"compression_config"` // older compressed-tensors
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	q := c.Quantization
	if q == nil {
		q = c.Compression
	}
	if q == nil {
		return nil, nil
	}
	var s *scheme
	var err error
	switch q.Method {
	case "awq":
		s, err = q.awq()
	case "gptq":
		s, err = q.gptq()
	case "fp8":
		s, err = q.fp8()
	case "compressed-tensors":
		s, err = q.compressed()
	default:
		err = errors.New("that method is not supported; wanted awq, gptq, fp8 or compressed-tensors, F32, F16 or BF16 weights, or GGUF")
	}
	if err != nil {
		return nil, fmt.Errorf("quantization_config with method %q: %w", q.Method, err)
	}
	return s, nil
}

// groupSize is the first that is stated.
func groupSize(stated ...*int) (int, error) {
	for _, g := range stated {
		if g == nil {
			continue
		}
		if *g != -1 && (*g < 32 || *g%32 != 0) {
			return 0, fmt.Errorf("group_size is %d, wanted -1 or a multiple of 32", *g)
		}
		return *g, nil
	}
	return 0, errors.New("group_size is missing")
}

func (q *quantizationConfig) awq() (*scheme, error) {
	if bits := max(q.Bits, q.WBit); bits != 4 {
		return nil, fmt.Errorf("%d bits, wanted 4", bits)
	}
	if v := strings.ToLower(q.Version); v != "gemm" && v != "" {
		return nil, fmt.Errorf("version %q is not supported, wanted gemm", q.Version)
	}
	g, err := groupSize(q.Group, q.QGroup)
	return &scheme{method: methodAWQ, bits: 4, group: g}, err
}

func (q *quantizationConfig) gptq() (*scheme, error) {
	if q.Bits != 4 && q.Bits != 8 {
		return nil, fmt.Errorf("%d bits, wanted 4 or 8", q.Bits)
	}
	switch {
	case q.Marlin || q.Checkpoint != "" && q.Checkpoint != "gptq" && q.Checkpoint != "gptq_v2":
		return nil, fmt.Errorf("checkpoint_format %q is not supported, wanted gptq or gptq_v2", q.Checkpoint)
	case len(q.Dynamic) > 0:
		return nil, errors.New("rules of its own for some layers (dynamic) are not supported")
	}
	g, err := groupSize(q.Group)
	return &scheme{method: methodGPTQ, bits: q.Bits, group: g, minusOne: q.Checkpoint != "gptq_v2"}, err
}

func (q *quantizationConfig) fp8() (*scheme, error) {
	if q.Fmt != "" && q.Fmt != "e4m3" {
		return nil, fmt.Errorf("fmt %q is not supported, wanted e4m3", q.Fmt)
	}
	s := &scheme{method: methodFP8}
	return s, s.setBlock(q.BlockSize)
}

// setBlock takes the size of blocks of outputs × K; nil is none.
func (s *scheme) setBlock(b []int) error {
	switch {
	case b == nil:
		return nil
	case len(b) != 2 || b[0] < 1 || b[0] > 1<<20 || b[1] < 32 || b[1] > 1<<20 || b[1]%32 != 0:
		return fmt.Errorf("blocks of %v, wanted two numbers of which the second is a multiple of 32", b)
	}
	s.block = [2]int(b)
	return nil
}

// compressed reads the one scheme that all groups of layers share.
func (q *quantizationConfig) compressed() (*scheme, error) {
	var got *scheme
	for name, g := range q.Groups {
		format := q.Format
		if g.Format != "" {
			format = g.Format
		}
		if g.Weights == nil {
			return nil, fmt.Errorf("group %q says nothing of weights", name)
		}
		s, err := g.Weights.scheme(format)
		if err != nil {
			return nil, err
		}
		if got != nil && *got != *s {
			return nil, errors.New("groups of layers with different weights are not supported")
		}
		got = s
	}
	if got == nil {
		return nil, errors.New("config_groups is missing")
	}
	return got, nil
}

func (w *packedWeights) scheme(format string) (*scheme, error) {
	switch {
	case w.Type == "float" && w.Bits == 8 && (format == "float-quantized" || format == "naive-quantized"):
		s := &scheme{method: methodFP8}
		switch w.Strategy {
		case "tensor", "channel":
			return s, nil
		case "block":
			if w.Block == nil {
				return nil, errors.New("block_structure is missing")
			}
			return s, s.setBlock(w.Block)
		}
		return nil, fmt.Errorf("strategy %q is not supported, wanted tensor, channel or block", w.Strategy)
	case w.Type == "int" && (w.Bits == 4 || w.Bits == 8) && format == "pack-quantized":
		s := &scheme{method: methodPack, bits: w.Bits, group: -1}
		switch w.Strategy {
		case "channel":
			return s, nil
		case "group":
			g, err := groupSize(w.Group)
			s.group = g
			return s, err
		}
		return nil, fmt.Errorf("strategy %q is not supported, wanted channel or group", w.Strategy)
	}
	return nil, fmt.Errorf("format %q with %d-bit %s weights is not supported, wanted float-quantized (8 bits) or pack-quantized (4 or 8 bits)", format, w.Bits, w.Type)
}
