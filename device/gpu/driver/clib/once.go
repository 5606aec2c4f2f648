package clib

import (
	"sync"

	"tokitai/device/gpu/driver"
)

// Once holds the table of a process's one library.
type Once struct {
	mu    sync.Mutex
	table *driver.Table
}

// Table returns the table, which open makes on first use. After an error, the next call tries
// again.
func (o *Once) Table(open func() (*driver.Table, error)) (*driver.Table, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.table == nil {
		table, err := open()
		if err != nil {
			return nil, err
		}
		o.table = table
	}
	return o.table, nil
}
