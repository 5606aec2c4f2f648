package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/foreign"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/softmax"
	"tokitai/tensor/file"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// program runs a command line in this process.
func program(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = execute(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// eachCommand visits the program and its commands, with their names.
func eachCommand(visit func(path []string, c *cobra.Command)) {
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		visit(path, c)
		for _, c := range c.Commands() {
			walk(append(slices.Clone(path), c.Name()), c)
		}
	}
	walk(nil, newRoot())
	visit([]string{"help"}, newHelp())
}

// The help of every command, in testdata/help.
func TestHelp(t *testing.T) {
	var files []string
	eachCommand(func(path []string, c *cobra.Command) {
		code, got, stderr := program(t.Context(), append(path, "--help")...)
		if code != 0 || stderr != "" {
			t.Errorf("%s --help exits with %d and says %q", path, code, stderr)
		}
		name := strings.Join(append([]string{"tokitai"}, path...), "-") + ".txt"
		files = append(files, name)
		if want := readGolden(t, filepath.Join("testdata/help", name), got); got != want {
			t.Errorf("%s --help differs from testdata/help/%s (-update rewrites it):\n%s", path, name, got)
		}
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s has no short or long help, or no example", path)
		}
	})
	found, err := os.ReadDir("testdata/help")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !slices.Contains(files, f.Name()) {
			t.Errorf("testdata/help/%s belongs to no command", f.Name())
		}
	}
}

var peerMissing = regexp.MustCompile(`(?m)^\S+ is not measured: not installed: .*\n`)

// seedNote is what generate says about the seed that it has drawn.
var seedNote = regexp.MustCompile(`(?m)^seed \d+, \d+ tokens\n`)

