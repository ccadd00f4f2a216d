package replica

import (
	"slices"

	"hearth/engine/infer"
)

// sum adds counters and gauges of two replicas; what they say of one device is
// said once.
func sum(a, b infer.Stats) infer.Stats {
	a.Steps += b.Steps
	a.Running += b.Running
	a.Waiting += b.Waiting
	a.BlocksTotal += b.BlocksTotal
	a.BlocksUsed += b.BlocksUsed
	a.BlocksCached += b.BlocksCached
	a.Preemptions += b.Preemptions
	a.PrefixQueries += b.PrefixQueries
	a.PrefixHits += b.PrefixHits
	a.PromptTokens += b.PromptTokens
	a.OutputTokens += b.OutputTokens
	a.WeightBytes += b.WeightBytes
	a.KVBytes += b.KVBytes
	a.WorkerRestarts += b.WorkerRestarts
	a.BlockTokens = max(a.BlockTokens, b.BlockTokens)
	a.StepTokenSum += b.StepTokenSum
	switch {
	case a.StepTokens == nil:
		a.StepTokens = b.StepTokens
	case len(a.StepTokens) == len(b.StepTokens):
		a.StepTokens = slices.Clone(a.StepTokens)
		for i, n := range b.StepTokens {
			a.StepTokens[i] += n
		}
	}
	for _, d := range b.Devices {
		if !slices.ContainsFunc(a.Devices, func(have infer.Device) bool { return have.ID == d.ID }) {
			a.Devices = append(slices.Clip(a.Devices), d)
		}
	}
	return a
}
