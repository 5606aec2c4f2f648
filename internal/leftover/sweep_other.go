//go:build !unix

package leftover

func lock(string) (release func(), err error) { return func() {}, nil }

func sweep(dir, pattern string) {}
