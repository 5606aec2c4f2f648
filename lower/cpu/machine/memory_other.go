//go:build !linux

package machine

import "errors"

func executable([]byte) ([]byte, error) {
	return nil, errors.New("not supported on this system")
}

func release([]byte) {}
