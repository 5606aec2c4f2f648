package leftover

import (
	"errors"
	"os"
	"slices"
	"testing"

	"tokitai/internal/alone"
)

// TestRemove: what is registered is removed, the latest first, and nothing else. It is
// one test in a process of its own: after Remove the package is done.
func TestRemove(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	var removed []int
	note := func(i int) func() { return func() { removed = append(removed, i) } }
	Add(note(1))
	forget := Add(note(2))
	Add(note(3))
	forget()
	forget()
	failure := errors.New("not made")
	if _, err := Make(func() (func(), error) { return note(4), failure }); err != failure {
		t.Errorf("got %v, want the failure of what was to be made", err)
	}
	if _, err := Make(func() (func(), error) { return note(5), nil }); err != nil {
		t.Error(err)
	}
	if err := Whole(func() error { return failure }); err != failure {
		t.Errorf("got %v, want the failure of the step", err)
	}
	kept, _, err := Folder(t.TempDir(), "kept-*")
	if err != nil {
		t.Fatal(err)
	}
	gone, remove, err := Folder(t.TempDir(), "gone-*")
	if err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
	Remove()
	if want := []int{5, 3, 1}; !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
	began := make(chan struct{})
	go Whole(func() error { close(began); return nil })
	select {
	case <-began:
		t.Error("a step begins after Remove")
	default:
	}
}
