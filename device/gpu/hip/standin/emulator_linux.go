package standin

import (
	"errors"

	"tokitai/device/gpu/driver"
)

func openEmulator(architectures []string) (*driver.Table, []int, error) {
	return nil, nil, errors.New("the emulator is missing")
}

func argumentsOf(image []byte, entry string) ([]Argument, error) { return nil, nil }
