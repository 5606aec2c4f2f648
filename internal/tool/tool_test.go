package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// spy records how a test would end.
type spy struct {
	testing.TB
	skipped, failed string
}

func (s *spy) Helper() {}
func (s *spy) Skipf(format string, args ...any) {
	s.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (s *spy) Fatalf(format string, args ...any) {
	s.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ends runs f as a test does, in a goroutine of its own.
func ends(f func(t testing.TB)) *spy {
	s, done := &spy{}, make(chan bool)
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s
}

func TestNeed(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Setenv(Variable, "")
	name := "clang"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}

	got := ""
	if s := ends(func(t testing.TB) { got = Need(t, "clang") }); *s != (spy{}) || got != path {
		t.Errorf("clang is at %q (%+v), want %q", got, s, path)
	}
	if s := ends(func(t testing.TB) { got = Need(t, "gcc", "clang") }); *s != (spy{}) || got != path {
		t.Errorf("gcc or clang is at %q (%+v), want %q", got, s, path)
	}
	if s := ends(func(t testing.TB) { Need(t, "coqc") }); s.skipped != "needs coqc: it is not on PATH" {
		t.Errorf("coqc: %+v", s)
	}
	if s := ends(func(t testing.TB) { Need(t, "g++", "clang++") }); s.skipped != "needs g++: neither it nor clang++ is on PATH" {
		t.Errorf("g++: %+v", s)
	}
	if s := ends(func(t testing.TB) { got = fmt.Sprint(Has(t, "coqc"), Has(t, "clang")) }); *s != (spy{}) || got != "false true" {
		t.Errorf("has coqc, clang: %s (%+v)", got, s)
	}

	t.Setenv(Variable, "sim,coqc")
	if s := ends(func(t testing.TB) { Need(t, "coqc") }); s.failed != "TOKITAI_REQUIRE lists coqc: it is not on PATH" {
		t.Errorf("coqc, required: %+v", s)
	}
	if s := ends(func(t testing.TB) { Has(t, "coqc") }); s.failed != "TOKITAI_REQUIRE lists coqc: it is not on PATH" {
		t.Errorf("has coqc, required: %+v", s)
	}
	if s := ends(func(t testing.TB) { Need(t, "gcc") }); s.skipped == "" {
		t.Errorf("gcc, not required: %+v", s)
	}
}
