// Package engine chooses the lowering that computes a call, and runs it.
//
// Every call takes the same path. Its operands are checked against the definition's
// contract before anything is written (check.go). The plan for definition, formats,
// class and lowering is looked up without a lock or an allocation (plan.go). On the
// first call, the backend's lowerings are compiled in the order of its preference and
// admitted: each must reproduce the reference's answers on this device (selftest.go).
// Then the plan's kernel is launched.
//
// The package knows definitions, but no operation. It knows that a device brings a
// [Backend], but no concrete device and no lowering. Start reading at [Run].
package engine
