//go:build !linux

package trial

import "errors"

// region is memory that only Linux has: see memory_linux.go.
type region struct{ memory []byte }

var errNoRegion = errors.New("only Linux has such memory")

func newRegion(bool, int) (*region, error) { return nil, errNoRegion }

func (r *region) release() {}

func (r *region) fill([]byte) error { return errNoRegion }

func (r *region) isWritten() (bool, error) { return false, errNoRegion }
