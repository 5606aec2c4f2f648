package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tokitai/internal/leftover"
)

// FileName returns the name of the report's files without the suffix: definition,
// lowering and dtype. The report of a single case has another name, so that it does not
// replace a full report.
func (r *Report) FileName() string {
	name := r.Lowering + "_" + r.DType
	if r.Level == levelCase {
		name += "_case"
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '/':
			return '_'
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
			return c
		}
		return '-'
	}, name)
}

// The files of an index.
const (
	indexFile = "index.json"
	indexPage = "index.md"
)

// Write checks the reports and writes each to a folder as JSON and as Markdown, and then
// index.json and index.md. All reports must be of one run: the same tool, version and
// host. Several reports of level call may have the same lowering and dtype; those after
// the first get -2, -3 and so on in their names. Files of the same names are replaced,
// others are kept.
//
// If path ends in .zip, the files are written as one archive, which replaces an earlier one,
// and the reports are compact: see [Report.Compact].
//
// After an error the folder is unchanged: all files are written and synced in a temporary
// folder inside it, and only then moved into place, the index last. An interrupted program
// leaves either all of the reports or none.
func Write(path string, reports []*Report) error {
	if IsArchive(path) {
		return writeArchive(path, reports)
	}
	return write(disk{}, path, reports)
}

// indexOf returns the index of the reports of one run, given the name and the SHA-256 of
// each JSON file.
func indexOf(reports []*Report, names, sha256 []string) *Index {
	first := reports[0]
	x := &Index{Schema: IndexSchemaID, Tool: first.Tool, Version: first.Version, Host: first.Host}
	for i, r := range reports {
		if r.Time.After(x.Time) {
			x.Time = r.Time
		}
		switch r.Verdict {
		case Accepted:
			x.Counts.Accepted++
		case Rejected:
			x.Counts.Rejected++
		case Inadmissible:
			x.Counts.Inadmissible++
		case Interrupted:
			x.Counts.Interrupted++
		case Undecided:
			x.Counts.Undecided++
		case Unfinished:
			x.Counts.Unfinished++
		case Skipped:
			x.Counts.Skipped++
		}
		x.Totals.Reports++
		x.Totals.Cases += r.Cases
		x.Totals.Elements += r.Elements
		x.Totals.Mismatches += r.Mismatches
		x.Totals.Seconds += r.Seconds
		x.Reports = append(x.Reports, IndexEntry{
			Op: r.Op, Lowering: r.Lowering, DType: r.DType, Device: r.Device, Level: r.Level, Contract: r.Contract,
			Cases: r.Cases, Elements: r.Elements, Mismatches: r.Mismatches, Verdict: r.Verdict, Reason: r.Reason,
			JSON: names[i] + ".json", Markdown: names[i] + ".md", SHA256: sha256[i],
		})
	}
	return x
}

// document is a file to write.
type document struct {
	name string
	data []byte
}

// documents returns the files to write, in order.
func documents(reports []*Report) ([]document, error) {
	if len(reports) == 0 {
		return nil, errors.New("evidence: no reports to write")
	}
	var docs []document
	var names, hashes []string
	taken := map[string]string{"index": "the index"} // by lower-case name, as some file systems ignore case
	for _, r := range reports {
		if err := r.Check(); err != nil {
			return nil, err
		}
		if first := reports[0]; r.Tool != first.Tool || r.Version != first.Version || r.Host != first.Host {
			return nil, fmt.Errorf("evidence: the reports of %s and %s differ in tool, version or host", r.Lowering, first.Lowering)
		}
		name, subject := r.FileName(), fmt.Sprintf("%s in %s on %s", r.Lowering, r.DType, r.Device)
		for n := 2; r.Level == levelCall && taken[strings.ToLower(name)] != ""; n++ {
			name = fmt.Sprintf("%s-%d", r.FileName(), n)
		}
		if other, ok := taken[strings.ToLower(name)]; ok {
			return nil, fmt.Errorf("evidence: the files of %s and of %s have the same name %s", other, subject, name)
		}
		taken[strings.ToLower(name)] = subject
		data, err := r.JSON()
		if err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", name, err)
		}
		names, hashes = append(names, name), append(hashes, FingerprintOf(data))
		docs = append(docs, document{name + ".json", data}, document{name + ".md", []byte(r.Printable().markdown(name + ".json"))})
	}
	index := indexOf(reports, names, hashes)
	data, err := index.JSON()
	if err != nil {
		return nil, fmt.Errorf("evidence: index.json: %w", err)
	}
	return append(docs, document{indexPage, []byte(index.Markdown())}, document{indexFile, data}), nil
}

