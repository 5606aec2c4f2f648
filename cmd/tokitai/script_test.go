package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tokitai/device/gpu/hip/standin"
	"tokitai/engine"
	"tokitai/internal/plaincpu"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata")

// programVariable holds the SHA-256 of the program for the commands of scripts. Otherwise each of those
// that write a report would read all of the program, which takes longer than to start it.
const programVariable = "TOKITAI_SCRIPT_PROGRAM"

// TestMain has tests run with what every processor has, unless they say otherwise: which
// lowerings there are must not depend on the processor. At level smoke, commands that run a model
// do without the self-tests of its kernels, which would take ten times as long as the model: there are a hundred such
// commands, and the packages train, answer and serve run models with self-tests.
func TestMain(m *testing.M) {
	standin.Main()
	plaincpu.Set()
	modelAdmission = testlevel.Pick(engine.Off, engine.SelfTest)
	testscript.Main(m, map[string]func(){"tokitai": func() {
		plainFirst = 0 // what is printed must not depend on the machine's speed
		if sum := os.Getenv(programVariable); sum != "" {
			programSHA256 = func() (string, error) { return sum, nil }
		}
		if os.Getenv(refuserVariable) != "" {
			beRefuser()
			return
		}
		main()
	}})
}

// TestScript runs testdata/script. Beside the usual commands there are:
//
//	exits CODE command...     run a command that ends with that exit code; see below
//	capture NAME REGEXP       set a variable to the first group of REGEXP in standard output
//	matches PATTERN           a file's name matches the pattern
//	tensors FILE TENSOR...    write a safetensors file; see parseTensor and foreignTensor
//	array FILE TENSOR         write a .npy file, whatever the tensor's name
//	show FILE                 print metadata and values of a safetensors or .npy file
//
// and a condition, smoke, which holds unless TOKITAI_LEVEL asks for more.
//
// All commands "exits 2 tokitai ..." of a script share one process, which has no standard input. Write "exits 2 env
// tokitai ..." for a command that needs standard input or a process of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOGC", "400") // hundreds of processes start, each with a heap of a few MiB
			models, err := filepath.Abs("../../model/huggingface/testdata")
			if err != nil {
				return err
			}
			self, err := exec.LookPath("tokitai")
			if err != nil {
				return err
			}
			sum, err := programSHA256() // of this program, of which self is a copy
			e.Setenv("MODELS", models)
			e.Setenv("TOKITAI", self)
			e.Setenv(programVariable, sum)
			if err == nil {
				e.Values[refuserVariable], err = newRefuser(e)
			}
			return err
		},
		Condition: func(name string) (bool, error) {
			if name != "smoke" {
				return false, fmt.Errorf("unknown condition %q, want smoke", name)
			}
			return testlevel.Current() == testlevel.Smoke, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "capture": capture, "matches": matches, "tensors": writeTensors, "array": writeArray, "show": showTensors,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := runInScript(ts, want, args[1:])
	ts.Check(err)
	if neg || got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if neg || len(found) != 2 {
		ts.Fatalf("standard output has no %s with one group", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func matches(ts *testscript.TestScript, neg bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if (len(found) != 0) == neg {
		ts.Fatalf("%s matches %v", args[0], found)
	}
}

func writeTensors(ts *testscript.TestScript, neg bool, args []string) {
	f := &safetensors.File{}
	var foreign []string
	for _, a := range args[1:] {
		if strings.ContainsAny(strings.Split(a, ":")[1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			foreign = append(foreign, a)
			continue
		}
		e, err := parseTensor(a)
		ts.Check(err)
		f.Entries = append(f.Entries, e)
	}
	var b bytes.Buffer
	ts.Check(safetensors.Write(&b, f))
	content, err := withForeign(b.Bytes(), foreign)
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
	ts.Check(os.WriteFile(path, content, 0o666))
}

// withForeign adds tensors to a file of dtypes that the package cannot write, such as
// label:I64:3=-100,0,7 or mask:BOOL:2x2. Integers may have values, everything else is 0.
func withForeign(content []byte, tensors []string) ([]byte, error) {
	n := 8 + binary.LittleEndian.Uint64(content)
	text, data := strings.TrimSpace(string(content[8:n])), content[n:]
	for _, tensor := range tensors {
		what, values, _ := strings.Cut(tensor, "=")
		parts := strings.Split(what, ":")
		elemBits, ok := map[string]int{"BOOL": 8, "U8": 8, "F8_E4M3": 8, "I16": 16, "F64": 64, "I64": 64}[parts[1]]
		if !ok {
			return nil, fmt.Errorf("%q: unknown dtype", tensor)
		}
		elems := 1
		for size := range strings.SplitSeq(parts[2], "x") {
			k, err := strconv.Atoi(size)
			if err != nil {
				return nil, err
			}
			elems *= k
		}
		begin := len(data)
		for i := range elems {
			v := int64(0)
			if list := strings.Split(values, ","); i < len(list) && values != "" {
				var err error
				if v, err = strconv.ParseInt(list[i], 10, 64); err != nil {
					return nil, err
				}
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, uint64(v))[:elemBits/8]...)
		}
		entry := fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, parts[0], parts[1], strings.ReplaceAll(parts[2], "x", ","), begin, len(data))
		if text = strings.TrimSuffix(text, "}"); text != "{" {
			text += ","
		}
		text += entry + "}"
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), []byte(text), data), nil
}

func writeArray(ts *testscript.TestScript, neg bool, args []string) {
	e, err := parseTensor(args[1])
	ts.Check(err)
	ts.Check(npy.WriteFile(ts.MkAbs(args[0]), npy.Array{DType: e.DType, Shape: e.Shape, Data: e.Data}))
}

// parseTensor reads NAME:DTYPE:SHAPE=VALUES, such as x:f16:2x2=1,2,3,4. No shape
// makes a scalar; one value fills any shape.
func parseTensor(s string) (safetensors.Entry, error) {
	what, text, _ := strings.Cut(s, "=")
	parts := strings.Split(what, ":")
	if len(parts) != 3 {
		return safetensors.Entry{}, fmt.Errorf("%q: want NAME:DTYPE:SHAPE=VALUES", s)
	}
	dtype, err := num.ParseDType(parts[1])
	e := safetensors.Entry{Name: parts[0], DType: dtype}
	elems := 1
	for size := range strings.SplitSeq(parts[2], "x") {
		if parts[2] == "" {
			break
		}
		n, sizeErr := strconv.Atoi(size)
		err = errors.Join(err, sizeErr)
		e.Shape = append(e.Shape, n)
		elems *= n
	}
	if err != nil {
		return e, fmt.Errorf("%q: %w", s, err)
	}
	values := strings.Split(text, ",")
	if len(values) == 1 {
		values = slices.Repeat(values, elems)
	}
	if len(values) != elems {
		return e, fmt.Errorf("%q: %d values for %d elements", s, len(values), elems)
	}
	a := num.NewArray(dtype, elems, 1)
	e.Data = a.Data
	for i, v := range values {
		if slices.Contains(num.IntegerDTypes, dtype) || dtype == num.I32 {
			n, err := strconv.ParseInt(v, 10, 8*dtype.Size())
			if err != nil {
				return e, err
			}
			a.SetBits64(i, 0, uint64(n))
			continue
		}
		x, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return e, err
		}
		a.SetBits(i, 0, num.NarrowF64(dtype, x))
	}
	return e, nil
}

