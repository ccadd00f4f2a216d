package kernel

import (
	"fmt"

	"hearth/kernels"
)

func layoutFloat(w *Weight, _ []*kernels.Tensor) error {
	return fmt.Errorf("cannot lay out weights: no kernel reads %s yet", w.Type)
}

func linearFloat(_ Target, w *Weight, _ LinearCall) ([]Launch, error) {
	return nil, fmt.Errorf("cannot multiply: no kernel reads %s yet", w.Type)
}

func scratchFloat(*Weight, int) int64 { return 0 }
