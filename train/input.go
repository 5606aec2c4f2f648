package train

import "tokitai/tensor"

// badInput returns an error about something that was given: a setting, a corpus, a folder.
func badInput(format string, args ...any) error { return tensor.BadInput(format, args...) }
