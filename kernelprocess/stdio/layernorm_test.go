package stdio

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// Two requests of layernorm worked out by hand, every line of their responses.
func TestLayernormByHand(t *testing.T) {
	times := regexp.MustCompile(`(DEVICE_NAME|KERNEL_TIME_MS)=.*`)
	for _, row := range []struct{ name, request, response string }{
		// x is 1 and 3: mean 2, variance 1, rstd 1, and y = (-1, 1)*(2, 0.5) + (0, 1).
		{"forward", "1 1 2 256 0\n16384 14336\n0 15360\n15360 16896\n", `OP=forward
DEVICE_NAME
GFX=cpu
N_ROWS=1
N_COLS=2
BLOCK_SIZE=256
GRID_X=1
KERNEL_TIME_MS
OUTPUT=49152,15872
MEAN=2
RSTD=1
`},
		// x is 1, 3, 1 and 3, so that xhat is -1, 1, -1 and 1, and dy 1, 0, 0 and 0; the sum of dy is 1,
		// that of dy*xhat -1, and dx = dy - 1/4 + xhat/4. Column sums begin at +0. mean and rstd as u16 say 0, and do not count.
		{"backward", "2 1 4 32 1e-5 1024\n15360 15360 15360 15360\n0 0 0 0\n15360 0 0 0\n15360 16896 15360 16896\n0\n0\n2\n1\n", `OP=backward
DEVICE_NAME
GFX=cpu
N_ROWS=1
N_COLS=4
BLOCK_SIZE=32
GRID_X=1
GRAD_BLOCK_SIZE=1024
GRAD_GRID_X=4
KERNEL_TIME_MS
GRAD_INPUT=14336,0,47104,0
GRAD_GAMMA=48128,0,0,0
GRAD_BETA=15360,0,0,0
`},
	} {
		var out bytes.Buffer
		err := newProcess(t, "layernorm", Options{}).RunOnce(strings.NewReader(row.request), &out)
		if got := times.ReplaceAllString(out.String(), "$1"); err != nil || got != row.response {
			t.Errorf("%s: %v, got\n%swant\n%s", row.name, err, got, row.response)
		}
	}
}

// BLOCK and GRAD_BLOCK change no result, and neither does what a gradient does not use:
// beta, EPS, and mean and rstd as u16.
func TestLayernormIgnores(t *testing.T) {
	ask := func(request string) string {
		var out bytes.Buffer
		if err := newProcess(t, "layernorm", Options{}).RunOnce(strings.NewReader(request), &out); err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		_, results, _ := strings.Cut(out.String(), "GRAD_INPUT=")
		return results
	}
	want := ask("2 1 2 32 0 32 15360 16384 0 0 15360 16896 15360 20000 0 0 2.5 0.5")
	if got := ask("2 1 2 1024 7 64 15360 16384 31744 32256 15360 16896 15360 20000 15360 32256 2.5 0.5"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ask("2 1 2 32 0 32 15360 16384 0 0 15360 16896 15360 20000 0 0 2.5 0.25"); got == want {
		t.Errorf("the rstd of f32 changed nothing: %q", got)
	}
}
