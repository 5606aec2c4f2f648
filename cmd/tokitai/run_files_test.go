package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/num"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// writeCheckpoint writes a model as people publish them, into a folder: dozens of tensors
// of many dtypes under the names of a framework, in shards with an index. It returns the
// tensors by name, as parseTensor reads them.
func writeCheckpoint(t *testing.T, dir string) map[string]string {
	t.Helper()
	const vocab, width, layers, shards = 7, 4, 6, 3
	values := func(n, seed int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(float64((i*5+seed*3)%11-5) / 4)
		}
		return strings.Join(list, ",")
	}
	tensors := map[string]string{}
	add := func(name, dtype string, sizes ...int) {
		shape, n := "", 1
		for i, size := range sizes {
			if i > 0 {
				shape += "x"
			}
			shape += fmt.Sprint(size)
			n *= size
		}
		tensors[name] = fmt.Sprintf("%s:%s=%s", dtype, shape, values(n, len(tensors)))
	}
	add("transformer.wte.weight", "f16", vocab, width)
	add("transformer.wpe.weight", "f16", vocab, width)
	add("lm_head.weight", "f16", vocab, width)
	for l := range layers {
		h := fmt.Sprintf("transformer.h.%d.", l)
		add(h+"ln_1.weight", "f32", width)
		add(h+"ln_1.bias", "f32", width)
		add(h+"attn.c_attn.weight", "f16", width, 3*width)
		add(h+"attn.c_attn.bias", "f16", 3*width)
		add(h+"mlp.c_fc.weight", "bf16", width, 4*width)
		tensors[h+"attn.bias"] = "BOOL:1x1x4x4"
		tensors[h+"attn.masked_bias"] = "F64:1"
		tensors[h+"mlp.c_proj.weight_scale"] = "F8_E4M3:3"
	}
	tensors["position_ids"] = "I64:1x7=0,1,2,3,4,5,6"

	names := make([]string, 0, len(tensors))
	for name := range tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) < 50 {
		t.Fatalf("%d tensors are no checkpoint", len(names))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for s := range shards {
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", s+1, shards)
		f := &safetensors.File{Metadata: map[string]string{"format": "pt"}}
		var foreign []string
		for i, name := range names {
			if i%shards != s {
				continue
			}
			files[name] = file
			dtype, _, _ := strings.Cut(tensors[name], ":")
			if strings.ToUpper(dtype) == dtype {
				foreign = append(foreign, name+":"+tensors[name])
				continue
			}
			e, err := parseTensor(name + ":" + tensors[name])
			if err != nil {
				t.Fatal(err)
			}
			f.Entries = append(f.Entries, e)
		}
		var b bytes.Buffer
		if err := safetensors.Write(&b, f); err != nil {
			t.Fatal(err)
		}
		content, err := withForeign(b.Bytes(), foreign)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+file, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	index, err := json.MarshalIndent(map[string]any{"metadata": map[string]any{"total_size": 12345}, "weight_map": files}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/model.safetensors.index.json", index, 0o666); err != nil {
		t.Fatal(err)
	}
	return tensors
}

// A checkpoint is read as it is, and gives what the same tensors give under the names of
// the operands.
func TestCheckpoint(t *testing.T) {
	t.Chdir(t.TempDir())
	tensors := writeCheckpoint(t, "gpt")
	writeFile(t, "hidden.safetensors", "x:f16:2x3x4=0.5,1,2,-1,0,0.25,3,1,1,2,3,4,9,8,7,6,1,1,1,2,0,0,0,1")
	writeFile(t, "bf16.safetensors", "x:bf16:2x4=0.5,1,2,-1,0,0.25,3,1")
	for _, c := range []struct {
		op    string
		names map[string]string // operands to tensors of the checkpoint
		other string            // operand of a file of its own, and the file
	}{
		{"layernorm.forward", map[string]string{"gamma": "transformer.h.3.ln_1.weight", "beta": "transformer.h.3.ln_1.bias"}, "x=hidden.safetensors"},
		{"gemm.forward", map[string]string{"B": "transformer.h.5.attn.c_attn.weight"}, "A=hidden.safetensors"},
		{"gemm.forward", map[string]string{"B": "transformer.h.0.mlp.c_fc.weight"}, "A=bf16.safetensors"},
		{"embedding.forward", map[string]string{"weight": "transformer.wte.weight", "index": "position_ids"}, ""},
		{"softmax.forward", map[string]string{"x": "lm_head.weight"}, ""},
	} {
		args := []string{"run", c.op, "--in", "gpt", "--out", "got.safetensors", "--replace"}
		plain := []string{"run", c.op, "--in", "plain.safetensors", "--out", "want.safetensors", "--replace"}
		if c.other != "" {
			args, plain = append(args, "--in", c.other), append(plain, "--in", c.other)
		}
		var own []string
		for operand, name := range c.names {
			args = append(args, "--tensor", operand+"="+name)
			own = append(own, operand+":"+strings.Replace(tensors[name], "I64", "i32", 1))
		}
		writeFile(t, "plain.safetensors", own...)
		for _, line := range [][]string{args, plain} {
			if code, stdout, stderr := program(t.Context(), line...); code != 0 || stdout == "" || stderr != "" {
				t.Fatalf("%q: exit code %d, %q, %q", line, code, stdout, stderr)
			}
		}
		got, gotErr := os.ReadFile("got.safetensors")
		want, wantErr := os.ReadFile("want.safetensors")
		if gotErr != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of %v differs from the same with tensors of its own", c.op, c.names)
		}
	}

	// Its shards are not needed for anything else.
	if err := os.Remove("gpt/model-00002-of-00003.safetensors"); err != nil {
		t.Fatal(err)
	}
	outcomes := map[int]int{}
	for name := range tensors {
		if strings.HasSuffix(name, "ln_1.bias") {
			code, _, _ := program(t.Context(), "run", "gelu.forward", "--in", "gpt", "--tensor", "x="+name, "--out", "y.safetensors")
			outcomes[code]++
		}
	}
	if outcomes[exitOK] == 0 || outcomes[exitWrongUse] == 0 || len(outcomes) != 2 {
		t.Errorf("exit codes without one of three shards: %v", outcomes)
	}
}

