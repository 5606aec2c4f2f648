package evidence

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
)

// ArchiveSuffix is the suffix of archives: zip files that hold what a folder would hold, with
// compact reports.
const ArchiveSuffix = ".zip"

// IsArchive reports whether [Write] writes an archive to path, not a folder.
func IsArchive(path string) bool { return strings.EqualFold(filepath.Ext(path), ArchiveSuffix) }

// writeArchive writes the files of a run as one archive, in place of an earlier one. The same
// files give the same archive.
func writeArchive(path string, reports []*Report) error {
	var compact []*Report
	for _, r := range reports {
		if err := r.Check(); err != nil { // with all cases
			return err
		}
		compact = append(compact, r.Compact())
	}
	docs, err := documents(compact)
	if err != nil {
		return err
	}
	err = newfile.Write(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
		for _, d := range docs {
			entry, err := z.CreateHeader(&zip.FileHeader{Name: d.name, Method: zip.Deflate, Modified: entryTime})
			if err != nil {
				return err
			}
			if _, err := entry.Write(d.data); err != nil {
				return err
			}
		}
		return z.Close()
	})
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	return nil
}

// entryTime is the time of all entries, the first that a zip file can hold.
var entryTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// archive is a zip file. It is a source of the files in it.
type archive struct {
	name    string
	entries map[string]*zip.File
	order   []string // of the entries
}

// directoryEnd is the size of a zip file's last record, which ends the file: it has no comment.
const directoryEnd = 22

// openArchive reads an archive's list of files. It refuses an archive that [Write] would not have
// written: with entries that are not regular files, have a path or a name twice, or with data
// after the end.
func openArchive(path string) (source, error) {
	data, err := readfile.Regular(path, MaxArchiveBytes)
	if err != nil {
		return nil, err
	}
	if err := checkDirectory(data); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &archive{name: path, entries: map[string]*zip.File{}}
	taken := map[string]bool{} // in lower case, as some file systems ignore case
	for _, f := range z.File {
		if !fileForm.MatchString(f.Name) {
			return nil, fmt.Errorf("%s has the entry %q, want the name of a file", path, readfile.Clip(f.Name))
		}
		if err := readfile.CheckRegular(a.path(f.Name), f.Mode()); err != nil {
			return nil, err
		}
		if taken[strings.ToLower(f.Name)] {
			return nil, fmt.Errorf("%s has the entry %s twice", path, f.Name)
		}
		taken[strings.ToLower(f.Name)] = true
		a.entries[f.Name], a.order = f, append(a.order, f.Name)
	}
	return a, nil
}

// checkDirectory checks that a zip file ends with its directory, and that this is not too large to
// be read.
func checkDirectory(data []byte) error {
	at := len(data) - directoryEnd
	if at < 0 || string(data[at:at+4]) != "PK\x05\x06" || string(data[at+20:]) != "\x00\x00" {
		return errors.New("is not a zip file, or is truncated")
	}
	size, offset := int64(binary.LittleEndian.Uint32(data[at+12:])), int64(binary.LittleEndian.Uint32(data[at+16:]))
	if offset+size != int64(at) {
		return fmt.Errorf("is not a plain zip file: its directory of %d bytes at byte %d does not end at byte %d", size, offset, at)
	}
	if size > MaxIndexBytes {
		return fmt.Errorf("has a directory of %d bytes, at most %d are read", size, MaxIndexBytes)
	}
	return nil
}

func (a *archive) path(name string) string { return a.name + ": " + name }

func (a *archive) read(name string, n int64) ([]byte, error) {
	f := a.entries[name]
	if f == nil {
		return nil, fmt.Errorf("%s has no entry %s", a.name, name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.path(name), err)
	}
	defer r.Close()
	return readfile.Whole(a.path(name)+", unpacked,", r, n)
}

func (a *archive) unlisted(listed map[string]bool) string {
	for _, name := range a.order {
		if !listed[name] {
			return name
		}
	}
	return ""
}
