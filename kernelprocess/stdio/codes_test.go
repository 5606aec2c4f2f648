package stdio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// Every code of every kernel. What comes first in the order of the checks wins.
func TestCodes(t *testing.T) {
	const limit = 1 << 20 // bytes of operands
	for _, row := range []struct {
		kernel string
		text   string
		code   int
		reason string // a part of it
	}{
		{"embedding", "", 2, "Q is missing"},
		{"embedding", " \n\t\v\f\r", 2, "Q is missing"},
		{"embedding", "1 1 1", 2, "OP is missing"},
		{"embedding", "1 1 x 0 0 0", 2, `V is "x"`},
		{"embedding", "0 1 1 -", 2, `OP is "-"`},
		{"embedding", "1 1 1 9223372036854775808 0 0", 2, "64 bits"},
		{"embedding", "1 1 1 9223372036854775807 0 0", 4, "OP"},
		{"embedding", "1 1 1 -9223372036854775808 0 0", 4, "OP"},
		{"embedding", "+1 1 1 0 0 0", 2, `"+1"`},
		{"embedding", "1.0 1 1 0 0 0", 2, `"1.0"`},
		{"embedding", "0x1 1 1 0 0 0", 2, `"0x1"`},
		{"embedding", "1_0 1 1 0 0 0", 2, `"1_0"`},
		{"embedding", "0 1 1 0", 3, "Q is 0"},
		{"embedding", "1 -0 1 0", 3, "D is 0"},
		{"embedding", "1 1 -5 9", 3, "V is -5"},
		{"embedding", "1 1 2147483648 9", 3, "V is 2147483648"},
		{"embedding", "2147483647 2147483647 2147483647 9", 3, "bytes"},
		{"embedding", "1 1048576 1 9", 3, "bytes"},
		{"embedding", "1 1 1 2 0 0", 4, "OP is 2"},
		{"embedding", "1 1 1 -1 0 0", 4, "OP is -1"},
		{"embedding", "2 1 3 0 0", 5, "index[1] is missing"},
		{"embedding", "2 1 3 0 0 3 1 2 3", 5, "index[1]"},
		{"embedding", "2 1 3 0 -1 0 1 2 3", 5, "index[0]"},
		{"embedding", "2 1 3 1 4294967296 0 1 2", 5, "index[0]"},
		{"embedding", "2 1 3 0 0 2 1 2", 6, "weight[2] is missing"},
		{"embedding", "2 1 3 0 0 2 1 2 65536", 6, "weight[2]"},
		{"embedding", "2 1 3 0 0 2 1 2 3 4", 6, "followed by"},
		{"embedding", "2 1 3 1 0 2 1", 6, "grad_output[1] is missing"},

		{"softmax", "0 1", 2, "C is missing"},
		{"softmax", "a 1 1", 2, "MODE"},
		{"softmax", "2 0 0", 3, "MODE is 2"},
		{"softmax", "-1 1 1 0", 3, "MODE is -1"},
		{"softmax", "0 0 1", 4, "R is 0"},
		{"softmax", "1 1 2147483648", 4, "C is 2147483648"},
		{"softmax", "0 512 1024", 4, "bytes"},
		{"softmax", "0 1 2 7", 5, "input[1] is missing"},
		{"softmax", "0 1 2 7 65536", 5, "input[1]"},
		{"softmax", "0 1 2 7 8 9", 5, "followed by"},
		{"softmax", "0 1 2 7,8", 5, `"7,8"`},
		{"softmax", "1 1 2 7", 6, "grad_output[1] is missing"},
		{"softmax", "1 1 2 7 x 8 9", 6, "grad_output[1]"},
		{"softmax", "1 1 2 7 8 9", 7, "softmax_output[1] is missing"},
		{"softmax", "1 1 2 7 8 9 -0", 7, "softmax_output[1]"},
		{"softmax", "1 1 2 7 8 9 1 \x00", 7, "followed by"},

		{"gemm-bw", "1 1 1", 2, "K is missing"},
		{"gemm-bw", "0 0 0 0", 3, "ID is 0"},
		{"gemm-bw", "3 1 1 1", 3, "ID is 3"},
		{"gemm-bw", "1 1 0 1", 4, "N is 0"},
		{"gemm-bw", "1 1024 1024 1", 4, "bytes"},
		{"gemm-bw", "1 1 2 1 5", 7, "grad_C[1] is missing"},
		{"gemm-bw", "2 1 2 1 5 99999", 7, "grad_C[1]"},
		{"gemm-bw", "1 1 2 1 5 6 7", 8, "B[1] is missing"},
		{"gemm-bw", "1 1 2 1 5 6 7 8 9", 8, "followed by"},
		{"gemm-bw", "2 1 2 1 5 6", 9, "A[0] is missing"},
		{"gemm-bw", "2 1 2 1 5 6 7 8", 9, "followed by"},

		{"gelu-bwd", "", 2, "N is missing"},
		{"gelu-bwd", "-1", 3, "N is -1"},
		{"gelu-bwd", "2147483647", 3, "bytes"},
		{"gelu-bwd", "2 1", 4, "grad_output[1] is missing"},
		{"gelu-bwd", "2 1 2 3", 5, "input[1] is missing"},
		{"gelu-bwd", "2 1 2 3 4 .", 5, "followed by"},

		{"adamw", "", 2, "N is missing"},
		{"adamw", "1 0.1 0.9 0.999 1e-8 0.01", 2, "T is missing"},
		{"adamw", "1 0.1 0.9 0.999 1e-8 1 1.0", 2, `T is "1.0"`},
		{"adamw", "0 nan 0.9 0.999 1e-8 0.01 0", 2, "LR is NaN"},
		{"adamw", "0 inf 0.9 0.999 1e-8 0.01 0", 2, "LR is +Inf"},
		{"adamw", "0 1e400 0.9 0.999 1e-8 0.01 0", 2, "too large"},
		{"adamw", "0 -1 0.9 0.999 1e-8 0.01 0", 2, "LR is -1"},
		{"adamw", "0 0x1p3 0.9 0.999 1e-8 0.01 0", 2, "0x1p3"},
		{"adamw", "0 1_0.5 0.9 0.999 1e-8 0.01 0", 2, "1_0.5"},
		{"adamw", "0 1 1 0.999 1e-8 0.01 0", 2, "BETA1 is 1"},
		{"adamw", "0 1 0.9 1.5 1e-8 0.01 0", 2, "BETA2 is 1.5"},
		{"adamw", "0 1 0.9 0.9 -1e-8 0.01 0", 2, "EPS is -1e-08"},
		{"adamw", "0 1 0.9 0.9 1e-8 -inf 0", 2, "WEIGHT_DECAY is -Inf"},
		{"adamw", "1 1e39 0.9 0.9 1e-8 0.1 1 0 0 0 0", 2, "binary32"},
		{"adamw", "1 1 0.9 0.9 1e39 0.1 1", 2, "binary32"},
		{"adamw", "0 1 0.9 0.9 1e-8 0.1 0", 3, "N is 0"},
		{"adamw", "1000000 1 0.9 0.9 1e-8 0.1 0", 3, "bytes"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 0 x", 4, "T is 0"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 2147483648 x", 4, "T is 2147483648"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1", 5, "theta[0] is missing"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0.5 0 0 0", 5, "theta[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0", 6, "m[0] is missing"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 1e39 0 0", 6, "too large"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 340282356779733661637539395458142568448 0 0", 6, "too large"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0x0 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 +inf 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 infinity 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 NaN 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 1e 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 . 0 0", 6, "m[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0 --1 0", 7, "v[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0", 7, "v[0] is missing"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0 0", 8, "grad[0] is missing"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0 0 70000", 8, "grad[0]"},
		{"adamw", "1 1 0.9 0.9 1e-8 0.1 1 0 0 0 0 0", 8, "followed by"},
		{"adamw", "+1 1 0.9 0.9 1e-8 0.1 1 0 0 0 0", 2, `"+1"`},
		{"adamw", ".5 1 0.9 0.9 1e-8 0.1 1 0 0 0 0", 2, `".5"`},

		{"layernorm", "", 2, "OP is missing"},
		{"layernorm", "1 1 1 32", 2, "EPS is missing"},
		{"layernorm", "7 1 1 x 0", 2, `BLOCK is "x"`},
		{"layernorm", "7 1 1 0 nan", 2, "EPS is NaN"},
		{"layernorm", "7 1 1 0 inf", 2, "EPS is +Inf"},
		{"layernorm", "7 1 1 0 -1e-5", 2, "EPS is -1e-05"},
		{"layernorm", "1 1 1 32 0x1", 2, "EPS"},
		{"layernorm", "2 1 1 32 0", 2, "GRAD_BLOCK is missing"},
		{"layernorm", "2 0 1 32 0 1.5", 2, `GRAD_BLOCK is "1.5"`},
		{"layernorm", "1 1 1 32 1e39 0 0 0", 2, "binary32"},
		{"layernorm", "2 1 1 32 1e39 32 0 0 0 0 0 0 0 0", 2, "binary32"},
		{"layernorm", "0 0 0 0 0", 3, "OP is 0, want 1 to 2"},
		{"layernorm", "3 1 1 32 0 32", 3, "OP is 3"},
		{"layernorm", "1 0 1 33 0", 4, "R is 0"},
		{"layernorm", "1 1 -1 33 0", 4, "C is -1"},
		{"layernorm", "1 1 2147483648 33 0", 4, "C is 2147483648"},
		{"layernorm", "1 1024 1024 33 0", 4, "bytes"},
		{"layernorm", "2 2147483647 2147483647 33 0 32", 4, "bytes"},
		{"layernorm", "1 1 1 0 0", 4, "BLOCK is 0, want at least 1"},
		{"layernorm", "2 1 1 33 0 -32", 4, "GRAD_BLOCK is -32"},
		{"layernorm", "1 1 1 33 0", 5, "BLOCK is 33, want a multiple of 32 from 32 to 1024"},
		{"layernorm", "1 1 1 31 0", 5, "BLOCK is 31"},
		{"layernorm", "1 1 1 1056 0", 5, "BLOCK is 1056"},
		{"layernorm", "1 1 1 9223372036854775807 0", 5, "BLOCK is 9223372036854775807"},
		{"layernorm", "2 1 1 40 0 33", 5, "BLOCK is 40"},
		{"layernorm", "2 1 1 32 0 33", 15, "GRAD_BLOCK is 33"},
		{"layernorm", "2 1 1 1024 0 2048", 15, "GRAD_BLOCK is 2048"},
		{"layernorm", "1 1 2 32 0 7", 6, "gamma[1] is missing"},
		{"layernorm", "2 1 2 32 0 32 7 65536", 6, "gamma[1]"},
		{"layernorm", "1 1 2 32 0 7 8 9", 7, "beta[1] is missing"},
		{"layernorm", "2 1 2 32 0 32 7 8 x 9", 7, "beta[0]"},
		{"layernorm", "1 1 2 32 0 1 2 3 4 5", 8, "input[1] is missing"},
		{"layernorm", "1 1 2 32 0 1 2 3 4 5 -6", 8, "input[1]"},
		{"layernorm", "1 1 2 32 0 1 2 3 4 5 6 7", 8, "followed by"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5", 9, "grad_output[1] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7", 16, "input[1] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8", 11, "mean_u16[0] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 0.5 1 0 0", 11, "mean_u16[0]"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1", 12, "rstd_u16[0] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1 1", 13, "mean[0] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1 1 1e39 1", 13, "too large"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1 1 0", 14, "rstd[0] is missing"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1 1 0 x", 14, "rstd[0]"},
		{"layernorm", "2 1 2 32 0 32 1 2 3 4 5 6 7 8 1 1 0 1 0", 14, "followed by"},

		{"gemm", "1 1 1e0", 2, "K"},
		{"gemm", "1 1 0", 3, "K is 0"},
		{"gemm", "2147483647 2147483647 2147483647", 3, "bytes"},
		{"gemm", "512 512 1", 3, "bytes"}, // the result is f32
		{"gemm", "1 1 2 1", 4, "A[1] is missing"},
		{"gemm", "1 1 2 1 2 3", 5, "B[1] is missing"},
		{"gemm", "1 1 2 1 2 3 4 5", 5, "followed by"},

		{"gelu", "one", 2, "N"},
		{"gelu", "0", 3, "N is 0"},
		{"gelu", "1000000", 3, "bytes"},
		{"gelu", "2 1", 4, "input[1] is missing"},
		{"gelu", "2 1 65536", 4, "input[1]"},
		{"gelu", "2 1 99999999999999999999999999999", 4, "input[1]"},
		{"gelu", "2 1 +1", 4, "input[1]"},
		{"gelu", "2 1 2\xc2\xa0", 4, "input[1]"}, // no white space of ASCII
		{"gelu", "1 " + strings.Repeat("0", maxToken+1), 4, "longer"},
	} {
		p := newProcess(t, row.kernel, Options{MemoryLimit: limit})
		var once, framed bytes.Buffer
		err := p.RunOnce(strings.NewReader(row.text), &once)
		if codeOf(err) != row.code || !strings.Contains(err.Error(), row.reason) || once.Len() > 0 {
			t.Errorf("%s %.60q: %v and %q, want code %d about %q and nothing on standard output", row.kernel, row.text, err, &once, row.code, row.reason)
			continue
		}
		if want := fmt.Sprintf("ERR %d ", row.code); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s %.60q: %v, want %s", row.kernel, row.text, err, want)
		}
		if row.text == "" {
			continue
		}
		if served := p.Serve(bytes.NewReader(frame(row.text)), &framed); served != nil || framed.String() != string(frame(err.Error()+"\n")) {
			t.Errorf("%s %.60q: served %q and ended with %v, want %q", row.kernel, row.text, &framed, served, err)
		}
	}
}

// Requests just within the limits are computed.
func TestAccepted(t *testing.T) {
	for _, row := range []struct {
		kernel, text string
		last         string // line
	}{
		{"embedding", "1 1 1 0\n0\n65535", "OUTPUT=65535"},
		{"embedding", "1 1 2147 1\n2146\n1", "OUTPUT=" + strings.Repeat("0 ", 2146) + "1"},
		{"softmax", "\v\f0 1 1\r000000000000007", "OUTPUT=15360"},
		{"gelu", "1 0\n\n", "RESULTS=0"},
		{"layernorm", "1 1 1 1024 1 0 0 0", "RSTD=1"},
		{"layernorm", "2 1 1 32 0 1024 0 0 15360 0 0 0 -inf nan", "GRAD_BETA=15360"},
		{"gelu", "00001 0", "RESULTS=0"},
		{"gemm", "1 1 1 15360 15360", "RESULTS=1"},
		{"gemm", "1 1 1 31744 0", "RESULTS="},
		{"adamw", "1 -0 0 0 .5 0e5 2147483647 0 -nan -inf 0", "V="},
		{"adamw", "1 0 0.5 0.5 1 0 1 0 1e-46 1e-45 0", "V=0"}, // the half of the least subnormal, to even
		{"adamw", "1 0 0.5 0.5 1 0 1 0 1e-46 2.9e-45 0", "V=1.40129846e-45"},
		{"adamw", "1 0 0.5 0.5 1 0 1 0 -1.e+2 340282346638528859811704183484516925440 0", "V=1.70141173e+38"},
	} {
		var out bytes.Buffer
		err := newProcess(t, row.kernel, Options{}).RunOnce(strings.NewReader(row.text), &out)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; err != nil || !strings.HasPrefix(last, row.last) {
			t.Errorf("%s %q: %v, %q, want %q", row.kernel, row.text, err, last, row.last)
		}
	}
}

// binaryRequest is one of adamw with two elements.
func binaryRequest(change func(b []byte) []byte) string {
	b := []byte("ADAW")
	b = binary.LittleEndian.AppendUint32(b, 2)
	for _, h := range []float32{0.1, 0.9, 0.999, 1e-8, 0.01} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(h))
	}
	b = append(b, 1, 0, 0, 0, 9, 9, 9, 9)
	b = append(b, make([]byte, 24)...)
	return string(change(b))
}

