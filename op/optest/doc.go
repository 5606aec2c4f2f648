// Package optest provides the tests that all operations share.
//
//	Doc             the package comment shows the contract, line by line
//	Clauses         every clause of a contract has a test, every test a clause
//	Errors          wrong arguments give an error, and nothing is written
//	Shapes          leading dimensions fold into rows
//	MatchReference  a typed call has the reference's bits: every choice of storage
//	                formats, ordinary and special values, gaps between rows,
//	                outputs in the place of inputs
//	Bench           a typed call, checked and then timed
//
// A [Subject] is the definition and the typed call under test. Memory, comparison and
// messages are those of package trial.
//
// The package knows definitions and calls, but no operation.
package optest
