//go:build !linux

package nvml

import "errors"

const way = "none"

func bind(string) (bound, error) { return nil, errors.New("this system has no such library") }
