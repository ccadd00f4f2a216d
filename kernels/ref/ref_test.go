package ref_test

import (
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

func open(testing.TB) kernels.Device { return ref.New() }

func TestCopyBlocks(t *testing.T) { kerneltest.CopiedBlocks(t, open) }
