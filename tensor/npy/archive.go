package npy

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"tokitai/internal/readfile"
)

// Archive reads the arrays of a .npz file, a zip archive of .npy files as numpy.savez and
// numpy.savez_compressed write it, one by one. The name of an array is that of its file
// without .npy. Other files in the archive are ignored.
type Archive struct {
	path   string
	file   *os.File
	arrays map[string]*zip.File
}

// maxArrays is the maximum number of files in an archive, far more than any has.
const maxArrays = 1 << 20

// OpenArchive opens an archive and reads its directory.
func OpenArchive(path string) (*Archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a := &Archive{path: path, file: file, arrays: map[string]*zip.File{}}
	if err := a.readDirectory(); err != nil {
		file.Close()
		return nil, inFile(path, err)
	}
	return a, nil
}

func (a *Archive) readDirectory() error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return bad("not a regular file, which an archive has to be")
	}
	directory, err := zip.NewReader(a.file, info.Size())
	switch {
	case errors.Is(err, zip.ErrFormat):
		return bad("not a .npz file: it is no zip archive")
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // names are not used as paths
		return fmt.Errorf("reading the archive: %w", err)
	case len(directory.File) > maxArrays:
		return bad("the archive has %d files, want at most %d", len(directory.File), maxArrays)
	}
	for _, f := range directory.File {
		name, isArray := strings.CutSuffix(f.Name, ".npy")
		if !isArray {
			continue
		}
		if a.arrays[name] != nil {
			return bad("the archive has %q twice", f.Name)
		}
		a.arrays[name] = f
	}
	return nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }

// Names returns the sorted names of all arrays.
func (a *Archive) Names() []string { return slices.Sorted(maps.Keys(a.arrays)) }

// Info describes an array.
func (a *Archive) Info(name string) (Info, error) {
	h, _, err := a.header(name)
	if err != nil {
		return Info{}, err
	}
	return h.Info, nil
}

// Data returns a reader of an array's data. It reads from the file as needed if the array is
// stored as it is, and expands all of it if it is compressed. It never reads more than the
// array's own header announces.
func (a *Archive) Data(name string) (*io.SectionReader, error) {
	h, at, err := a.header(name)
	if err != nil {
		return nil, err
	}
	f := a.arrays[name]
	want, _ := h.byteCount()
	if have := int64(f.UncompressedSize64) - at; have < want {
		return nil, a.inArray(name, h.cutShort(have))
	} else if have > want {
		return nil, a.inArray(name, h.goesOn())
	}
	if f.Method == zip.Store {
		begin, err := f.DataOffset()
		if err != nil {
			return nil, a.inArray(name, err)
		}
		return io.NewSectionReader(a.file, begin+at, want), nil
	}
	source, err := f.Open()
	if err != nil {
		return nil, a.inArray(name, err)
	}
	defer source.Close()
	r, err := readStream(source)
	if err != nil {
		return nil, a.inArray(name, err)
	}
	return r.Data(), nil
}

// header reads the header of an array and returns it with the offset of the data.
func (a *Archive) header(name string) (*header, int64, error) {
	f := a.arrays[name]
	switch {
	case f == nil:
		return nil, 0, inFile(a.path, bad("the archive has no array %q", name))
	case f.Flags&1 != 0:
		return nil, 0, a.inArray(name, bad("the archive is encrypted"))
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return nil, 0, a.inArray(name, bad("compression method %d is not supported, want stored or deflated, as numpy writes them", f.Method))
	}
	source, err := f.Open()
	if err != nil {
		return nil, 0, a.inArray(name, err)
	}
	defer source.Close()
	h, at, err := readHeader(source)
	if err != nil {
		return nil, 0, a.inArray(name, err)
	}
	return h, at, nil
}

// inArray adds the path and the name of an array to an error. What is wrong with the archive
// is wrong with its format.
func (a *Archive) inArray(name string, err error) error {
	var corrupt flate.CorruptInputError
	if f, ok := errors.AsType[*FormatError](err); ok {
		err = bad("array %q: %s", name, f.Problem)
	} else if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrAlgorithm) || errors.As(err, &corrupt) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = bad("array %q: the archive is damaged: %v", name, err)
	} else {
		err = fmt.Errorf("array %q: %w", readfile.Clip(name), err)
	}
	return inFile(a.path, err)
}
