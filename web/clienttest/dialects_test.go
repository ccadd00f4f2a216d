package clienttest

import (
	"os"
	"testing"
)

// TestPythonGenai needs a Python that has google-genai.
func TestPythonGenai(t *testing.T) {
	python := os.Getenv("HEARTH_PYTHON_GENAI")
	if python == "" {
		t.Skip("HEARTH_PYTHON_GENAI is not set: google-genai is not tested")
	}
	run(t, target(t), python, "genai_sdk.py")
}

// TestPythonOllama needs a Python that has ollama.
func TestPythonOllama(t *testing.T) {
	python := os.Getenv("HEARTH_PYTHON_OLLAMA")
	if python == "" {
		t.Skip("HEARTH_PYTHON_OLLAMA is not set: Ollama's client is not tested")
	}
	run(t, target(t), python, "ollama_sdk.py")
}

// TestNodeDialects needs @google/genai or ollama among the modules.
func TestNodeDialects(t *testing.T) {
	if os.Getenv("HEARTH_BASE_URL") != "" {
		t.Skip("the script goes by what the scripted model says")
	}
	runNode(t, "dialects.mjs", target(t))
}
