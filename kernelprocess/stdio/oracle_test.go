package stdio

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/reference"
)

// responseKeys are the lines of a response, in order, as the specification has them, and
// separators what stands between numbers.
var responseKeys = map[string]string{
	"embedding": "DEVICE_NAME GFX OP N_QUERIES EMBEDDING_DIM VOCAB_SIZE GRID_X GRID_Y BLOCK KERNEL_TIME_MS OUTPUT",
	"softmax":   "BACKEND DEVICE_NAME GFX N_ROWS N_COLS GRID BLOCK KERNEL_TIME_MS OUTPUT",
	"gemm-bw":   "DEVICE_NAME GFX KERNEL_ID M N K GRID_X GRID_Y BLOCK_X BLOCK_Y KERNEL_TIME_MS RESULTS",
	"gelu-bwd":  "DEVICE_NAME GFX N GRID BLOCK KERNEL_TIME_MS RESULTS",
	"adamw":     "DEVICE_NAME GFX N GRID BLOCK KERNEL_TIME_MS THETA M V",
	"gemm":      "DEVICE_NAME GFX M N K GRID_X GRID_Y BLOCK_X BLOCK_Y KERNEL_TIME_MS RESULTS",
	"gelu":      "DEVICE_NAME GFX N GRID BLOCK KERNEL_TIME_MS RESULTS",

	"layernorm forward":  "OP DEVICE_NAME GFX N_ROWS N_COLS BLOCK_SIZE GRID_X KERNEL_TIME_MS OUTPUT MEAN RSTD",
	"layernorm backward": "OP DEVICE_NAME GFX N_ROWS N_COLS BLOCK_SIZE GRID_X GRAD_BLOCK_SIZE GRAD_GRID_X KERNEL_TIME_MS GRAD_INPUT GRAD_GAMMA GRAD_BETA",
}

var separators = map[string]string{"embedding": " ", "softmax": ",", "gemm-bw": " ", "gelu-bwd": " ", "adamw": ",", "gemm": " ", "gelu": " ", "layernorm": ","}

// sample is a request with the reference's answer.
type sample struct {
	kernel  string
	text    string
	binary  []byte // adamw
	says    map[string]string
	results []num.Array
}

// sampler makes random samples. It writes requests by itself.
type sampler struct{ *rand.Rand }

func newSampler(seed uint64) sampler { return sampler{rand.New(rand.NewPCG(seed, 1))} }

func (s sampler) size(most int) int { return 1 + s.IntN(most) }

func (s sampler) f16s(rows, cols int) num.Array {
	a := num.NewArray(num.F16, rows, cols)
	isWild := s.IntN(8) == 0
	for r := range rows {
		for c := range cols {
			a.Set(r, c, float32(s.NormFloat64()))
			if isWild {
				a.SetBits(r, c, uint32(s.IntN(1<<16)))
			}
		}
	}
	return a
}

func (s sampler) f32s(n int, isPositive bool) num.Array {
	a := num.NewArray(num.F32, 1, n)
	for c := range n {
		bits := s.Uint32()
		if isPositive {
			bits &= math.MaxInt32
		}
		if s.IntN(2) == 0 {
			bits = bits&0x80000000 | math.Float32bits(float32(s.ExpFloat64()*1e-3))
		}
		if x := math.Float32frombits(bits); x != x {
			bits = bits&0x80000000 | 0x7fc00000 // the one NaN that a text can say
		}
		a.SetBits(0, c, bits)
	}
	return a
}

func (s sampler) space() string {
	return []string{" ", "\n", "\t", "\r\n", "\v", "\f", "  \n "}[s.IntN(7)]
}

