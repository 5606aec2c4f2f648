package prove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokitai/proofs"
)

// Errors of [Check].
var (
	// ErrNoProver means that Coq or a library that the proofs need is missing or too old.
	ErrNoProver = errors.New("no prover")
	// ErrOutOfTime means that the prover was stopped before it answered.
	ErrOutOfTime = errors.New("the prover is out of time")
	// ErrNotProved means that the prover rejects the script.
	ErrNotProved = errors.New("not proved")
)

// The versions of Coq that check the files are 8.16 to 8.20. Later ones
// have other names for the library and its axioms.
const coqMajor, leastCoq, lastCoq = 8, 16, 20

var coqVersion = regexp.MustCompile(`^(\d+)\.(\d+)`)

// FindProver returns the version of Coq on this machine, or an error that is [ErrNoProver].
func FindProver(ctx context.Context) (string, error) {
	path, err := exec.LookPath("coqc")
	if err != nil {
		return "", fmt.Errorf("%w: there is no coqc: install Coq with Flocq and Interval (on Debian: coq, libcoq-flocq, libcoq-interval)", ErrNoProver)
	}
	out, err := exec.CommandContext(ctx, path, "--print-version").Output()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", ErrOutOfTime
	case err != nil:
		return "", fmt.Errorf("%w: coqc --print-version: %w", ErrNoProver, err)
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	m := coqVersion.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("%w: coqc says that its version is %q", ErrNoProver, version)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major != coqMajor || minor < leastCoq || minor > lastCoq {
		return "", fmt.Errorf("%w: coqc is %s, want %d.%d to %d.%d", ErrNoProver, version, coqMajor, leastCoq, coqMajor, lastCoq)
	}
	return version, nil
}

// Check proves the scripts of functions, by name, one after another, each after those that it
// imports, and calls report before each. It returns an error that is [ErrNoProver],
// [ErrOutOfTime] or [ErrNotProved], or that of the machine.
func Check(ctx context.Context, names, scripts []string, report func(name string, done, total int)) error {
	folder, err := os.MkdirTemp("", "tokitai-prove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	return checkIn(ctx, folder, names, scripts, report)
}

// checkIn is Check in a folder. What it holds already, with the same text and after the same
// files, is not proved again.
func checkIn(ctx context.Context, folder string, names, scripts []string, report func(name string, done, total int)) error {
	names, scripts, err := withNeeds(names, scripts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "functions"), 0o755); err != nil {
		return err
	}
	isKept := true
	for i, name := range names {
		report(name, i, len(names))
		path := filepath.Join("functions", name+".v")
		old, _ := os.ReadFile(filepath.Join(folder, path))
		_, err := os.Stat(filepath.Join(folder, path+"o"))
		if isKept = isKept && err == nil && string(old) == scripts[i]; isKept {
			continue
		}
		os.Remove(filepath.Join(folder, path+"o"))
		if err := os.WriteFile(filepath.Join(folder, path), []byte(scripts[i]), 0o644); err != nil {
			return err
		}
		c := exec.CommandContext(ctx, "coqc", "-q", "-w", "-deprecated", "-Q", ".", "Tokitai", path)
		c.Dir = folder
		out, err := c.CombinedOutput()
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("%s: %w", name, ErrOutOfTime)
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		case strings.Contains(string(out), "Cannot find a physical path"), strings.Contains(string(out), "Unable to locate library"):
			return fmt.Errorf("%w: Coq has not all libraries: install Flocq and Interval (on Debian: libcoq-flocq, libcoq-interval): %s", ErrNoProver, lastLines(out, 3))
		default:
			return fmt.Errorf("%s: %w: %s", name, ErrNotProved, lastLines(out, 6))
		}
	}
	return nil
}

// withNeeds puts before each script those that it imports, and the lemmas before them all.
func withNeeds(names, scripts []string) (allNames, allScripts []string, err error) {
	allNames, allScripts = []string{"Binary32", "Patterns"}, []string{proofs.Binary32, proofs.Patterns}
	for i, name := range names {
		s, _ := StatusOf(name)
		for _, f := range s.needs {
			if slices.Contains(allNames, f.Name) {
				continue
			}
			script, err := Script(f)
			if err != nil {
				return nil, nil, err
			}
			allNames, allScripts = append(allNames, f.Name), append(allScripts, script)
		}
		if !slices.Contains(allNames, name) {
			allNames, allScripts = append(allNames, name), append(allScripts, scripts[i])
		}
	}
	return allNames, allScripts, nil
}

func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " ")
}
