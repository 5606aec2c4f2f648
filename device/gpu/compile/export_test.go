package compile

import (
	"os"
	"time"
)

func (c *Cache) SetLockLimit(d time.Duration)                    { c.lockLimit = d }
func (c *Cache) SetWrite(write func(f *os.File, b []byte) error) { c.write = write }
func LockFile(path string, limit time.Duration) (func(), error)  { return lockFile(path, limit) }

// SetChildLimit sets the time after which compilers are killed, and returns what undoes it.
func SetChildLimit(d time.Duration) (undo func()) {
	before := childLimit
	childLimit = d
	return func() { childLimit = before }
}
