package jit

// SetPerCall has calls into the code of a program compute at most that many elements, a
// multiple of 256. It reports whether its rows can be computed in parts.
func SetPerCall(p any, elements int) bool {
	program := p.(*program)
	program.perCall = elements
	if program.apart != nil {
		program.apart.perCall = elements
	}
	return program.entries.parts != nil
}

// PerCall returns how many elements a call into the code of a program computes at most.
func PerCall(p any) int { return p.(*program).perCall }
