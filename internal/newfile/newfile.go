// Package newfile writes files that appear whole or not at all, one alone or several
// together. It knows nothing of what they hold.
package newfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"tokitai/internal/leftover"
)

// Write writes one file. What stood at path before is replaced; after an error it is as
// it was.
func Write(path string, write func(io.Writer) error) error {
	var b Batch
	defer b.Discard()
	if err := b.Write(path, write); err != nil {
		return err
	}
	return b.Commit()
}

// Batch is a set of files that replace what stands at their paths together. The zero
// Batch is empty.
type Batch struct {
	// Stop, if it is set, is called between pieces of a few megabytes. Write ends with the
	// error that it returns.
	Stop func() error

	files  []staged
	moving func(from, to string) error // os.Rename, or a test's
}

// staged is a file under a temporary name in the folder of its target.
type staged struct {
	path              string // as it was given
	target, temporary string
	former            string // where the file that is replaced waits for the end of Commit; "" if there is none
	isInPlace         bool
	forget            func() // that an interrupt would have to remove the temporary file
}

// Write writes a file under a temporary name beside path, and returns once it is on the
// disk.
func (b *Batch) Write(path string, write func(io.Writer) error) error {
	// A link is followed, and what is not a file (a device, a pipe) is left alone:
	// renaming would put a file in its place.
	target, mode, isReplaced := path, os.FileMode(0o666), false
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: not a regular file", path)
		}
		if target, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		mode, isReplaced = info.Mode().Perm(), true
	}
	if slices.ContainsFunc(b.files, func(f staged) bool { return f.target == target }) {
		return fmt.Errorf("%s: written twice", path)
	}
	// Not os.CreateTemp, whose files are private: these have the permissions of
	// the file they replace, or of any file a program writes.
	temporary := temporaryName(target)
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: errors.Unwrap(err)}
	}
	forget := leftover.Add(func() { os.Remove(temporary) })
	b.files = append(b.files, staged{path: path, target: target, temporary: temporary, forget: forget})
	if isReplaced {
		err = out.Chmod(mode) // which the umask does not narrow
	}
	if err == nil {
		err = write(&stoppable{out, b.Stop})
	}
	if err == nil {
		err = out.Sync()
	}
	return inFile(path, cmp.Or(err, out.Close()))
}

func (b *Batch) move(from, to string) error {
	if b.moving != nil {
		return b.moving(from, to)
	}
	return os.Rename(from, to)
}

// stoppable writes in pieces and may end between them.
type stoppable struct {
	out  io.Writer
	stop func() error
}

func (w *stoppable) Write(data []byte) (int, error) {
	const piece = 8 << 20
	written := 0
	for part := range slices.Chunk(data, piece) {
		if w.stop != nil {
			if err := w.stop(); err != nil {
				return written, err
			}
		}
		n, err := w.out.Write(part)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// Commit puts the files in place in the order in which they were written. The last one
// is taken for the one that names the others: the file it replaces goes first, so that
// a program that ends in between leaves no old list of new files. After an error
// everything is as it was.
func (b *Batch) Commit() error {
	if len(b.files) == 1 { // the file system replaces one file in one step
		f := &b.files[0]
		if err := b.move(f.temporary, f.target); err != nil {
			return inFile(f.path, err)
		}
		f.isInPlace = true
		return nil
	}
	for i := len(b.files) - 1; i >= 0; i-- {
		f := &b.files[i]
		former := temporaryName(f.target)
		switch err := b.move(f.target, former); {
		case err == nil:
			f.former = former
		case !errors.Is(err, fs.ErrNotExist):
			return inFile(f.path, errors.Join(err, b.restore()))
		}
	}
	for i := range b.files {
		f := &b.files[i]
		if err := b.move(f.temporary, f.target); err != nil {
			return inFile(f.path, errors.Join(err, b.restore()))
		}
		f.isInPlace = true
	}
	for _, f := range b.files {
		if f.former != "" {
			os.Remove(f.former) // the new files stand; at worst an old one stays beside them
		}
	}
	return nil
}

// restore puts back what Commit has replaced, the last file last.
func (b *Batch) restore() error {
	var failed []error
	for i := range b.files {
		f := &b.files[i]
		if f.isInPlace {
			failed = append(failed, b.move(f.target, f.temporary))
			f.isInPlace = false
		}
		if f.former != "" {
			failed = append(failed, b.move(f.former, f.target))
		}
	}
	return errors.Join(failed...)
}

// Discard removes the files that Commit has not put in place.
func (b *Batch) Discard() {
	for _, f := range b.files {
		if !f.isInPlace {
			os.Remove(f.temporary)
		}
		f.forget()
	}
	b.files = nil
}

func temporaryName(target string) string {
	return fmt.Sprintf("%s.%016x.tmp", target, rand.Uint64())
}

// inFile adds the path to an error that does not name it.
func inFile(path string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Path: path, Err: err}
}

// Error is a file that could not be written.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
