package wave

// Registers returns the numbers of VGPRs and of AGPRs that a kernel has to have: the highest
// that its instructions name, and one.
func (c *Code) Registers() (vector, accumulators int) { return c.registers, c.accumulators }