// Every example in the help runs, at level smoke the first of each command.
func TestExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache")) // not the user's, which an example clears
	writeFile(t, "x.safetensors", "x:f16:2x3=1")
	writeFile(t, "logits.safetensors", "logits:f16:2x3=1", "label:i32:2=1")
	writeFile(t, "ab.safetensors", "A:f16:2x3=1", "B:f16:3x2=1")
	writeFile(t, "model/model.safetensors", "ln_f.weight:f16:3=1", "ln_f.bias:f16:3=0", "wte.weight:f16:5x3=1")
	if err := npy.WriteFile("x.npy", npy.Array{DType: num.F16, Shape: []int{2, 3}, Data: make([]byte, 12)}); err != nil {
		t.Fatal(err)
	}
	model, err := os.ReadFile(filepath.Join(exampleFolder, "../../tokenizer/testdata/llama3.json"))
	if err == nil {
		err = os.WriteFile("tokenizer.json", model, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"request.txt": "0 1 2\n0 0\n", "text.txt": "hello world\n", "prompt.txt": "hello", "prompts.jsonl": "{\"prompt\": \"a\", \"max_tokens\": 2}\n", "ids.txt": "1 2 3\n", "conversation.json": `[{"role":"user","content":"hello"}]`, "model/tokenizer_config.json": `{"chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"}`, "frames.bin": "\x0a\x00\x00\x000 1 2\n0 0\n",
		"rmsnorm.def": "tokitai-def 1\nrowwise rmsnorm\nin x[R,C]\nout y[R,C] as x\ny <- x * rsqrt(rowsum(x*x) / C)\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	third := bytes.Repeat([]byte{0x55, 0x35}, 6) // 1/3, the softmax of equal values
	if err := npy.WriteFile("y.npy", npy.Array{DType: num.F16, Shape: []int{2, 3}, Data: third}); err != nil {
		t.Fatal(err)
	}
	writeText(t, "config.json", `{"layers": 1, "width": 8, "heads": 2, "kv_heads": 2, "hidden": 8, "block": 16, "batch": 2, "steps": 120, "warmup": 9, "checkpoint_every": 100, "validate_every": 0}`)
	writeText(t, "text.txt", strings.Repeat("a text ", 40))
	for _, run := range []string{"run", "other"} {
		if code, _, stderr := program(t.Context(), "train", "config.json", "--data", "text.txt", "--out", run, "--device", "cpu"); code != 0 {
			t.Fatal(stderr)
		}
	}
	writeText(t, "rows.jsonl", strings.Repeat("{\"features\": [1, 0.5], \"targets\": [2]}\n", 20))
	code, _, stderr := program(t.Context(), "train", "--set", `features={"inputs":2,"outputs":1,"hidden":4,"layers":1}`, "--set", "steps=1", "--set", "warmup=0", "--set", "batch=2", "--data", "rows.jsonl", "--out", "rows", "--device", "cpu")
	if code != 0 {
		t.Fatal(stderr)
	}
	code, answer, stderr := program(t.Context(), "generate", "run", "a", "--max-tokens", "2", "--seed", "1", "--json")
	if code != 0 {
		t.Fatal(stderr)
	}
	writeText(t, "answer.json", answer)
	for _, line := range []string{
		"run softmax.forward --in x.safetensors --out called.safetensors --report call --device cpu",
		"evidence key me --plain",
		"evidence trust trust.json me=me.pub.pem",
		"evidence sign call --key me.key.pem --out signed.intoto.jsonl",
		"ledger append ledger signed.intoto.jsonl --key me.key.pem --trust trust.json --origin example.org/mine",
		"verify softmax.forward --dtype f16 --level smoke --device cpu --lowering cpu.rowwise --shard 1/2 --out shards",
		"verify softmax.forward --dtype f16 --level smoke --device cpu --lowering cpu.rowwise --shard 2/2 --out shards",
	} {
		if code, _, stderr := program(t.Context(), strings.Fields(line)...); code != 0 {
			t.Fatalf("%s: %s", line, stderr)
		}
	}
	if err := os.CopyFS("llama", os.DirFS(filepath.Join(exampleFolder, "../../model/huggingface/testdata/qwen3_moe"))); err != nil {
		t.Fatal(err)
	}
	copyExample(t, "softmax.py")
	copyExample(t, "softmax.cu")
	copyExample(t, "softmax.hip")
	copyExample(t, "softmax.c")
	if testlevel.Current() == testlevel.Smoke {
		doctorTests(t, "softmax.forward") // the script of doctor tests all kernels
	}
	seen, ran := map[string]bool{}, map[string]bool{}
	eachCommand(func(path []string, c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if servingExample.MatchString(line) {
				continue
			}
			if seen[line] {
				continue
			}
			seen[line] = true
			if isFirst := !ran[strings.Join(path, " ")]; isFirst || testlevel.Current() > testlevel.Smoke {
				ran[strings.Join(path, " ")] = true
				t.Run(line, func(t *testing.T) { runExample(t, line) })
			}
		}
	})
	if len(seen) < 10 {
		t.Errorf("there are %d examples", len(seen))
	}
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// servingExample matches the examples that run until they are stopped, which tests of their own do.
var servingExample = regexp.MustCompile(`^tokitai serve | --(address|page) `)

// coqExample matches the examples that prove theorems.
var coqExample = regexp.MustCompile(`^tokitai prove [^-]+$`)

// exampleTools lists the programs that an example needs if its command line has the word: the
// command or a flag, with its value where that matters.
var exampleTools = []struct {
	word  *regexp.Regexp
	tools []string
}{
	{coqExample, []string{"coqc"}},
	{regexp.MustCompile(` --emit gfx`), []string{"clang-22"}},
	{regexp.MustCompile(` --exec `), []string{"python3"}},
	{regexp.MustCompile(` --(cuda|hip) `), []string{"g++"}},
	{regexp.MustCompile(` --library `), []string{"gcc"}},
}

func runExample(t *testing.T, line string) {
	words, err := splitWords(line)
	if err != nil {
		t.Fatal(err)
	}
	if words[0] != "tokitai" {
		t.Fatal("it is no call of tokitai")
	}
	if coqExample.MatchString(line) {
		testlevel.Need(t, testlevel.Quick, "Coq takes half a minute")
	}
	for _, e := range exampleTools {
		if e.word.MatchString(line) {
			for _, name := range e.tools {
				tool.Need(t, name)
			}
		}
	}
	if i := slices.Index(words, "--library"); i >= 0 {
		if err := os.WriteFile("tokitai.h", []byte(foreign.LibraryHeader), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool.Need(t, "gcc"), "-O2", "-shared", "-fPIC", "-o", words[i+1], "softmax.c", "-lm").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if n := len(words); words[n-2] == "<" {
		input, err := os.Open(words[n-1])
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		defer func(stdin *os.File) { os.Stdin = stdin }(os.Stdin)
		os.Stdin, words = input, words[:n-2]
	}
	code, stdout, stderr := program(t.Context(), words[1:]...)
	if words[1] == "prove" && code == exitUndecided {
		tool.Missing(t, "coqc", stderr) // it is too old, or lacks a library
	}
	stderr = peerMissing.ReplaceAllString(stderr, "") // the libraries that are installed are not the example's doing
	stderr = seedNote.ReplaceAllString(stderr, "")
	if code != 0 || stdout == "" || stderr != "" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// Every --json is one JSON value and nothing else.
func TestJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "x.safetensors", "x:f16:2x3=1")
	for _, line := range []string{
		"version", "explain", "explain crossentropy", "explain softmax", "explain adamw.step_all --emit reference,cpu,cuda,hip",
		"run softmax.forward --in x.safetensors --out y.safetensors",
		"run softmax.forward --in x.safetensors --out y.safetensors --report evidence",
		"verify softmax.forward --dtype f16 --level smoke --out evidence",
	} {
		code, stdout, _ := program(t.Context(), append(strings.Fields(line), "--json")...)
		var v map[string]any
		if err := json.Unmarshal([]byte(stdout), &v); code != 0 || err != nil || len(v) == 0 {
			t.Errorf("%s --json: exit code %d, %v in %s", line, code, err, stdout)
		}
	}
}

// TestAncestorTrainer8_DryRunInventsNothing: the ancestor's dry run wrote a loss curve that nothing had computed. A dry run
// writes no file and prints no loss, and its time is that of the steps that it has taken.
func TestAncestorTrainer8_DryRunInventsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	line := []string{"train", "--set", `features={"hidden":8,"layers":1}`, "--set", "steps=1000", "--set", "batch=6", "--data", "synthetic:50", "--device", "cpu", "--dry-run"}
	code, stdout, stderr := program(t.Context(), line...)
	if code != 0 || strings.Contains(stdout, "loss") {
		t.Errorf("exit code %d, %s in\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = program(t.Context(), append(line, "--json")...)
	var plan map[string]any
	if err := json.Unmarshal([]byte(stdout), &plan); code != 0 || err != nil {
		t.Fatalf("exit code %d, %s: %v in %s", code, stderr, err, stdout)
	}
	for name := range plan {
		if strings.Contains(name, "loss") {
			t.Errorf("the plan has %s: %s", name, stdout)
		}
	}
	if step, _ := plan["step_seconds"].(float64); !(step > 0) || plan["seconds"] != step*1000 {
		t.Errorf("%v s for a step, and %v for 1000", plan["step_seconds"], plan["seconds"])
	}
	if list, err := os.ReadDir("."); err != nil || len(list) > 0 {
		t.Errorf("the dry run has written %v, error %v", list, err)
	}
}

// TestDoctorJSON looks for what the script of doctor finds in its text.
func TestDoctorJSON(t *testing.T) {
	t.Setenv("TOKITAI_CUDA", filepath.Join(t.TempDir(), "nothing"))
	doctorTests(t, "softmax.forward")
	code, stdout, stderr := program(t.Context(), "doctor", "--json")
	if code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("exit code %d, %s in %s", code, stderr, stdout)
	}
	for _, want := range []string{
		`"tool": "tokitai"`, `"cpu_features": [`, `"instruction_sets": [`, `"cpu_note": "no code is generated: TOKITAI_CPU=plain"`,
		`"available": false`, `"reason": "the CUDA driver: `, `"lowering": "softmax.forward/cpu.rowwise"`, `"verdict": "ok"`,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %s in\n%s", want, stdout)
		}
	}
}