// write lists the elements as text.
func (s sampler) write(b *strings.Builder, a num.Array) {
	for r := range a.Rows {
		for c := range a.Cols {
			switch a.DType {
			case num.F16:
				fmt.Fprintf(b, "%0*d", s.IntN(7), a.Bits(r, c))
			case num.I32:
				fmt.Fprint(b, a.Int(r, c))
			case num.F32:
				x := a.At(r, c)
				switch isNegative := math.Signbit(float64(x)); {
				case x != x && isNegative:
					b.WriteString("-nan")
				case x != x:
					b.WriteString("nan")
				case math.IsInf(float64(x), 0):
					b.WriteString(strings.ToLower(strings.TrimPrefix(fmt.Sprint(x), "+")))
				default:
					b.WriteString(strconv.FormatFloat(float64(x), []byte("eEfg")[s.IntN(4)], -1, 32))
				}
			}
			b.WriteString(s.space())
		}
	}
}

func (s sampler) sample(t testing.TB, kernel string) sample {
	t.Helper()
	x := sample{kernel: kernel, says: map[string]string{"GFX": "cpu"}}
	var b strings.Builder
	said := func(key string, value any) { x.says[key] = fmt.Sprint(value) }
	header := func(values ...any) {
		for _, v := range values {
			fmt.Fprint(&b, v, s.space())
		}
	}
	run := func(d *def.Definition, params []float64, operands ...num.Array) num.Array {
		if err := reference.Run(d, operands, reference.Options{Params: params, Accum: def.FMAChain}); err != nil {
			t.Fatal(err)
		}
		return operands[len(operands)-1]
	}
	switch kernel {
	case "embedding":
		q, d, v, op := s.size(9), s.size(9), s.size(9), s.IntN(2)
		header(q, d, v, op)
		index := num.NewArray(num.I32, q, 1)
		for i := range q {
			index.SetBits(i, 0, uint32(s.IntN(v)))
		}
		s.write(&b, index)
		definition, in, out := embedding.ForwardDefinition, s.f16s(v, d), num.NewArray(num.F16, q, d)
		if op == 1 {
			definition, in, out = embedding.BackwardDefinition, s.f16s(q, d), num.NewArray(num.F16, v, d)
		}
		s.write(&b, in)
		x.results = []num.Array{run(definition, nil, index, in, out)}
		said("OP", []string{"forward", "backward"}[op])
		said("N_QUERIES", q)
		said("EMBEDDING_DIM", d)
		said("VOCAB_SIZE", v)
		said("GRID_X", out.Rows)
		said("BLOCK", d)
	case "softmax":
		mode, r, c := s.IntN(2), s.size(9), s.size(40)
		header(mode, r, c)
		in, out := s.f16s(r, c), num.NewArray(num.F16, r, c)
		s.write(&b, in)
		if mode == 1 {
			y := s.f16s(r, c)
			s.write(&b, y)
			x.results = []num.Array{run(softmax.BackwardDefinition, nil, in, y, out)}
		} else {
			x.results = []num.Array{run(softmax.ForwardDefinition, nil, in, out)}
		}
		said("BACKEND", []string{"softmax_fwd", "grad_loss_wrt_logits"}[mode])
		said("N_ROWS", r)
		said("N_COLS", c)
		said("GRID", r)
		said("BLOCK", c)
	case "gemm-bw":
		id, m, n, k := 1+s.IntN(2), s.size(20), s.size(20), s.size(20)
		header(id, m, n, k)
		gradC := s.f16s(m, n)
		s.write(&b, gradC)
		if id == 1 {
			other := s.f16s(k, n)
			s.write(&b, other)
			x.results = []num.Array{run(gemm.GradADefinition, nil, gradC, other, num.NewArray(num.F16, m, k))}
		} else {
			other := s.f16s(m, k)
			s.write(&b, other)
			x.results = []num.Array{run(gemm.GradBDefinition, nil, other, gradC, num.NewArray(num.F16, k, n))}
		}
		said("KERNEL_ID", id)
		said("M", m)
		said("N", n)
		said("K", k)
	case "gemm":
		m, n, k := s.size(20), s.size(20), s.size(20)
		header(m, n, k)
		left, right := s.f16s(m, k), s.f16s(k, n)
		s.write(&b, left)
		s.write(&b, right)
		x.results = []num.Array{run(gemm.ForwardDefinition, nil, left, right, num.NewArray(num.F32, m, n))}
		said("M", m)
		said("N", n)
		said("K", k)
	case "gelu":
		n := s.size(50)
		header(n)
		in := s.f16s(1, n)
		s.write(&b, in)
		x.results = []num.Array{run(gelu.ForwardDefinition, nil, in, num.NewArray(num.F16, 1, n))}
		said("N", n)
	case "gelu-bwd":
		n := s.size(50)
		header(n)
		dy, in := s.f16s(1, n), s.f16s(1, n)
		s.write(&b, dy)
		s.write(&b, in)
		x.results = []num.Array{run(gelu.BackwardDefinition, nil, dy, in, num.NewArray(num.F16, 1, n))}
		said("N", n)
	case "adamw":
		n, step := s.size(50), 1+s.IntN(1000)
		hyper := []float32{float32(s.Float64()), float32(s.Float64()), 0.999, 1e-8, 0.01}
		header(n)
		for _, h := range hyper {
			header(strconv.FormatFloat(float64(h), 'g', -1, 64))
		}
		header(step)
		theta, m, v, grad := s.f16s(1, n), s.f32s(n, false), s.f32s(n, true), s.f16s(1, n)
		x.binary = binary.LittleEndian.AppendUint32(append(x.binary, "ADAW"...), uint32(n))
		x.binary, _ = binary.Append(x.binary, binary.LittleEndian, hyper)
		x.binary = binary.LittleEndian.AppendUint32(x.binary, uint32(step))
		x.binary = binary.LittleEndian.AppendUint32(x.binary, s.Uint32())
		for _, a := range []num.Array{theta, m, v, grad} {
			s.write(&b, a)
			x.binary = append(x.binary, a.Data...)
		}
		lr, beta1, beta2 := float64(hyper[0]), float64(hyper[1]), float64(hyper[2])
		run(adamw.InPlaceDefinition, []float64{
			beta1, 1 - beta1, beta2, 1 - beta2, lr / oneMinusPower(beta1, step), 1 / math.Sqrt(oneMinusPower(beta2, step)),
			float64(hyper[3]), lr * float64(hyper[4]),
		}, theta, m, v, grad)
		x.results = []num.Array{theta, m, v}
		said("N", n)
	case "layernorm":
		op, r, c := 1+s.IntN(2), s.size(9), s.size(40)
		block, gradBlock := 32*s.size(32), 32*s.size(32)
		eps := []string{"1e-5", "0", "0.001", "3.5e2"}[s.IntN(4)]
		header(op, r, c, block, eps)
		if op == 2 {
			header(gradBlock)
		}
		gamma, beta := s.f16s(1, c), s.f16s(1, c)
		s.write(&b, gamma)
		s.write(&b, beta)
		in, mean, rstd := s.f16s(r, c), num.NewArray(num.F32, r, 1), num.NewArray(num.F32, r, 1)
		epsilon, _ := strconv.ParseFloat(eps, 64)
		y := num.NewArray(num.F16, r, c)
		run(layernorm.ForwardDefinition, []float64{epsilon}, in, gamma, beta, y, mean, rstd)
		said("OP", []string{"forward", "backward"}[op-1])
		said("N_ROWS", r)
		said("N_COLS", c)
		said("BLOCK_SIZE", block)
		said("GRID_X", r)
		if op == 1 {
			s.write(&b, in)
			x.results = []num.Array{y, mean, rstd}
			break
		}
		said("GRAD_BLOCK_SIZE", gradBlock)
		said("GRAD_GRID_X", c)
		if s.IntN(2) == 0 { // any others that a text can say
			mean, rstd = s.f32s(r, false), s.f32s(r, false)
			mean.Rows, mean.Cols, mean.Stride = r, 1, 1
			rstd.Rows, rstd.Cols, rstd.Stride = r, 1, 1
		}
		dy := s.f16s(r, c)
		dx, dgamma, dbeta := num.NewArray(num.F16, r, c), num.NewArray(num.F16, 1, c), num.NewArray(num.F16, 1, c)
		for _, list := range []num.Array{dy, in, s.f16s(r, 1), s.f16s(r, 1), mean, rstd} {
			s.write(&b, list)
		}
		run(layernorm.BackwardDefinition, nil, dy, in, gamma, mean, rstd, dx, dgamma, dbeta)
		x.results = []num.Array{dx, dgamma, dbeta}
	}
	x.text = b.String()
	return x
}

