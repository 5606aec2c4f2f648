package answer

import "tokitai/tensor"

// badInput returns an error about something that was given: a model, a prompt, a parameter.
func badInput(format string, args ...any) error { return tensor.BadInput(format, args...) }
