package sampler

// Uniform is a number in [0, 1) that depends only on its arguments: three rounds
// of the SplitMix64 finalizer (Steele, Lea, Flood 2014) over a running state.
func Uniform(seed, choice, position uint64) float64 {
	const golden = 0x9E3779B97F4A7C15
	x := mix(seed + golden)
	x = mix(x ^ (choice+1)*0xD1B54A32D192ED03)
	x = mix(x + (position+1)*golden)
	return float64(x>>11) / (1 << 53)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