// oneMinusPower is 1 − b^n, rounded once.
func oneMinusPower(b float64, n int) float64 {
	const bits = 60000 // 53 for each factor
	power := new(big.Float).SetPrec(bits).SetInt64(1)
	for range n {
		power.Mul(power, new(big.Float).SetFloat64(b))
	}
	v, _ := power.Sub(new(big.Float).SetPrec(bits).SetInt64(1), power).Float64()
	return v
}

// holds compares a response with the sample's answer: every line, in order.
func (x *sample) holds(t testing.TB, response string) {
	t.Helper()
	if !strings.HasSuffix(response, "\n") {
		t.Fatalf("%s: the response has no end: %q", x.kernel, response)
	}
	lines := strings.Split(strings.TrimSuffix(response, "\n"), "\n")
	keys := strings.Fields(responseKeys[x.kernel])
	if x.kernel == "layernorm" {
		keys = strings.Fields(responseKeys[x.kernel+" "+x.says["OP"]])
	}
	if len(lines) != len(keys) {
		t.Fatalf("%s: %d lines, want %d: %q for %q", x.kernel, len(lines), len(keys), response, x.text)
	}
	first := len(keys) - len(x.results)
	for i, text := range lines {
		key, value, _ := strings.Cut(text, "=")
		if key != keys[i] {
			t.Fatalf("%s: line %d is %s, want %s", x.kernel, i, key, keys[i])
		}
		if want, ok := x.says[key]; ok && value != want {
			t.Errorf("%s: %s=%s, want %s", x.kernel, key, value, want)
		}
		if value == "" {
			t.Errorf("%s: %s is empty", x.kernel, key)
		}
		if key == "KERNEL_TIME_MS" {
			if _, fraction, _ := strings.Cut(value, "."); len(fraction) != 6 || value[0] == '-' {
				t.Errorf("%s: %s, want six digits after the point", x.kernel, text)
			}
		}
		if i < first {
			continue
		}
		tokens := strings.Split(value, separators[x.kernel])
		want := x.results[i-first]
		if len(tokens) != want.Rows*want.Cols {
			t.Fatalf("%s: %s has %d elements, want %d", x.kernel, key, len(tokens), want.Rows*want.Cols)
		}
		for n, token := range tokens {
			wanted := want.Bits(n/want.Cols, n%want.Cols)
			if got, ok := readToken(token, want.DType); !ok || !sameBits(want.DType, got, wanted) {
				t.Errorf("%s: %s[%d] is %q (%#x), want %#x; request %q", x.kernel, key, n, token, got, wanted, x.text)
				return
			}
		}
	}
}