func TestBinaryErrors(t *testing.T) {
	u32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	nan := math.Float32bits(float32(math.NaN()))
	for _, row := range []struct {
		name   string
		change func([]byte) []byte
		code   int
		want   string
	}{
		{"one byte", cut(1), 30, "ERR binary request too short\n"},
		{"magic alone", cut(4), 30, "ERR binary request too short\n"},
		{"a byte short of a header", cut(35), 30, "ERR binary request too short\n"},
		{"other magic", u32(0, 0x57414442), 31, "ERR bad binary magic\n"},
		{"n 0", u32(4, 0), 32, "ERR n out of range\n"},
		{"n beyond", u32(4, 1<<28+1), 32, "ERR n out of range\n"},
		{"n over the memory limit", u32(4, 1<<28), 32, "ERR n out of range\n"},
		{"t 0", u32(28, 0), 33, "ERR t must be positive\n"},
		{"t negative", u32(28, 1<<31), 33, "ERR t must be positive\n"},
		{"no body", cut(36), 34, "ERR payload body truncated\n"},
		{"a byte short", cut(59), 34, "ERR payload body truncated\n"},
		{"a byte more", func(b []byte) []byte { return append(b, ' ') }, 34, "ERR payload body too long\n"},
		{"lr NaN", u32(8, nan), 2, "ERR 2 LR is NaN, "},
		{"beta1 1", u32(12, math.Float32bits(1)), 2, "ERR 2 BETA1 is 1, "},
		{"decay negative", u32(24, math.Float32bits(-1)), 2, "ERR 2 WEIGHT_DECAY is -1, "},
		{"lr too large", u32(8, math.Float32bits(math.MaxFloat32)), 2, "ERR 2 LR is "},
	} {
		request := binaryRequest(row.change)
		p := newProcess(t, "adamw", Options{MemoryLimit: 1 << 20})
		var once, framed bytes.Buffer
		err := p.RunOnce(strings.NewReader(request), &once)
		if codeOf(err) != row.code || once.String() != err.Error()+"\n" || !strings.HasPrefix(once.String(), row.want) {
			t.Errorf("%s: %v and %q, want code %d, and %q on both", row.name, err, &once, row.code, row.want)
		}
		if err := p.Serve(strings.NewReader(string(frame(request))), &framed); err != nil || framed.String() != string(frame(once.String())) {
			t.Errorf("%s: served %q and ended with %v", row.name, &framed, err)
		}
	}
	for n, code := range map[uint32]int{1 << 28: 34, 1<<28 + 1: 32} {
		if _, err := ParseRequest("adamw", strings.NewReader(binaryRequest(u32(4, n))), math.MaxInt64); codeOf(err) != code {
			t.Errorf("n %d: %v, want code %d", n, err, code)
		}
	}
	var out bytes.Buffer
	if err := newProcess(t, "adamw", Options{}).RunOnce(strings.NewReader(binaryRequest(cut(60))), &out); err != nil || out.Len() != 16+20 {
		t.Errorf("a good one: %v, %d bytes", err, out.Len())
	}
}

// Sizes whose bytes no int64 can count are too large for any limit.
func TestSizesOverflow(t *testing.T) {
	for _, text := range []string{"2147483647 2147483647 3", "2147483647 2147483647 2147483647"} {
		if _, err := ParseRequest("gemm", strings.NewReader(text), 1<<40); codeOf(err) != 3 {
			t.Errorf("%s: %v, want code 3", text, err)
		}
	}
}

func TestUnknownKernel(t *testing.T) {
	p := newProcess(t, "gelu", Options{})
	if _, err := NewProcess("geluu", p.queue, Options{}); codeOf(err) != CodeUsage {
		t.Errorf("geluu: %v", err)
	}
	if _, err := NewProcess("gelu", nil, Options{}); codeOf(err) != CodeInternal {
		t.Errorf("no queue: %v", err)
	}
}