// doctorTests has doctor test the kernels of the named operations alone, until the test ends.
func doctorTests(t *testing.T, names ...string) {
	doctored = slices.DeleteFunc(slices.Clone(all.Operations), func(o *op.Operation) bool { return !slices.Contains(names, o.Name) })
	t.Cleanup(func() { doctored = all.Operations })
	if len(doctored) != len(names) {
		t.Fatalf("%d of the operations %v", len(doctored), names)
	}
}

// The text that explain prints has the hash that explain states, for every operation.
func TestExplainHash(t *testing.T) {
	for _, o := range all.Operations {
		code, stdout, stderr := program(t.Context(), "explain", o.Name, "--json")
		var x explanation
		if err := json.Unmarshal([]byte(stdout), &x); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v, %s", o.Name, code, err, stderr)
		}
		if len(x.Definitions) != len(o.Definitions) || len(x.Parameters) != len(o.Params) {
			t.Errorf("%s: %d definitions and %d parameters", o.Name, len(x.Definitions), len(x.Parameters))
		}
		for _, d := range x.Definitions {
			if sum := sha256.Sum256([]byte(d.Text)); hex.EncodeToString(sum[:]) != d.SHA256 {
				t.Errorf("%s: the text's hash is not %s", d.Name, d.SHA256)
			}
			if len(d.Formula) == 0 || len(d.Operands) == 0 || len(d.Clauses) == 0 {
				t.Errorf("%s: formula, operands or clauses are missing", d.Name)
			}
		}
	}
}

