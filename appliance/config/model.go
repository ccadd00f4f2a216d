package config

import (
	"fmt"
	"strings"
)

// The model inside the binary.
const (
	EmbeddedModel = "hearth-tiny"
	EmbeddedPath  = "embedded"
)

// DefaultTenant owns the first API key where the file names no tenant.
const DefaultTenant = "default"

// AnyModel in a [[price]] stands for every model without a price of its own.
const AnyModel = "*"

// Library is [library]: the models that `hearth model add` has installed.
type Library struct {
	// Serve makes every installed model available under its own name without a
	// [[model]] table of its own. Default true.
	Serve bool `toml:"serve"`
}

func (l *Library) setDefaults() { l.Serve = true }

// Model is one [[model]]: a model to serve and how.
type Model struct {
	// Name is what callers write. Required.
	Name string `toml:"name"`
	// Path is "embedded", the name of an installed model, or a .gguf file or
	// safetensors directory; relative to the data directory. Default: Name.
	Path string `toml:"path"`
	// Device is "auto", "cpu", "cuda", "cuda:N" or the UUID of a GPU; empty: what
	// --device says. "auto" takes a GPU if there is one that can be used and the
	// CPU otherwise, with the reason in /readyz, on the page and in the metrics;
	// the other ones are taken or the model is not served. Default empty.
	Device string `toml:"device"`
	// Replicas is on how many GPUs the model is loaded, each with all of it;
	// requests go to one that has computed their beginning before, else to the
	// least busy. More than there are is no fault. Zero: 1. Default 0.
	Replicas int `toml:"replicas"`
	// Context is the most tokens of a sequence; zero: as many as the model was
	// made for, at most 8192. Default 0.
	Context int `toml:"context"`
	// KVMemory is the memory for cached keys and values, in bytes; zero:
	// computed from the model and the memory of the machine. Default 0.
	KVMemory Size `toml:"kv_memory"`
	// KVType is how keys and values are kept: "f16", "bf16", "f32", or on a GPU
	// "fp8" or "int8", which take half the memory and round more (a CPU takes them
	// as empty); empty: "f16", but "f32" on a CPU that rounds nothing else either
	// (activations "f32", weights in floating point). Default empty.
	KVType string `toml:"kv_type"`
	// Threads computes with this many; zero: one a core. Default 0.
	Threads int `toml:"threads"`
	// Activations is the precision of the arithmetic: "q8" rounds the inputs of
	// quantized matrices to 8-bit blocks, as llama.cpp does, "f32" does not and
	// takes two to three times as long on a CPU; "bf16" lets a CPU also round those
	// of matrices in bf16 to that type; "fast" lets a GPU also round those
	// of matrices in bf16 and f16 to that type. Default "q8".
	Activations string `toml:"activations"`
	// MaxSequences run at the same time; zero: 32. Default 0.
	MaxSequences int `toml:"max_sequences"`
	// StepTokens is the most tokens computed in one step; zero: 256. Default 0.
	StepTokens int `toml:"step_tokens"`
	// Queue is how many requests may wait or run; further ones are told to come
	// back; zero: 1024. Default 0.
	Queue int `toml:"queue"`
	// PrefixCache keeps computed prefixes for later requests. Default true.
	PrefixCache bool `toml:"prefix_cache"`
	// Speculation is how many tokens at most are guessed ahead of an answer that
	// repeats what stood before (prompt lookup); answers stay the same, and come
	// sooner where the guesses are right. Zero: none. At most 16. Default 0.
	Speculation int `toml:"speculation"`
	// SpeculationBatch is the most answers running at the same time for which
	// tokens are guessed; zero: 4. Default 0.
	SpeculationBatch int `toml:"speculation_batch"`
	// InProcess runs the engine inside the server instead of a worker process
	// of its own. Default false.
	InProcess bool `toml:"in_process"`
}

// NewModel is a model with every default.
func NewModel(name, path string) Model {
	m := Model{Name: name, Path: path}
	m.setDefaults()
	return m
}

func (m *Model) setDefaults() { m.PrefixCache, m.Activations = true, "q8" }

func (c *Config) validateModels(f *Faults) {
	taken := map[string]string{}
	claim := func(key, name string) {
		if name == "" {
			f.add(key, "is empty, wanted a name")
			return
		}
		if len(name) > 128 || strings.ContainsAny(name, " \t\r\n\"\\") {
			f.add(key, "cannot use %q as a name: at most 128 characters, no spaces or quotes", name)
			return
		}
		if other := taken[name]; other != "" {
			f.add(key, "the name %q is already taken by %s", name, other)
			return
		}
		taken[name] = key
	}
	for i := range c.Models {
		m, key := &c.Models[i], fmt.Sprintf("model[%d]", i)
		claim(key+".name", m.Name)
		if m.Path == "" {
			m.Path = m.Name
		}
		m.validate(f, key)
	}
}

func (m *Model) validate(f *Faults, key string) {
	if m.Device != "" && !CheckDevice(m.Device) {
		f.add(key+".device", "got %.64q, wanted %s", m.Device, DeviceForms)
	}
	f.count(key+".replicas", m.Replicas, 0, 64)
	f.oneOf(key+".kv_type", m.KVType, "", "f16", "bf16", "f32", "fp8", "int8")
	if m.Device == "cpu" && (m.KVType == "fp8" || m.KVType == "int8") {
		f.add(key+".kv_type", "got %q, which a CPU does not keep: wanted f16, bf16 or f32", m.KVType)
	}
	f.count(key+".context", m.Context, 0, 1<<24)
	f.count(key+".threads", m.Threads, 0, 4096)
	f.oneOf(key+".activations", m.Activations, "q8", "bf16", "f32", "fast")
	if m.Activations == "bf16" && m.Device != "" && m.Device != "auto" && m.Device != "cpu" {
		f.add(key+".activations", `got "bf16", which is for a CPU: on a GPU "fast" rounds the inputs of matrices in bf16`)
	}
	f.count(key+".max_sequences", m.MaxSequences, 0, 4096)
	f.count(key+".step_tokens", m.StepTokens, 0, 1<<16)
	f.count(key+".queue", m.Queue, 0, 1<<20)
	f.count(key+".speculation", m.Speculation, 0, 16)
	f.count(key+".speculation_batch", m.SpeculationBatch, 0, 4096)
	if m.KVMemory != 0 && m.KVMemory < 1<<20 {
		f.add(key+".kv_memory", "got %s, wanted at least 1MiB, or 0 to have it computed", m.KVMemory)
	}
}
