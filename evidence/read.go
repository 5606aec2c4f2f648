package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"tokitai/internal/readfile"
)

// Read reads the JSON file of one report. It does not check the report.
func Read(path string) (*Report, error) {
	data, err := readfile.Regular(path, MaxReportBytes)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return decodeReport(path, data)
}

// Decode reads a report from the JSON of its file and checks it. The name is for messages.
func Decode(name string, data []byte) (*Report, error) {
	r, err := decodeReport(name, data)
	if err == nil {
		err = r.Check()
	}
	return r, err
}

func decodeReport(path string, data []byte) (*Report, error) {
	r := new(Report)
	if err := decode(path, data, r); err != nil {
		return nil, err
	}
	return r, nil
}

// source holds the files of a run: a folder or an archive.
type source interface {
	// read returns the content of a file of at most n bytes.
	read(name string, n int64) ([]byte, error)
	// path returns the name of a file for messages.
	path(name string) string
	// unlisted returns the name of a file that must not be there, given those in the index, or "".
	unlisted(listed map[string]bool) string
}

// folder is a folder on disk, which may hold other files.
type folder string

func (d folder) read(name string, n int64) ([]byte, error) { return readfile.Regular(d.path(name), n) }
func (d folder) path(name string) string                   { return filepath.Join(string(d), name) }
func (d folder) unlisted(map[string]bool) string           { return "" }

// open opens a folder, or a file as an archive.
func open(path string) (source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return folder(path), nil
	}
	return openArchive(path)
}

// fileForm is the form of file names in an index and in an archive.
var fileForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// ReadRun reads the index of a run and its reports from the folder or archive that [Write] wrote.
// It checks everything that can be checked without running a case: that every file has the
// SHA-256 in the index, that every report is consistent, and that the index agrees with the
// reports. It reads regular files only, each of a limited size, and of a form that Write gives
// them. An archive must hold nothing else.
func ReadRun(path string) (*Index, []*Report, error) {
	files, err := open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("evidence: %w", err)
	}
	return readRun(files)
}

func readRun(files source) (*Index, []*Report, error) {
	path := files.path(indexFile)
	data, err := files.read(indexFile, MaxIndexBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("evidence: %w", err)
	}
	var x Index
	if err := decode(path, data, &x); err != nil {
		return nil, nil, err
	}
	listed := map[string]bool{indexFile: true, indexPage: true}
	for i, e := range x.Reports {
		if !fileForm.MatchString(e.JSON) {
			return nil, nil, fmt.Errorf("evidence: %s: reports[%d].json is %q, want the name of a file", path, i, e.JSON)
		}
		if listed[e.JSON] {
			return nil, nil, fmt.Errorf("evidence: %s lists %s twice", path, e.JSON)
		}
		listed[e.JSON], listed[e.Markdown] = true, true
	}
	if name := files.unlisted(listed); name != "" {
		return nil, nil, fmt.Errorf("evidence: %s is not in the index", files.path(name))
	}
	var reports []*Report
	var names, hashes []string
	bytes, cases := 0, 0
	for _, e := range x.Reports {
		r, size, err := readListed(files, e)
		if err != nil {
			return nil, nil, err
		}
		bytes, cases = bytes+size, cases+len(r.CaseList)
		if bytes > MaxRunBytes || cases > MaxRunCases {
			return nil, nil, fmt.Errorf("evidence: the reports of %s up to %s have %d bytes and %d cases, at most %d and %d are read", path, e.JSON, bytes, cases, MaxRunBytes, MaxRunCases)
		}
		reports = append(reports, r)
		names, hashes = append(names, strings.TrimSuffix(e.Markdown, ".md")), append(hashes, e.SHA256)
	}
	if len(reports) == 0 {
		return nil, nil, errors.New("evidence: the index lists no reports")
	}
	if want := indexOf(reports, names, hashes); !reflect.DeepEqual(complete(reflect.ValueOf(&x)).Interface(), complete(reflect.ValueOf(want)).Interface()) {
		return nil, nil, fmt.Errorf("evidence: %s does not agree with its reports", path)
	}
	return &x, reports, nil
}

// readListed reads a report of the index and checks it. It also returns its size.
func readListed(files source, e IndexEntry) (*Report, int, error) {
	path := files.path(e.JSON)
	data, err := files.read(e.JSON, MaxReportBytes)
	if err != nil {
		return nil, 0, fmt.Errorf("evidence: %w", err)
	}
	if got := FingerprintOf(data); got != e.SHA256 {
		return nil, 0, fmt.Errorf("evidence: %s has SHA-256 %s, want %s as in the index", path, got, e.SHA256)
	}
	r, err := Decode(path, data)
	if err != nil {
		return nil, 0, err
	}
	return r, len(data), nil
}