// A function that is called twice, in two variants, stands once among the functions
// of each and of the operation.
func TestExplainFunctions(t *testing.T) {
	build := func(name string) *def.Definition {
		return def.Must(def.Rowwise(name, func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", fn.Log(x).Add(fn.Exp(fn.Exp(x))), def.Like("x"))
		}))
	}
	o := &op.Operation{Name: "double", Definitions: []*def.Definition{build("double"), build("double.variant")}}
	for _, d := range o.Definitions {
		if got := functionsOf(d); len(got) != 2 {
			t.Errorf("%s calls %v", d.Name, got)
		}
	}
	var s strings.Builder
	x, err := (&explainFlags{dtype: "f16", access: "vector"}).explain(o)
	if err == nil {
		err = x.print(&s)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(s.String(), "\nfunctions\n")
	table, _, _ := strings.Cut(after, "\n\n")
	for _, f := range []*def.Function{fn.LogFunction, fn.ExpFunction} {
		if n := strings.Count(table, "  "+f.Name+" "); n != 1 {
			t.Errorf("%s stands %d times in:\n%s", f.Name, n, table)
		}
	}
}

// Every definition can be listed in every format, and the first one as source.
func TestExplainEmit(t *testing.T) {
	for _, o := range all.Operations {
		for _, dtype := range num.FloatDTypes {
			code, stdout, stderr := program(t.Context(), "explain", o.Name, "--emit", "reference,cpu,cuda,hip", "--dtype", dtype.String())
			for i, d := range o.Definitions {
				for _, heading := range []string{"# " + d.Name + ", reference\n", "# " + d.Name + ", cpu, "} {
					if !strings.Contains(stdout, heading) {
						t.Errorf("%s %v: no %q", o.Name, dtype, heading)
					}
				}
				for _, heading := range []string{"// " + d.Name + ", cuda, ", "// " + d.Name + ", hip, "} {
					if strings.Contains(stdout, heading) != (i == 0) {
						t.Errorf("%s %v: %q, want the source of the first definition alone", o.Name, dtype, heading)
					}
				}
			}
			if code != 0 || stderr != "" {
				t.Errorf("%s %v: exit code %d, %s", o.Name, dtype, code, stderr)
			}
		}
	}
}

