package clib

import (
	"errors"
	"testing"

	"tokitai/device/gpu/driver"
)

// TestOnce: a library that could not be opened is tried again, and one that was is kept.
func TestOnce(t *testing.T) {
	var once Once
	missing := errors.New("missing")
	if table, err := once.Table(func() (*driver.Table, error) { return nil, missing }); table != nil || !errors.Is(err, missing) {
		t.Errorf("a missing library: got %v, %v", table, err)
	}
	opened := 0
	open := func() (*driver.Table, error) { opened++; return &driver.Table{}, nil }
	first, err := once.Table(open)
	if first == nil || err != nil {
		t.Fatalf("after a failure: got %v, %v", first, err)
	}
	if again, err := once.Table(open); again != first || err != nil || opened != 1 {
		t.Errorf("again: got %p, %v, opened %d times, want %p and once", again, err, opened, first)
	}
}
