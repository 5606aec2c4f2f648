package peers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"tokitai/bench"
	"tokitai/kernelprocess/spawn"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/attention"
	"tokitai/op/combine"
	"tokitai/op/crossentropy"
	"tokitai/op/dispatch"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/relu2"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/router"
	"tokitai/op/sample"
	"tokitai/op/sgd"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
)

var operations = slices.Concat(gemm.Operations, softmax.Operations, crossentropy.Operations, gelu.Operations,
	embedding.Operations, layernorm.Operations, adamw.Operations, rmsnorm.Operations, rope.Operations, swiglu.Operations,
	silu.Operations, relu2.Operations, router.Operations, dispatch.Operations, combine.Operations, dropout.Operations,
	sample.Operations, sgd.Operations, attention.Operations)

// tiny sizes for every case.
var tiny = map[string]int{"R": 5, "C": 33, "G": 4, "H": 2, "M": 6, "N": 7, "K": 8, "Q": 9, "V": 10, "D": 11, "P": 12, "S": 3, "T": 7, "E": 5, "B": 2, "J": 1}

func TestMain(m *testing.M) {
	if mode := os.Getenv(ServeVariable); mode != "" {
		serveFake(mode)
		return
	}
	os.Exit(m.Run())
}

// serveFake is a peer that multiplies matrices of f32, with a fault.
func serveFake(fault string) {
	out := json.NewEncoder(os.Stdout)
	if fault == "missing" {
		out.Encode(Introduction{Missing: "no such library"})
		return
	}
	out.Encode(Introduction{Name: "fake", Version: "1", Threads: 1})
	in := json.NewDecoder(os.Stdin)
	var prepared Request
	checks := 0
	for {
		var r Request
		if in.Decode(&r) != nil {
			return
		}
		var a Answer
		switch r.Do {
		case "prepare":
			if prepared, a.Form = r, "loops"; fault == "unsupported" {
				a = Answer{Unsupported: "not today"}
			}
		case "check":
			checks++
			offset := float32(0)
			if fault == "wrong" || fault == "wrong later" && checks > 1 {
				offset = 1
			}
			a.Outputs = map[string][]byte{"C": multiply(&prepared, r.Rows["C"], offset)}
			if fault == "short" {
				a.Outputs["C"] = a.Outputs["C"][4:]
			}
			if fault == "nothing" {
				a.Outputs = nil
			}
		case "run":
			switch fault {
			case "dies":
				fmt.Fprintln(os.Stderr, "out of paper")
				os.Exit(3)
			case "hangs":
				fmt.Fprintln(os.Stderr, "now")
				select {}
			case "garbage":
				fmt.Println("not JSON")
				continue
			case "few":
				r.Repeat--
			}
			for range r.Repeat {
				a.NS = append(a.NS, int64(r.Calls)*1_000_000_000) // slower than anything
			}
		}
		out.Encode(a)
	}
}

func multiply(r *Request, rows []int, offset float32) (raw []byte) {
	a, b := load(r.Operands["A"].File), load(r.Operands["B"].File)
	k, n := r.Operands["B"].Shape[0], r.Operands["B"].Shape[1]
	for _, row := range rows {
		for c := range n {
			sum := offset
			for i := range k {
				sum += a[row*k+i] * b[i*n+c]
			}
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(sum))
		}
	}
	return raw
}

func load(file string) []float32 {
	raw, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return floats(raw)
}

// newTestRunner returns a runner whose only peer is this binary with a fault.
func newTestRunner(t *testing.T, fault string) *Runner {
	t.Helper()
	return newRunnerThatHears(t, fault, nil)
}