func readToken(token string, d num.DType) (uint32, bool) {
	if d == num.F16 {
		v, err := strconv.ParseUint(token, 10, 16)
		return uint32(v), err == nil
	}
	switch token {
	case "nan":
		return 0x7fc00000, true
	case "-nan":
		return 0xffc00000, true
	}
	v, err := strconv.ParseFloat(token, 32)
	return math.Float32bits(float32(v)), err == nil
}

// sameBits: a NaN may be any.
func sameBits(d num.DType, a, b uint32) bool {
	x, y := num.Widen(d, a), num.Widen(d, b)
	return a == b || x != x && y != y
}

// newProcess is a process on the CPU.
func newProcess(t testing.TB, kernel string, o Options) *Process {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(dev, engine.WithPolicy(engine.Same))
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProcess(kernel, q, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func frame(payload string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// frames takes a stream apart.
func frames(t testing.TB, stream []byte) (all []string) {
	t.Helper()
	for len(stream) > 0 {
		if len(stream) < 4 || len(stream)-4 < int(binary.LittleEndian.Uint32(stream)) {
			t.Fatalf("%d bytes are no frame", len(stream))
		}
		n := 4 + int(binary.LittleEndian.Uint32(stream))
		all = append(all, string(stream[4:n]))
		stream = stream[n:]
	}
	return all
}