// A tensor can be read from a file that is larger than any memory. A tensor that is too large is refused. The file has holes, and takes no room.
func TestHugeFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const huge = 15_000_000_000_000
	header := fmt.Sprintf(`{"big":{"dtype":"F16","shape":[%d],"data_offsets":[0,%d]},"x":{"dtype":"F16","shape":[1,4],"data_offsets":[%d,%d]}}`, huge/2, huge, huge, huge+8)
	f, err := os.Create("huge.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(8 + len(header) + huge + 8)); err != nil {
		t.Skipf("no files of 15 TB here: %v", err)
	}
	if _, err := f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := program(t.Context(), "run", "softmax.forward", "--in", "huge.safetensors", "--out", "y.safetensors"); code != 0 || stdout != "y  f16  [1 4]\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	code, _, stderr := program(t.Context(), "run", "gelu.forward", "--in", "huge.safetensors", "--tensor", "x=big", "--out", "z.safetensors")
	if code != exitFailed || !strings.Contains(stderr, `huge.safetensors: tensor "big": `) || !strings.Contains(stderr, "out of memory: asked for 15000000000000 bytes") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// Every command in docs/files.md runs, one after the other.
func TestFilesDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeCheckpoint(t, "gpt")
	for path, tensor := range map[string]string{"x.npy": "x:f16:2x4=1", "h.npy": "x:f16:2x4=1", "logits.npy": "x:f32:2x3=1", "label.npy": "x:i32:2=1"} {
		e, err := parseTensor(tensor)
		if err != nil {
			t.Fatal(err)
		}
		if err := npy.WriteFile(path, npy.Array{DType: e.DType, Shape: e.Shape, Data: e.Data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("out", 0o777); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		for line := range strings.Lines(strings.TrimSpace(block)) {
			words := strings.Fields(line)
			if words[0] != "tokitai" {
				t.Errorf("%q is no call of tokitai", line)
				continue
			}
			if code, stdout, stderr := program(t.Context(), words[1:]...); code != 0 || stdout == "" || stderr != "" {
				t.Errorf("%s: exit code %d, %q, %q", strings.TrimSpace(line), code, stdout, stderr)
			}
			ran++
		}
	}
	if ran < 8 {
		t.Errorf("%d commands ran", ran)
	}
}

// Every operation says which tensors it takes with its parameters: it runs with these
// among others, and each that is missing is named.
func TestInputsOfOperations(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"gemm.forward":                               "A B",
		"gemm.forward --param accumulate=true":       "A B C",
		"gemm.grad_a":                                "dC B",
		"gemm.grad_a --param accumulate=true":        "dC B dA",
		"gemm.grad_b":                                "A dC",
		"gemm.grad_b --param accumulate=true":        "A dC dB",
		"softmax.forward":                            "x",
		"softmax.backward":                           "dy y",
		"crossentropy":                               "logits label",
		"gelu.forward":                               "x",
		"gelu.backward":                              "x dy",
		"relu2.forward":                              "x",
		"relu2.backward":                             "x dy",
		"silu.forward":                               "x",
		"silu.backward":                              "x dy",
		"swiglu.forward":                             "gate up",
		"swiglu.backward":                            "dy gate up",
		"embedding.forward":                          "index weight",
		"embedding.backward --param vocab=3":         "index dout",
		"embedding.backward --param accumulate=true": "index dout dweight",
		"layernorm.forward":                          "x gamma beta",
		"layernorm.backward":                         "dy x gamma mean rstd",
		"rmsnorm.forward":                            "x gamma",
		"rmsnorm.residual.forward":                   "x residual gamma",
		"rmsnorm.backward":                           "dy x gamma rstd",
		"rmsnorm.residual.backward":                  "dy dsum sum gamma rstd",
		"sgd.step --param lr=1":                      "weight buffer grad",
		"sgd.step.master --param lr=1 --param dtype.copy=f16":      "weight buffer grad",
		"sgd.nesterov --param lr=1":                                "weight buffer grad",
		"sgd.nesterov.master --param lr=1 --param dtype.copy=bf16": "weight buffer grad",
		"adamw.step --param lr=1 --param t=1":                      "weight m v grad",
		"adamw.step --param lr=1 --param t=1 --param mode=master":  "weight m v grad",
		"adamw.step_all --param lr=1 --param t=1":                  "n.weight n.m n.v n.grad",
	} {
		operands := strings.Fields(want)
		args := append(append([]string{"run"}, strings.Fields(line)...), "--in", "in", "--out", "out", "--replace")
		entry := func(operand string) string {
			switch operand {
			case "label", "index":
				return operand + ":i32:3=0"
			case "gamma", "beta", "mean", "rstd":
				return operand + ":f32:3=1"
			}
			return operand + ":f32:3x3=1"
		}
		tensors := []string{"unknown:f16:1=0", "other.name:f16:1=0"}
		for _, operand := range operands {
			tensors = append(tensors, entry(operand))
		}
		writeFile(t, "in", tensors...)
		if code, stdout, stderr := program(t.Context(), args...); code != 0 || stdout == "" || stderr != "" {
			t.Errorf("%s: exit code %d, %q, %q", line, code, stdout, stderr)
		}
		for i, operand := range operands {
			writeFile(t, "in", slices.Delete(slices.Clone(tensors), i+2, i+3)...)
			if code, _, stderr := program(t.Context(), args...); code != exitWrongUse || !strings.Contains(stderr, operand+" is missing") {
				t.Errorf("%s without %s: exit code %d, %q", line, operand, code, stderr)
			}
		}
	}
}

