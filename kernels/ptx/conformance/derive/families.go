package derive

import "hearth/kernels/ptx/conformance"

// Families are the files of the data, by name without .json.
func Families() map[string][]conformance.Case {
	all := map[string][]conformance.Case{}
	for name, make := range map[string]func() *set{"floats": floats, "halves": halves, "approximations": approximations, "conversions": conversions,
		"integers": integers, "choices": choices, "memory": memory, "warps": warps, "matrices": matrices} {
		all[name] = make().cases
	}
	return all
}
