package compile

import (
	"os"
	"time"
)

func (c *Cache) SetLockLimit(d time.Duration)                    { c.lockLimit = d }
func (c *Cache) SetWrite(write func(f *os.File, b []byte) error) { c.write = write }
func LockFile(path string, limit time.Duration) (func(), error)  { return lockFile(path, limit) }
