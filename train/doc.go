// Package train trains decoders and networks of features so that every bit of a run follows from its configuration and its
// data: on any device, however often the run is stopped and resumed.
//
// A Trainer takes steps. The sequences of a step are divided into leaves; the gradients of the leaves
// are added as an adjacent binary tree, whatever computes them. Each step adds an entry to a chain of
// SHA-256: over the entry before it, the loss, the norm of the gradients and a digest of each weight.
// Two runs with the same last entry have had the same bits at every step.
//
// A Run is a trainer with a folder: it writes metrics and checkpoints, and resumes. Replay computes
// steps of a run again, on any device, and compares; Diff finds where two runs part.
//
// Networks are package model's, the order of data is package data's. Start with Settings, Trainer
// and Run.
package train
