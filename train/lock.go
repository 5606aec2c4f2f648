package train

import (
	"errors"
	"os"

	"tokitai/internal/filelock"
)

// lock holds a file as long as this process lives, where the system can do that.
func lock(path string) (held *os.File, isFree bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false, err
	}
	switch err := filelock.Try(f); {
	case errors.Is(err, filelock.ErrHeld):
		f.Close()
		return nil, false, nil
	case err != nil:
		f.Close()
		return nil, false, err
	}
	return f, true, nil
}
