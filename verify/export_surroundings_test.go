package verify

import (
	"errors"

	"tokitai/device"
	"tokitai/trial"
)

// PoisonsOf returns what the first output holds before the first and the second run of a
// case, under seed 1.
func PoisonsOf(t *Target, name string) [2]uint64 {
	c, err := t.Cases().Parse(name)
	if err != nil {
		panic(err)
	}
	return trial.DrawPoisons(c.Formats[outputOf(t.Definition)], t.surroundings(c, 1).key)
}

// SetCanWatch sets whether inputs are watched, where the system allows it.
func SetCanWatch(is bool) (restore func()) {
	if !is {
		canWatch = func(device.Device) error { return errors.New("not now") }
	}
	return func() { canWatch = trial.CanWatch }
}
