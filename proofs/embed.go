// Package proofs embeds the lemmas that the proofs about functions import, for the program.
// The folder has the theorems themselves, in Coq; README.md says how they are checked.
package proofs

import _ "embed"

// Binary32 is the file functions/Binary32.v.
//
//go:embed functions/Binary32.v
var Binary32 string

// Patterns is the file functions/Patterns.v, which imports Binary32.v.
//
//go:embed functions/Patterns.v
var Patterns string
