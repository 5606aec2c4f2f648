package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
)

const ringText = `tokitai-def 1
contraction residues
  in    A[M,K] i64
  in    B[K,N] as A
  out   C[M,N] i64
  C[m,n] <- sum over k of A[m,k] * B[k,n] in Z/7^3, from 0 to 7^3-1
`

// TestRingText: the text of a sum in a ring is read and written back the same, and names the ring.
func TestRingText(t *testing.T) {
	d, err := def.Parse(ringText)
	if err != nil {
		t.Fatal(err)
	}
	if want := (def.Ring{P: 7, K: 3}); d.Ring() != want {
		t.Errorf("got ring %v, want %v", d.Ring(), want)
	}
	if got := d.Text(); got != ringText {
		t.Errorf("got\n%s\nwant\n%s", got, ringText)
	}
	for _, x := range []struct{ old, new, want string }{
		{"7^3", "5^2", ""}, // in both places
		{"Z/7^3", "Z/4^3", "Z/4^3: p = 4 is not a prime"},
		{"Z/7^3", "Z/0^3", "Z/0^3"},
		{"Z/7^3", "Z/3^60", "Z/3^60: 3^60 is too large"},
		{"A[M,K] i64", "A[M,K] f32", "may be stored"},
		{"7^3-1", "7^2-1", "unexpected"},
		{"A[m,k] * B[k,n]", "B[k,n] * A[m,k]", "unexpected"},
	} {
		_, err := def.Parse(strings.ReplaceAll(ringText, x.old, x.new))
		if isRefused := err != nil; isRefused != (x.want != "") || isRefused && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s for %s: got %v, want %q", x.new, x.old, err, x.want)
		}
	}
}
