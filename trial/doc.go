// Package trial holds the operands of one call of a kernel while the kernel is tested.
//
//	New         lays out the operands: every one in memory of its own, between guards,
//	            with gaps between its rows where the layout asks for them
//	Fill        sets the values; Poison overwrites the outputs
//	Replace     puts an output in the place of an input
//	Share       puts two inputs in one memory
//	Place       copies everything to a device; Placed hands it to the kernel and reads
//	            it back, so that results are compared in memory the kernel never had
//	Watch       notices writes to inputs, also those that are undone
//	Breach      reports memory that changed and must not: guards, gaps, inputs
//	Unwritten   lists elements that still hold what they held before the call
//	Difference  reports the first element that differs from its answer, under a [Rule]
//	hash.go     hashes inputs and outputs
//
// The engine admits kernels with it, verify and bench judge with it, and so do the tests
// of the lowerings. Which cases are run, what their values are and what the answer is
// are the callers' business: the package knows definitions, but neither an answer nor
// anything that computes one.
package trial