func showTensors(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	if filepath.Ext(path) == ".npy" {
		a, err := npy.ReadFile(path)
		ts.Check(err)
		fmt.Fprint(ts.Stdout(), formatFile(&safetensors.File{Entries: []safetensors.Entry{{Name: "array", DType: a.DType, Shape: a.Shape, Data: a.Data}}}))
		return
	}
	f, err := safetensors.ReadFile(path)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), formatFile(f))
}

// formatFile returns a line for each entry of the metadata and for each tensor. Every
// value is written so that it reads back as the same number.
func formatFile(f *safetensors.File) string {
	var s strings.Builder
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		fmt.Fprintf(&s, "# %s %s\n", key, f.Metadata[key])
	}
	for _, e := range f.Entries {
		fmt.Fprintf(&s, "%s %v %v", e.Name, e.DType, e.Shape)
		a := num.Array{DType: e.DType, Rows: len(e.Data) / e.DType.Size(), Cols: 1, Stride: 1, Data: e.Data}
		for i := range a.Rows {
			if e.DType == num.I32 {
				fmt.Fprintf(&s, " %d", a.Int(i, 0))
			} else if x := a.At(i, 0); x == 0 && math.Signbit(float64(x)) {
				s.WriteString(" -0")
			} else {
				fmt.Fprintf(&s, " %v", x)
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}

func TestParseTensor(t *testing.T) {
	for text, want := range map[string]string{
		"x:f16:2x2=1,-0,inf,0x1p-24": "x f16 [2 2] 1 -0 +Inf 5.9604645e-08\n",
		"x:bf16:=nan":                "x bf16 [] NaN\n",
		"label:i32:3=-1,2,3":         "label i32 [3] -1 2 3\n",
		"x:f32:1x3=0.1":              "x f32 [1 3] 0.1 0.1 0.1\n",
		"x:f32:0x3=":                 "x f32 [0 3]\n",
	} {
		e, err := parseTensor(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := formatFile(&safetensors.File{Entries: []safetensors.Entry{e}}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"x:f16=1", "x:f8:1=1", "x:f16:2=1,2,3", "x:f16:a=1", "x:i32:1=0.5"} {
		if _, err := parseTensor(text); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// writeFile makes a safetensors file for a test without a script.
func writeFile(t *testing.T, path string, tensors ...string) {
	t.Helper()
	f := &safetensors.File{}
	for _, text := range tensors {
		e, err := parseTensor(text)
		if err != nil {
			t.Fatal(err)
		}
		f.Entries = append(f.Entries, e)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), safetensors.WriteFile(path, f)); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t *testing.T, path, got string) string {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(want)
}