// files is the part of a file system that write uses; tests make each step fail.
type files interface {
	Mkdir(path string) error
	MkdirTemp(dir, pattern string) (string, error)
	Create(path string) (file, error)
	Rename(from, to string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type disk struct{}

func (disk) Mkdir(path string) error                       { return os.Mkdir(path, 0o777) }
func (disk) MkdirTemp(dir, pattern string) (string, error) { return os.MkdirTemp(dir, pattern) }
func (disk) Create(path string) (file, error)              { return os.Create(path) }
func (disk) Rename(from, to string) error                  { return os.Rename(from, to) }

func write(system files, dir string, reports []*Report) (err error) {
	docs, err := documents(reports)
	if err != nil {
		return err
	}
	var undo []func() error // called in reverse order after an error
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()

	missing, err := missingFolders(dir)
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	for _, folder := range missing {
		if err := system.Mkdir(folder); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		undo = append(undo, func() error { return os.Remove(folder) })
	}
	var staging string
	forget, err := leftover.Make(func() (remove func(), err error) {
		staging, err = system.MkdirTemp(dir, ".unfinished-*")
		return func() { os.RemoveAll(staging) }, err
	})
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	defer forget()
	undo = append(undo, func() error { return os.RemoveAll(staging) })

	for _, d := range docs {
		// Each file is one step: an interrupt removes the folder when none is being written.
		err := leftover.Whole(func() error { return writeFile(system, filepath.Join(staging, d.name), d.data) })
		if err != nil {
			return fmt.Errorf("evidence: %s was not written: %w", filepath.Join(dir, d.name), err)
		}
	}
	// The moves are one step: an interrupt leaves all of the reports in place, or none.
	err = leftover.Whole(func() error {
		for _, d := range docs {
			target := filepath.Join(dir, d.name)
			former, err := setAside(system, target, staging)
			if err == nil && former != "" {
				undo = append(undo, func() error { return os.Rename(former, target) })
			}
			if err == nil {
				err = system.Rename(filepath.Join(staging, d.name), target)
			}
			if err != nil {
				return fmt.Errorf("evidence: %s was not written: %w", target, err)
			}
			undo = append(undo, func() error { return os.Remove(target) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The reports are in place. Only the files that they replaced are left in staging.
	undo = nil
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("evidence: the reports are written, but the replaced ones remain in %s: %w", staging, err)
	}
	return nil
}

// missingFolders returns the folders on the path to dir that do not exist, outermost
// first.
func missingFolders(dir string) ([]string, error) {
	var missing []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && info.IsDir():
			return missing, nil
		case err == nil:
			return nil, fmt.Errorf("%s is a file, want a folder", at)
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return nil, err
		}
		missing = append([]string{at}, missing...)
	}
}

// setAside moves a file that is about to be replaced to staging and returns its new path,
// or "" if there is no such file.
func setAside(system files, target, staging string) (string, error) {
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("not a regular file: %s", info.Mode())
	}
	former := filepath.Join(staging, filepath.Base(target)+".former")
	return former, system.Rename(target, former)
}

// writeFile writes a file and waits until it is on disk.
func writeFile(system files, path string, data []byte) error {
	f, err := system.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}