// newRunnerThatHears is newTestRunner with a reader of what the peer says.
func newRunnerThatHears(t *testing.T, fault string, words io.Writer) *Runner {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(t.Context(), Options{
		Workers: []int{1, 2}, Rounds: 2, Turn: time.Nanosecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		kinds: []kind{{name: "fake", about: "a fake", command: func(context.Context, string, int) (spawn.Spec, error) {
			return spawn.Spec{Program: program, Stderr: words, Env: append(spawn.Environment(os.Environ()), ServeVariable+"="+fault)}, nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func tinyCases(t *testing.T, dtypes ...num.DType) []*Case {
	t.Helper()
	cases, err := Cases(operations, Filter{DTypes: dtypes, Sizes: tiny})
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func product(t *testing.T) *Case {
	t.Helper()
	cases := tinyCases(t, num.F32)
	return cases[slices.IndexFunc(cases, func(c *Case) bool { return c.Operation.Name == "gemm.forward" })]
}

// Every case is measured without peers, with every number of threads.
func TestMeasure(t *testing.T) {
	r := newTestRunner(t, "unsupported")
	for _, c := range tinyCases(t) {
		rows, err := r.Measure(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if len(rows) != 2 || row.Workers != i+1 || row.Op != c.Name() || row.DType != c.DType.String() || !(row.MS > 0) || !(row.CopyMS > 0) || row.Bytes <= 0 {
				t.Errorf("%v: %+v", c, row)
			}
			if isProduct := c.flops() > 0; (row.GFLOPS > 0) != isProduct || (row.GBps > 0) == isProduct || row.Share != 0 { // a share of memory's speed means nothing in a cache
				t.Errorf("%v: %+v", c, row)
			}
			if len(row.Peers) != 0 {
				t.Errorf("%v: a peer that does not support it has a result: %+v", c, row.Peers)
			}
		}
	}
}

// Inputs that are results of another operation are its results, as those of peers are.
func TestSavedInputs(t *testing.T) {
	cases := tinyCases(t, num.F32)
	c := cases[slices.IndexFunc(cases, func(c *Case) bool { return c.Operation.Name == "attention.backward" })]
	in, err := newInputs(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	filled := slices.Clone(in.arrays)
	for _, name := range []string{"o", "lse"} {
		i := c.Data.Definition.Operand(name)
		filled[i] = filled[i].Clone()
	}
	if err := c.Operation.SavedBy(c.Data.Definition).Fill(filled, c.Data.Params, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	for i, a := range filled {
		if !slices.Equal(a.Data, in.arrays[i].Data) {
			t.Errorf("%s is not what attention.forward gives", c.Data.Definition.Operands[i].Name)
		}
	}
}

// A peer is measured beside ours; one that is wrong, silent or dead is reported, and ours is
// measured all the same.
func TestPeers(t *testing.T) {
	for _, row := range []struct{ fault, want string }{
		{"right", ""},
		{"wrong", "C differs from the reference by "},
		{"wrong later", " of its norm after timing"},
		{"short", "C has 27 values in 4 rows, want 28"},
		{"nothing", "fake returned no output"},
		{"few", "fake gave 1 times, want 2"},
		{"dies", "exit status 3; its last words: out of paper"},
		{"garbage", `fake answered "not JSON"`},
	} {
		t.Run(row.fault, func(t *testing.T) {
			t.Parallel()
			rows, err := newTestRunner(t, row.fault).Measure(t.Context(), product(t))
			if err != nil || len(rows) != 2 || len(rows[0].Peers) != 1 {
				t.Fatalf("got %+v, %v", rows, err)
			}
			o := rows[0].Peers[0]
			switch {
			case row.want != "" && (!strings.Contains(o.Error, row.want) || o.Ratio != 0):
				t.Errorf("got %+v, want an error with %q", o, row.want)
			case row.want == "" && (o.Error != "" || o.Peer != "fake" || o.Form != "loops" || !(o.Ratio > 1 && o.Least <= o.Ratio && o.Ratio <= o.Most) || o.MS < 999):
				t.Errorf("got %+v, want a peer that is slower than anything", o)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	report := newTestRunner(t, "missing").Report()
	if len(report.Peers) != 1 || report.Peers[0].Problem != "no such library" {
		t.Errorf("got %+v, want why the library is missing", report.Peers)
	}
	if report := newTestRunner(t, "right").Report(); report.Peers[0].Version != "1" || report.Host.CPU == "" || !slices.Equal(report.Host.Workers, []int{1, 2}) {
		t.Errorf("got %+v", report)
	}
}

// An interrupt ends a run even if a peer hangs.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRunnerThatHears(t, "hangs", whenWritten(cancel))
	if rows, err := r.Measure(ctx, product(t)); !errors.Is(err, context.Canceled) || len(rows) != 0 {
		t.Errorf("got %v, %v, want that it was canceled", rows, err)
	}
}

// whenWritten is called when something is written.
type whenWritten func()

func (f whenWritten) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func TestCases(t *testing.T) {
	cases, err := Cases(operations, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range list {
		if !slices.ContainsFunc(cases, func(c *Case) bool { return c.Operation.Name == row.op }) {
			t.Errorf("%s has no cases", row.op)
		}
	}
	var text []string
	for _, c := range cases {
		text = append(text, c.String())
		if c.Operation.Name == "crossentropy" && c.Data.Params[1] != 1.0/1024 {
			t.Errorf("%v: parameters %v, want the gradient of the mean", c, c.Data.Params)
		}
		if c.Operation.Name == "adamw.step" && (c.Given["lr"] != 1e-3 || c.Data.Params[0] != 0.9 || len(c.Data.Params) != 8) {
			t.Errorf("%v: parameters %v of %v", c, c.Data.Params, c.Given)
		}
		if isOne := c.footprint() <= 4<<20 || c.footprint() >= 384<<20; isOne != (c.sets() == 1) {
			t.Errorf("%v: %d sets of %d bytes", c, c.sets(), c.footprint())
		}
	}
	if !slices.Contains(text, "gemm.forward f16 M=64,K=4096,N=1024") || !slices.Contains(text, "gelu.forward f32 R=1,C=1000") {
		t.Errorf("cases are missing: %v", text)
	}
	few, err := Cases(gelu.Operations[:2], Filter{DTypes: []num.DType{num.BF16}, Sizes: map[string]int{"R": 3, "C": 4}})
	if err != nil || len(few) != 2 || few[0].String() != "gelu.forward bf16 R=3,C=4" {
		t.Errorf("got %v, %v", few, err)
	}
	if some := OnePerOperation(cases); len(some) != 40 {
		t.Errorf("%d operations, want 40", len(some))
	}
}

// The copy moves exactly the bytes that a call has to move, and leaves what it updates as
// it is.
func TestCopyMovesTheSame(t *testing.T) {
	team := newTestRunner(t, "unsupported").teams[1]
	for _, c := range tinyCases(t) {
		in, err := newInputs(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := newOurs(t.Context(), team.queue, in)
		if err != nil {
			t.Fatal(err)
		}
		copies := newCopying(team.device, mine)
		moved := 0
		for _, p := range copies.sets[0] {
			moved += len(p.to) + len(p.from) + 2*len(p.update) + len(p.read)
		}
		if want := bench.Traffic(c.Data.Definition, in.arrays); int64(moved) != want {
			t.Errorf("%v: the copy moves %d bytes, a call %d", c, moved, want)
		}
		if _, err := copies.run(t.Context(), 2, 3); err != nil {
			t.Error(err)
		}
		for i := range c.Data.Definition.Operands {
			if c.Data.Definition.Operands[i].IsIn && !slices.Equal(memoryOf(mine.sets[0][i]), in.arrays[i].Data) {
				t.Errorf("%v: the copy changed operand %d", c, i)
			}
		}
		mine.close()
	}
}

// What is moved is moved whole, by generated code and by Go, with rests of any length.
func TestMover(t *testing.T) {
	for _, m := range []*mover{theMover(), {}} {
		for n := 8; n < 4*block; n += 56 {
			memory := make([]byte, 2*n+128)
			at := -int(uintptr(unsafe.Pointer(&memory[0]))) & 63
			from := memory[at : at+n]
			for i := range from {
				from[i] = byte(i*7 + 1)
			}
			want, to := slices.Clone(from), memory[at+n+n%64:][:n]
			m.read(from)
			m.update(from)
			m.copy(to, from)
			if !slices.Equal(from, want) || !slices.Equal(to, want) {
				t.Fatalf("%d bytes: copied or updated wrongly", n)
			}
			m.fill(from)
			if slices.ContainsFunc(from, func(b byte) bool { return b != 0 }) || !slices.Equal(to, want) {
				t.Fatalf("%d bytes: filled wrongly", n)
			}
		}
	}
}

// A wrong result of ours is an error, before and after timing.
func TestWrong(t *testing.T) {
	team := newTestRunner(t, "unsupported").teams[0]
	in, err := newInputs(t.Context(), product(t))
	if err != nil {
		t.Fatal(err)
	}
	in.answer.Want[2].Set(0, 0, 1e9)
	row, err := team.measure(t.Context(), in, &Request{}, &Options{Rounds: 1, Turn: 1})
	if err == nil || !strings.Contains(err.Error(), "wrong before timing: C[0,0] is 0x") {
		t.Errorf("got %v, %v, want that it is wrong before timing", row, err)
	}
}

// Rounds that disagree are followed by others, but not for ever.
func TestMoreRounds(t *testing.T) {
	for _, row := range []struct {
		name  string
		times []float64 // of the peer, in milliseconds, by round; ours take 1
		want  int       // rounds
	}{
		{"calm", []float64{2, 2.1, 2}, 3},
		{"disturbed once", []float64{2, 9, 2, 2}, 4},
		{"disturbed at first", []float64{9, 9, 2, 2, 2.1, 2, 2.1, 2, 2}, 8},
		{"never calm", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 9},
	} {
		mine, theirs := &scripted{times: []float64{1}}, &scripted{times: append([]float64{2, 2}, row.times...)}
		turns := []*turn{{party: mine}, {party: theirs, isPeer: true}}
		if err := rounds(t.Context(), turns, &Options{Rounds: 3, Turn: 1}); err != nil {
			t.Fatal(err)
		}
		if got := len(turns[1].seconds); got != row.want {
			t.Errorf("%s: %d rounds, want %d", row.name, got, row.want)
		}
	}
}

// scripted is a party with given times, the last one again and again.
type scripted struct{ times []float64 }

func (s *scripted) run(_ context.Context, repeat, _ int) ([]time.Duration, error) {
	times := make([]time.Duration, repeat)
	for i := range times {
		times[i] = time.Duration(s.times[0] * float64(time.Second))
		if i < 2 && len(s.times) > 1 {
			s.times = s.times[1:]
		}
	}
	return times, nil
}

func TestCompile(t *testing.T) {
	r := newTestRunner(t, "unsupported")
	for _, c := range OnePerOperation(tinyCases(t, num.F32)) {
		first, err := r.Compile(t.Context(), c)
		if err != nil || !(first.MS > 0) || !(first.Admitted > 0) || first.Op != c.Operation.Name || first.DType != "f32" {
			t.Errorf("%v: %+v, %v", c, first, err)
		}
	}
}

// Python's peers start, or say why not.
func TestPython(t *testing.T) {
	t.Setenv("TOKITAI_PYTHON", "no-such-python")
	r, err := NewRunner(t.Context(), Options{Peers: []string{"torch"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if p := r.Report().Peers; len(p) != 1 || !strings.Contains(p[0].Problem, "no-such-python") || p[0].Name != "PyTorch" {
		t.Errorf("got %+v, want that there is no such Python", p)
	}
}
