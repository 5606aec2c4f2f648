// Package engine decides which lowering computes a call, and runs it.
//
// A call goes through here: its operands are checked against the definition's
// contract, before anything is written (check.go); the plan for definition,
// formats, shape class and lowering is looked up, without a lock and
// without an allocation (plan.go); the first time, the candidates of a static
// table are compiled and admitted (preference.go): each has to reproduce answers
// of the reference on this very device (selftest.go). Then the plan is launched.
//
// The package knows definitions and devices, but no operation's mathematics.
// Start reading at [Run].
package engine
