package verify

import (
	"context"

	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/verify/probe"
)

// MatrixDevice is a device with matrix instructions, whose models [Probe] finds.
type MatrixDevice = probe.Device

// Probe compares a matrix instruction of a device with every candidate model, on every kind of data
// that package tensorcore has, and reports which model holds. The report's model is the one that
// lowerings declare, or else the best candidate. The verdict is accepted if every output is that of
// the model and no other candidate holds.
func Probe(ctx context.Context, dev MatrixDevice, i tensorcore.Instruction, o Options) (*evidence.Report, error) {
	return probe.Run(ctx, dev, i, probe.Options{Device: o.device(), Level: o.Level, Seed: o.Seed, Progress: o.Progress, Tool: o.Tool, Version: o.Version, Program: o.Program})
}

// IsProbe reports whether a report is one of Probe.
func IsProbe(r *evidence.Report) bool { return probe.IsReport(r) }