// The source that is printed for a definition compiles as it is, and so do its kernels alone behind the prelude.
func TestExplainedSourcesCompile(t *testing.T) {
	for of, needs := range map[string]struct {
		architecture string
		compiler     func(testing.TB) compile.Compiler
	}{
		"cuda": {"sm_80", func(t testing.TB) compile.Compiler { return gputest.NeedsNVRTC(t) }},
		"hip":  {"gfx942", func(t testing.TB) compile.Compiler { return gputest.NeedsClang(t) }},
	} {
		t.Run(of, func(t *testing.T) {
			c := needs.compiler(t)
			for _, line := range []string{
				"explain gelu.forward", "explain embedding.forward --dtype f32", "explain adamw.step.stochastic --access element",
				"explain gelu.backward --dtype bf16 --prelude=false",
			} {
				code, stdout, stderr := program(t.Context(), append(strings.Fields(line), "--emit", of)...)
				if code != 0 {
					t.Fatalf("%s: exit code %d, %s", line, code, stderr)
				}
				source := compile.Source{Name: of, Text: stdout}
				if strings.HasSuffix(line, "--prelude=false") {
					source.Headers = []compile.Header{{Name: "prelude.h", Text: gpu.Prelude}}
				}
				if _, err := c.Compile(needs.architecture, source); err != nil {
					t.Errorf("%s --emit %s: %v", line, of, err)
				}
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{syscall.ENOSPC, 1},
		{syscall.EIO, 1},
		{syscall.EPIPE, 1},
		{exec.ErrNotFound, 1},
		{os.ErrNotExist, 2},
		{os.ErrPermission, 2},
		{syscall.ENOTDIR, 2},
		{syscall.EISDIR, 2},
		{syscall.ELOOP, 2},
		{&safetensors.FormatError{}, 2},
		{&npy.FormatError{}, 2},
		{&file.FormatError{}, 2},
		{&file.LossError{}, 2},
		{context.Canceled, 1},
		{&device.OutOfMemoryError{}, 1},
		{wrongUse("so"), 2},
		{&device.ArgumentError{}, 2},
		{&device.ArgumentError{}, 2},
		{&engine.IndexError{}, 2},
		{&device.NoDeviceError{}, 4},
		{&device.LostError{}, 4},
		{&engine.InadmissibleError{}, 4},
		{&engine.InadmissibleError{Cause: &device.ArgumentError{}}, 4},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%T gives %d, want %d", c.err, got, c.code)
		}
		if c.err == nil {
			continue
		}
		if got := exitCode(fmt.Errorf("wrapped: %w", c.err)); got != c.code {
			t.Errorf("%T, wrapped, gives %d, want %d", c.err, got, c.code)
		}
	}
}

// A kernel that computes something else makes doctor fail, by name.
func TestDoctorFails(t *testing.T) {
	broken := &engine.Lowering{
		Name: "cpu.broken", Device: "cpu",
		Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			return engine.KernelFunc(func(*engine.Launch) error { return nil }), nil
		},
	}
	q := cpu.Queue().With(engine.WithLog(warnings(t.Output())))
	good, bad := selfTest(q, softmax.ForwardDefinition, []num.DType{num.F16, num.F16}), selfTest(q, softmax.ForwardDefinition, []num.DType{num.BF16, num.BF16}, engine.Using(broken))
	d := &diagnosis{SelfTests: []selfTestResult{good}}
	if err := d.failure(); err != nil {
		t.Errorf("a good kernel failed: %v", err)
	}
	d.SelfTests = append(d.SelfTests, bad)
	if err := d.failure(); exitCode(err) != exitUndecided {
		t.Errorf("the broken kernel gives %v", err)
	}
	var s, asJSON strings.Builder
	if err := printJSON(&asJSON, d); err != nil || !strings.Contains(asJSON.String(), `"verdict": "failed"`) {
		t.Errorf("the broken kernel gives %v and %s", err, asJSON.String())
	}
	table := &selfTestTable{w: &s, width: len(good.Lowering)}
	table.rows(d.SelfTests)
	for _, want := range []string{
		"  softmax.forward/cpu.rowwise  f16 ok\n",
		"  softmax.forward/cpu.broken   bf16 failed\n    softmax.forward/cpu.broken is inadmissible on cpu: self-test ",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("doctor does not say %q:\n%s", want, s.String())
		}
	}
}

