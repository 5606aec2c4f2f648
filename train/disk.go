package train

import (
	"bufio"
	"errors"
	"io"
	"os"
	"syscall"

	"tokitai/internal/leftover"
)

// disk is all by which a run changes files, so that tests can end it at any of these calls.
type disk interface {
	Mkdir(path string) error // with its parents; one that exists is no error
	Create(path string) (file, error)
	Append(path string) (file, error)
	Truncate(path string, size int64) error
	Rename(from, to string) error
	Remove(path string) error
	SyncFolder(path string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

// osDisk is the disk of the operating system.
type osDisk struct{}

func (osDisk) Mkdir(path string) error { return os.MkdirAll(path, 0o777) }

func (osDisk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (osDisk) Append(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
}

func (osDisk) Truncate(path string, size int64) error { return os.Truncate(path, size) }
func (osDisk) Rename(from, to string) error           { return os.Rename(from, to) }
func (osDisk) Remove(path string) error               { return os.Remove(path) }

func (osDisk) SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// File systems that cannot sync a folder say so; there is nothing more to be done on them.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// replace writes a file so that at every moment there is the old one or the whole new one, also after
// a loss of power.
func replace(d disk, folder, path string, write func(io.Writer) error) error {
	temporary := path + temporarySuffix
	forget := leftover.Add(func() { os.Remove(temporary) })
	defer forget()
	f, err := d.Create(temporary)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = d.Rename(temporary, path)
	}
	if err != nil {
		d.Remove(temporary)
		return err
	}
	return d.SyncFolder(folder)
}

const temporarySuffix = ".tmp"
