package standin

import "errors"

// openEmulator opens the emulator's devices.
func openEmulator(architectures []string) (*server, error) {
	return nil, errors.New("the emulator is missing")
}
