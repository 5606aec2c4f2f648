package gemm_test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

//go:embed testdata/int_mm.py
var intMMScript string

// accumulators is the product of Int8Definition without scales: its int32 sums.
var accumulators = def.Must(def.Contraction("accumulators", def.ContractionForm{
	Left: "A", LeftDims: []string{"M", "K"},
	Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
	Result: "C", ResultDims: []string{"M", "N"},
	Factors: def.Only(num.I8), Ring: def.Ring{P: 2, K: 32},
}))

// TestInt8AgainstTorch compares int32 sums with torch._int_mm on a CPU, bit for bit, where they wrap
// too. TOKITAI_PYTHON names the interpreter; otherwise it is python3.
func TestInt8AgainstTorch(t *testing.T) {
	python := os.Getenv("TOKITAI_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch') and 'torch is not installed')").CombinedOutput(); err != nil {
		t.Skipf("%s: %s (%v): int32 sums are not compared with torch._int_mm; TOKITAI_PYTHON names another interpreter", python, bytes.TrimSpace(out), err)
	}
	type product struct {
		name    string
		m, n, k int
		a, b    []int8
	}
	var list []product
	g := gen.New("int8 torch")
	add := func(m, n, k int, name string, left, right op8) {
		p := product{name, m, n, k, make([]int8, m*k), make([]int8, n*k)}
		for i := range p.a {
			p.a[i] = left(g)
		}
		for i := range p.b {
			p.b[i] = right(g)
		}
		list = append(list, p)
	}
	for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {17, 8, 8}, {32, 32, 16}, {33, 65, 67}, {64, 64, 1024}, {100, 48, 515}, {128, 72, 300}} {
		add(s[0], s[1], s[2], "any bytes", anyInt8, anyInt8)
		add(s[0], s[1], s[2], "the ends", endInt8, endInt8)
	}
	for _, k := range []int{1<<17 - 1, 1 << 17, 1<<17 + 3, 1<<18 + 1, 1 << 19, 786433} { // (-128)²·2^17 = 2^31
		add(2, 3, k, "the least", leastInt8, leastInt8)
		add(3, 2, k, "the least and the greatest", leastInt8, greatestInt8)
	}

	var input bytes.Buffer
	for _, p := range list {
		fmt.Fprintln(&input, p.m, p.n, p.k)
		optest.OK(t, binary.Write(&input, binary.LittleEndian, p.a))
		optest.OK(t, binary.Write(&input, binary.LittleEndian, p.b))
	}
	command := exec.Command(python, "-W", "ignore", "-c", intMMScript)
	command.Stdin = &input
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	optest.OK(t, err)
	library, sums, _ := bytes.Cut(output, []byte("\n"))
	if !strings.HasSuffix(string(library), "vnni") {
		t.Skipf("torch %s: the processor has no VNNI, and torch._int_mm then adds pairs of products in int16 that saturate (docs/foreign.md)", library)
	}

	wrapped := 0
	for _, p := range list {
		want := make([]int32, p.m*p.n)
		optest.OK(t, binary.Read(bytes.NewReader(sums), binary.LittleEndian, want))
		sums = sums[4*len(want):]
		a, b := ints(t, p.m, p.a...), ints(t, p.n, p.b...)
		c, err := tensor.New(cpu.Queue().Device(), num.I32, p.m, p.n)
		optest.OK(t, err)
		for _, l := range engine.Lowerings(cpu.Backend, accumulators) {
			optest.OK(t, engine.Call(cpu.Queue(), accumulators, []*tensor.Tensor{a, b, c}, nil, engine.WithLowering(l.Name)))
			got, err := c.Ints()
			optest.OK(t, err)
			for i := range got {
				if got[i] != int64(want[i]) {
					t.Fatalf("%s, %s, M=%d N=%d K=%d: sum %d is %d, torch._int_mm has %d", l.Name, p.name, p.m, p.n, p.k, i, got[i], want[i])
				}
			}
		}
		exact := int64(0)
		for i := range p.k {
			exact += int64(p.a[i]) * int64(p.b[i])
		}
		if exact != int64(want[0]) {
			wrapped++
		}
	}
	if len(sums) != 0 || wrapped == 0 {
		t.Errorf("%d bytes of sums are left, and %d products wrapped", len(sums), wrapped)
	}
	t.Logf("torch %s: %d products equal, in %d of them sums wrap", library, len(list), wrapped)
}

type op8 func(*gen.Generator) int8

func anyInt8(g *gen.Generator) int8    { return int8(g.Below(256) - 128) }
func endInt8(g *gen.Generator) int8    { return int8(g.Below(2)*255 - 128) }
func leastInt8(*gen.Generator) int8    { return -128 }
func greatestInt8(*gen.Generator) int8 { return 127 }
