package prove

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tokitai/def"
	"tokitai/fn"
)

var update = flag.Bool("update", false, "write proofs/functions")

// TestScripts: the files in proofs/functions are those that the functions give.
func TestScripts(t *testing.T) {
	want := map[string]bool{"Binary32.v": true, "Patterns.v": true}
	for _, s := range proved {
		script, err := Script(s.Function)
		if err != nil {
			t.Fatal(err)
		}
		name := s.Function.Name + ".v"
		want[name] = true
		path := filepath.Join("../proofs/functions", name)
		if *update {
			if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != script {
			t.Errorf("%s is not what the function gives (%v); -update writes it", path, err)
		}
		if !strings.Contains(script, Hash(s.Function)) {
			t.Errorf("the script of %s does not name its hash", s.Function.Name)
		}
	}
	files, err := filepath.Glob("../proofs/functions/*.v")
	if err != nil || len(files) == 0 {
		t.Fatal("no proofs", err)
	}
	for _, file := range files {
		if !want[filepath.Base(file)] {
			t.Errorf("no function gives %s", file)
		}
	}
}

// TestUnknown: no script is made for a function of another shape, or with another name.
func TestUnknown(t *testing.T) {
	for _, f := range []*def.Function{
		{Name: "tanh", Expand: fn.TanhFunction.Expand},
		{Name: "exp", Expand: fn.TanhFunction.Expand},
		{Name: "exp", Expand: func(x def.Value) def.Value { return x.Mul(x) }},
	} {
		if _, err := Script(f); err == nil {
			t.Errorf("a script for %s", f.Text())
		}
	}
}

// TestNoProver: a prover that is missing is an error of its own.
func TestNoProver(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindProver(t.Context()); !errors.Is(err, ErrNoProver) {
		t.Errorf("without coqc: %v", err)
	}
}

// TestVersions: so is one that is too old or too new.
func TestVersions(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	for version, isKnown := range map[string]bool{"8.9.1": false, "8.15.2": false, "8.16.1": true, "8.20.0": true, "8.21.0": false, "9.0.0": false} {
		if err := os.WriteFile(filepath.Join(folder, "coqc"), []byte("#!/bin/sh\necho "+version+" 4.05.0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		switch _, err := FindProver(t.Context()); {
		case isKnown && err != nil:
			t.Errorf("with Coq %s: %v", version, err)
		case !isKnown && (!errors.Is(err, ErrNoProver) || !strings.Contains(err.Error(), version+", want 8.16 to 8.20")):
			t.Errorf("with Coq %s: %v, want 8.16 to 8.20", version, err)
		}
	}
}

// TestOutOfTime: a prover that does not answer is stopped.
func TestOutOfTime(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "coqc"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := Check(ctx, nil, nil, func(string, int, int) {}); !errors.Is(err, ErrOutOfTime) {
		t.Errorf("got %v", err)
	}
}
