//go:build !linux

package compile_test

func becomeNobody() bool { return false }
func becomeRoot()        {}
