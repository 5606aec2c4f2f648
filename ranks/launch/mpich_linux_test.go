package launch

import (
	"os"
	"testing"
)

// TestIsFilled: a pipe is filled at the end that writes until somebody reads.
func TestIsFilled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(w.Fd())
	if isFilled(fd) {
		t.Error("a new pipe is filled")
	}
	if _, err := w.WriteString("message"); err != nil {
		t.Fatal(err)
	}
	if !isFilled(fd) {
		t.Error("a pipe with a message is not filled")
	}
	if _, err := r.Read(make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if isFilled(fd) {
		t.Error("a pipe is filled after it was read")
	}
}