func TestParseOperandFile(t *testing.T) {
	for text, want := range map[string]operandFile{
		"x.npy":       {"", "x.npy"},
		"x=x.npy":     {"x", "x.npy"},
		"x=a=b":       {"x", "a=b"},
		"./x=x.npy":   {"", "./x=x.npy"},
		"/tmp/a=b":    {"", "/tmp/a=b"},
		`C:\a=b`:      {"", `C:\a=b`},
		"a.m=./x.npy": {"a.m", "./x.npy"},
		"x=":          {"x", ""},
	} {
		if got := parseOperandFile(text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "12B": 12, "5GB": 5_000_000_000, "5gb": 5_000_000_000, "1KB": 1000, "2MiB": 2 << 20, "4GiB": 4 << 30, "3TB": 3e12, "4611686018427387904": 1 << 62,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GB", "0", "-1", "1.5GB", "5 GB", "5GBs", "9223372036854775808", "9223372036854775807", "9999999999GB", "4194305TiB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

// No existing file of --out loses tensors, by whatever name it is reached, unless --replace says
// so.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	const lost = "has tensors that would be lost: "
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, dir string) // beside model.safetensors, with x and w
		args  string                         // DIR is the folder
		want  string                         // of stderr; "" if the run succeeds
	}{
		{"input", nil, "--in DIR/model.safetensors --out DIR/model.safetensors", "model.safetensors " + lost + "w, x; give another file, or --replace to lose what it holds"},
		{"input under its own name", nil, "--in DIR/model.safetensors --out DIR/model.safetensors --tensor y=x", lost + "w; "},
		{"replaced", nil, "--in DIR/model.safetensors --out DIR/model.safetensors --replace", ""},
		{"one output", nil, "--in DIR/model.safetensors --out y=DIR/model.safetensors", lost + "w, x; "},
		{"other path", nil, "--in DIR/model.safetensors --out DIR/sub/../model.safetensors", lost},
		{"symlink", link(os.Symlink), "--in DIR/model.safetensors --out DIR/link.safetensors", "link.safetensors " + lost},
		{"hard link", link(os.Link), "--in DIR/model.safetensors --out DIR/link.safetensors", "link.safetensors " + lost},
		{"link of the input", link(os.Symlink), "--in DIR/link.safetensors --out DIR/model.safetensors", "model.safetensors " + lost},
		{"not an input", nil, "--in DIR/in.safetensors --out DIR/model.safetensors", lost + "w, x; "},
		{"same tensors", func(t *testing.T, dir string) { writeFile(t, dir+"/y.safetensors", "y:f32:7=1") }, "--in DIR/model.safetensors --out DIR/y.safetensors", ""},
		{"no tensors", func(t *testing.T, dir string) { writeFile(t, dir+"/y.safetensors") }, "--in DIR/model.safetensors --out DIR/y.safetensors", ""},
		{"empty", content("y", ""), "--in DIR/model.safetensors --out DIR/y", ""},
		{"text", content("notes.txt", "notes about the model"), "--in DIR/model.safetensors --out DIR/notes.txt", "notes.txt is there already, and is no file of tensors that can be read: the header's length is "},
		{"text, replaced", content("notes.txt", "notes about the model"), "--in DIR/model.safetensors --out DIR/notes.txt --replace", ""},
		{"text as an array", content("notes.npy", "notes about the model"), "--in DIR/model.safetensors --out DIR/notes.npy", "notes.npy is there already"},
		{"text as an index", content("a.safetensors.index.json", "{}"), "--in DIR/model.safetensors --out DIR/a.safetensors.index.json", "is no file of tensors that can be read: weight_map is missing"},
		{"array", nil, "--in DIR/x.npy --out DIR/x.npy", ""},
		{"index", nil, "--in DIR/sharded --out DIR/sharded/m.safetensors.index.json", "m.safetensors.index.json " + lost + "w, x; "},
		{"shard", nil, "--in DIR/sharded --out DIR/sharded/m-00001-of-00001.safetensors", "m-00001-of-00001.safetensors " + lost + "w, x; "},
		{"shard without its index", func(t *testing.T, dir string) { os.Remove(dir + "/sharded/m.safetensors.index.json") },
			"--in DIR/model.safetensors --out DIR/sharded/m.safetensors.index.json", "m-00001-of-00001.safetensors " + lost + "w, x; "},
		{"index, replaced", nil, "--in DIR/sharded --out DIR/sharded/m.safetensors.index.json --replace", ""},
		{"read shard, with reports", func(t *testing.T, dir string) {
			writeFile(t, dir+"/sharded/m-00001-of-00001.safetensors", "x:f32:1x2=0")
		},
			"--in DIR/sharded --out DIR/sharded/m-00001-of-00001.safetensors --tensor y=x --report DIR/report", "--out must not be a file of --in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir+"/model.safetensors", "x:f32:1x2=0", "w:f32:3=1")
			writeFile(t, dir+"/in.safetensors", "x:f32:1x2=0")
			writeFile(t, dir+"/sharded/m-00001-of-00001.safetensors", "x:f32:1x2=0", "w:f32:3=1")
			content("sharded/m.safetensors.index.json", `{"weight_map": {"x": "m-00001-of-00001.safetensors", "w": "m-00001-of-00001.safetensors"}}`)(t, dir)
			if err := npy.WriteFile(dir+"/x.npy", npy.Array{DType: num.F32, Shape: []int{1, 2}, Data: make([]byte, 8)}); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir+"/sub", 0o777); err != nil {
				t.Fatal(err)
			}
			if c.setup != nil {
				c.setup(t, dir)
			}
			before := hashes(t, dir)
			args := append([]string{"run", "softmax.forward"}, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
			code, _, stderr := program(t.Context(), args...)
			switch after := hashes(t, dir); {
			case c.want == "" && (code != 0 || stderr != ""):
				t.Errorf("exit code %d, %s", code, stderr)
			case c.want != "" && (code != exitWrongUse || !strings.Contains(stderr, c.want)):
				t.Errorf("exit code %d, %s\nwant 2, %s", code, stderr, c.want)
			case (after == before) != (c.want != ""):
				t.Errorf("the files were\n%s\nand are\n%s", before, after)
			}
		})
	}
}

// link returns a setup that makes link.safetensors a link to model.safetensors.
func link(make func(old, new string) error) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		if err := make(dir+"/model.safetensors", dir+"/link.safetensors"); err != nil {
			t.Skip(err)
		}
	}
}

// content returns a setup that writes a file.
func content(name, text string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// hashes lists the files below a folder with the hashes of their contents.
func hashes(t *testing.T, dir string) string {
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&list, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// Outputs that name one file by two paths are both in it.
func TestOneFileByTwoPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir+"/in.safetensors", "x:f32:2x2=0", "gamma:f32:2=1", "beta:f32:2=1")
	code, _, stderr := program(t.Context(), "run", "layernorm.forward", "--in", dir+"/in.safetensors", "--out", "y="+dir+"/o.safetensors", "--out", "mean="+dir+"/./o.safetensors")
	if code != 0 {
		t.Fatal(stderr)
	}
	f, err := safetensors.ReadFile(dir + "/o.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != 2 {
		t.Errorf("the file has %d tensors, want y and mean", len(f.Entries))
	}
}
