// Package newfile writes files atomically, one alone or several together. It knows
// nothing of their content. Start with Write and Batch.
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

// Write writes one file. An existing file is replaced, or kept if there is an error.
func Write(path string, write func(io.Writer) error) error {
	var b Batch
	defer b.Discard()
	if err := b.Write(path, write); err != nil {
		return err
	}
	return b.Commit()
}

// Batch is a set of files that appear together and replace existing ones. The zero Batch
// is empty.
type Batch struct {
	// Stop, if set, is called every few megabytes. If it returns an error, Write returns
	// that error.
	Stop func() error

	files  []staged
	moving func(from, to string) error // os.Rename, or a test's
}

// staged is a file under a temporary name in the folder of its target.
type staged struct {
	path              string // as given
	target, temporary string
	former            string // temporary name of the replaced file during Commit; "" if there is none
	isInPlace         bool
	forget            func() // unregisters the temporary file from package leftover
}

// Write writes a file under a temporary name in the folder of path, and waits until it is
// on disk.
func (b *Batch) Write(path string, write func(io.Writer) error) error {
	// Follow links, and refuse what is not a regular file, such as a device or a pipe:
	// renaming would replace it by a file.
	target, mode, isReplaced := Resolve(path), os.FileMode(0o666), false
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: not a regular file", path)
		}
		mode, isReplaced = info.Mode().Perm(), true
	}
	if slices.ContainsFunc(b.files, func(f staged) bool { return f.target == target }) {
		return fmt.Errorf("%s: written twice", path)
	}
	// Not os.CreateTemp, whose files are private: this file gets the permissions of the
	// file it replaces, or those of any new file.
	temporary := temporaryName(target)
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: errors.Unwrap(err)}
	}
	forget := leftover.Add(func() { os.Remove(temporary) })
	b.files = append(b.files, staged{path: path, target: target, temporary: temporary, forget: forget})
	if isReplaced {
		err = out.Chmod(mode) // unlike OpenFile, not limited by the umask
	}
	if err == nil {
		err = write(&stoppable{out, b.Stop})
	}
	if err == nil {
		err = out.Sync()
	}
	return inFile(path, cmp.Or(err, out.Close()))
}

// Resolve returns the absolute path of a file without symbolic links. Paths of one file have
// the same result, also if the file does not exist yet, except for letters of other case in a
// file system that does not tell them apart.
func Resolve(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if target, err := filepath.Abs(path); err == nil {
		return target
	}
	return path
}

func (b *Batch) move(from, to string) error {
	if b.moving != nil {
		return b.moving(from, to)
	}
	return os.Rename(from, to)
}

// stoppable writes in pieces and calls stop between them.
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

// Commit moves the files into place, in the order in which they were written. The last
// one is assumed to be an index of the others: the old index is moved away first, so that
// a program that ends in between does not leave an old index of new files. After an error
// all files are as they were.
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
		if b.isPlaced(f.target) {
			return inFile(f.path, errors.Join(errors.New("written twice, under two names of one file"), b.restore()))
		}
		if err := b.move(f.temporary, f.target); err != nil {
			return inFile(f.path, errors.Join(err, b.restore()))
		}
		f.isInPlace = true
	}
	for _, f := range b.files {
		if f.former != "" {
			os.Remove(f.former) // the new files are in place; at worst an old one remains
		}
	}
	return nil
}

// isPlaced reports whether target is a file that Commit has just moved into place, by another
// name, as where upper and lower case are the same.
func (b *Batch) isPlaced(target string) bool {
	there, err := os.Lstat(target)
	return err == nil && slices.ContainsFunc(b.files, func(f staged) bool {
		placed, err := os.Lstat(f.target)
		return f.isInPlace && err == nil && os.SameFile(there, placed)
	})
}

// restore undoes Commit, in the order of the files.
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

// Discard removes the files that Commit has not moved into place.
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

// Error reports a file that could not be written.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
