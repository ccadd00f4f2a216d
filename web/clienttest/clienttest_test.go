// Package clienttest runs the official SDKs against the server with a scripted
// model behind it. The SDKs are not part of this module: point HEARTH_PYTHON at
// a Python that has openai, and HEARTH_NODE_MODULES at a folder of modules that
// has openai for Node; without them the tests are skipped.
//
// The scripts take a base URL and a key, so they run against any server that
// has a model. HEARTH_BASE_URL, HEARTH_KEY, HEARTH_MODEL and HEARTH_CA point
// them at one; what only the scripted model does is left out then.
package clienttest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hearth/web"
	"hearth/web/webtest"
)

// target is the server to test: a running one, or one of our own.
func target(t *testing.T) (env []string) {
	t.Helper()
	if u := os.Getenv("HEARTH_BASE_URL"); u != "" {
		return []string{"BASE_URL=" + u, "API_KEY=" + os.Getenv("HEARTH_KEY"), "MODEL=" + os.Getenv("HEARTH_MODEL"), "NODE_EXTRA_CA_CERTS=" + os.Getenv("HEARTH_CA"), "SSL_CERT_FILE=" + os.Getenv("HEARTH_CA")}
	}
	srv, err := web.New(web.Options{Service: &webtest.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l, nil)
	t.Cleanup(func() { srv.Close() })
	return []string{"BASE_URL=http://" + l.Addr().String() + "/v1", "API_KEY=" + webtest.Key, "MODEL=parrot", "SCRIPTED=1"}
}

func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

func TestPythonSDK(t *testing.T) {
	python := os.Getenv("HEARTH_PYTHON")
	if python == "" {
		t.Skip("HEARTH_PYTHON is not set: the Python SDK is not tested")
	}
	run(t, target(t), python, "openai_sdk.py")
}

func TestNodeSDK(t *testing.T) {
	runNode(t, "openai_sdk.mjs", target(t))
}

// runNode runs a script beside the modules, since Node looks for them there.
func runNode(t *testing.T, name string, env []string) {
	t.Helper()
	modules := os.Getenv("HEARTH_NODE_MODULES")
	if modules == "" {
		t.Skip("HEARTH_NODE_MODULES is not set: nothing is tested with Node")
	}
	dir := t.TempDir()
	script, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run(t, env, "node", file)
}
