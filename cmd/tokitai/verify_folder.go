package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tokitai/evidence"
	"tokitai/internal/leftover"
	"tokitai/verify"
)

// journalFile is the file that lists finished cases during a run: in the folder of --out, or
// beside the archive, after its name and a dot.
const journalFile = "journal.jsonl"

func (f *judgeFlags) journalPath() string {
	if evidence.IsArchive(f.out) {
		return f.out + "." + journalFile
	}
	return filepath.Join(f.out, journalFile)
}

// reportsPath returns the file to open first of the reports in a folder or archive.
func reportsPath(out string) string {
	if evidence.IsArchive(out) {
		return out
	}
	return strings.TrimRight(out, "/") + "/index.md"
}

// openJournal creates the journal of --out, or continues it with --resume. A single case
// has none.
func (f *judgeFlags) openJournal(notes io.Writer) (*verify.Journal, error) {
	if f.out == "" || f.only != "" {
		return nil, nil
	}
	path := f.journalPath()
	if _, err := os.Stat(path); f.resume && err != nil {
		fmt.Fprintf(notes, "there is no %s to resume from: starting from the beginning\n", path)
	}
	return verify.OpenJournal(path, f.resume)
}

// reportResumed prints how much of the journal --resume could use.
func (f *judgeFlags) reportResumed(j *verify.Journal, notes io.Writer) {
	path := f.journalPath()
	switch {
	case !f.resume || j.Known() == 0:
	case j.Taken() == 0:
		fmt.Fprintf(notes, "nothing in %s could be used: it belongs to other lowerings or parameters, or another seed, level or program\n", path)
	default:
		fmt.Fprintf(notes, "%s resumed from %s\n", counted(j.Taken(), "case"), path)
	}
}

// write writes the reports to the folder or archive of --out and notes other reports in the
// folder. It removes the journal once the run is complete.
func (f *judgeFlags) write(v *verification, notes io.Writer) error {
	if f.out == "" {
		return nil
	}
	if err := evidence.Write(f.out, v.reports()); err != nil {
		return err
	}
	if !evidence.IsArchive(f.out) {
		others, err := otherReports(f.out)
		if err != nil {
			return err
		}
		if others > 0 {
			fmt.Fprintf(notes, "%s in %s: not from this run, and not in its index\n", counted(others, "other file"), f.out)
		}
	}
	if v.isInterrupted || f.only != "" {
		return nil
	}
	if err := os.Remove(f.journalPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// otherReports counts the files in a folder that look like reports but are not in its
// index.
func otherReports(dir string) (n int, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return 0, err
	}
	var index evidence.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, "index.json"), err)
	}
	known := map[string]bool{"index.json": true, "index.md": true}
	for _, r := range index.Reports {
		known[r.JSON], known[r.Markdown] = true, true
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ending := filepath.Ext(e.Name()); (ending == ".json" || ending == ".md") && !known[e.Name()] {
			n++
		}
	}
	return n, err
}

// prepareReports checks that reports can be written to a folder or archive, before anything is
// computed. undo removes the folders that it created, if they are empty.
func prepareReports(out string) (undo func(), err error) {
	if !evidence.IsArchive(out) {
		return prepareFolder(out)
	}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return nil, wrongUse("%s is not a regular file: reports are written to a folder, or to an archive NAME.zip", out)
	}
	return prepareFolder(filepath.Dir(out))
}

// prepareFolder creates a folder and checks that files can be created in it, before
// anything is computed. undo removes the folders that it created, if they are empty.
func prepareFolder(dir string) (undo func(), err error) {
	var made []string // innermost first
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, path)
	}
	remove := func() {
		for _, path := range made {
			os.Remove(path) // fails if it is not empty
		}
	}
	forget := leftover.Add(remove)
	undo = func() {
		remove()
		forget()
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		undo()
		return nil, err
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// programSHA256 returns the SHA-256 of the running program's file. It is computed once: that takes as long
// as to judge a small case.
var programSHA256 = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's file: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading this program's file: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("reading this program's file: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
})