func TestRunCanceled(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "x.safetensors", "x:f16:2x3=1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := program(ctx, "run", "softmax.forward", "--in", "x.safetensors", "--out", "y.safetensors")
	if code != exitUndecided || stdout != "" || stderr != "tokitai run: interrupted\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if _, err := os.Stat("y.safetensors"); err == nil {
		t.Error("an output was written")
	}
}

// Whatever tensors and parameters an operation is given: there is an output or one
// line that says why not, and no panic.
func TestRunAnything(t *testing.T) {
	const seed = 20
	r := rand.New(rand.NewPCG(seed, seed))
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	t.Chdir(t.TempDir())
	codes := map[int]int{}
	for range 250 {
		o := all.Operations[r.IntN(len(all.Operations))]
		var tensors []string
		usualShape, usualDType := one("2", "1x1", "2x3", "2x2", "2x2x2"), one("f16", "bf16", "f32")
		for _, operand := range o.Definitions[0].Operands {
			shape, dtype, value := usualShape, usualDType, one("1", "0", "nan", "-inf", "-3")
			switch {
			case !operand.IsIn && r.IntN(4) > 0, r.IntN(16) == 0:
				continue
			case r.IntN(8) == 0:
				shape = one("", "1", "3", "0", "0x2", "3x2", "1x2x1")
			}
			if operand.IsIndex || r.IntN(16) == 0 {
				dtype, value = "i32", one("0", "1", "7", "-1", "-100", "2147483647", "-2147483648")
			}
			tensors = append(tensors, operand.Name+":"+dtype+":"+shape+"="+value)
		}
		writeFile(t, "in", tensors...)
		args := []string{"run", o.Name, "--in", "in", "--out", "out", "--admission", "off", "--bad-index", one("skip", "reject")}
		for _, p := range o.Params {
			if p.Default == "" || r.IntN(4) == 0 {
				args = append(args, "--param", p.Name+"="+one("1", "2", "0.5", "", "-1", "nan", "1e999", "true", "f32", "master", "stochastic", "18446744073709551615"))
			}
		}
		code, stdout, stderr := program(t.Context(), args...)
		if note, rest, ok := strings.Cut(stderr, "\n"); ok && strings.HasPrefix(note, "note: ") {
			stderr = rest
		}
		_, err := os.Stat("out")
		if (err == nil) != (code == 0) || (stdout != "") != (code == 0) || (stderr == "") != (code == 0) {
			t.Errorf("%v on %v: exit code %d, %q, %q, %v", args, tensors, code, stdout, stderr, err)
		}
		os.Remove("out")
		codes[code]++
	}
	if codes[0] < 25 || codes[2] < 25 || codes[0]+codes[2] < 250 {
		t.Errorf("of the exit codes, 0 and 2 alone were expected, each some times: %v", codes)
	}
}

func TestBuild(t *testing.T) {
	b := build{Tool: "tokitai", Version: "1.2.3", Go: "go1", OS: "linux", Arch: "amd64"}
	if got, want := b.String(), "tokitai 1.2.3 go1 linux/amd64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.addSettings([]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "noon"}, {Key: "vcs.modified", Value: "true"}})
	if got, want := b.String(), "tokitai 1.2.3 go1 linux/amd64 revision abc (modified)"; got != want || b.Time != "noon" {
		t.Errorf("%q at %q, want %q", got, b.Time, want)
	}
}

// copyExample copies a kernel to the current folder, with texts replaced: each with the one
// after it.
func copyExample(t *testing.T, name string, replaced ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(exampleFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replaced); i += 2 {
		if !bytes.Contains(text, []byte(replaced[i])) {
			t.Fatalf("%s has no %q", name, replaced[i])
		}
		text = bytes.Replace(text, []byte(replaced[i]), []byte(replaced[i+1]), 1)
	}
	if err := os.WriteFile(name, text, 0o777); err != nil {
		t.Fatal(err)
	}
}

// exampleFolder has the kernels in other languages, by its absolute path: tests change the
// folder.
var exampleFolder = func() string {
	path, err := filepath.Abs("../../example/kernel")
	if err != nil {
		panic(err)
	}
	return path
}()
