package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Exit codes follow one rule: 2 if what was given is wrong, whatever is wrong about it; 1 if the
// machine failed.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir+"/x.safetensors", "x:f32:2x3=0")
	writeFile(t, dir+"/vector.safetensors", "x:f32:3=0")
	writeFile(t, dir+"/i32.safetensors", "x:i32:2x3=0")
	writeFile(t, dir+"/y.safetensors", "y:f32:5x5=0")
	good, err := os.ReadFile(dir + "/x.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f64 := strings.Replace(string(good), `"F32"`, `"F64"`, 1)
	const header = "tokitai-def 1\nrowwise "
	for name, text := range map[string]string{
		"empty.safetensors": "", "cut.safetensors": string(good[:len(good)-1]), "text.safetensors": "no tensors at all", "f64.safetensors": f64,
		"text.npy": "no array at all", "text.json": "{}", "text.npz": "no archive at all", "empty.def": "", "wrong.def": header + "mine\nnothing\n",
		"upper.def":   header + "Mine.Own\nin x[R,C]\nout y[R,C] as x\ny <- x\n",
		"shipped.def": header + "softmax.forward\nin x[R,C]\nout y[R,C] as x\ny <- x*x\n",
		"where.def":   header + "mine\nin x[R,C]\nout y[R,C] as x\ny <- where(x < 0, 0, x)\n",
	} {
		content(name, text)(t, dir)
	}
	if err := os.Mkdir(dir+"/folder", 0o777); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	content("locked", string(good))(t, dir)
	isRoot := os.Chmod(locked, 0) != nil || os.Geteuid() == 0
	const run = "run softmax.forward --out DIR/o.safetensors --in "
	for _, c := range []struct{ line, want string }{
		{run + "DIR/absent.safetensors", "absent.safetensors: no such file or directory"},
		{run + "DIR/absent.npy", "absent.npy: no such file or directory"},
		{run + "DIR/absent.npz", "absent.npz: no such file or directory"},
		{run + "DIR/absent/", "absent"},
		{run + "DIR/x.safetensors/y", "x.safetensors/y: not a directory"},
		{run + "DIR/folder", "folder: the folder has no .safetensors file and no index"},
		{run + "DIR/locked", "locked: permission denied"},
		{run + "DIR/empty.safetensors", "empty.safetensors: the file ends after 0 bytes"},
		{run + "DIR/cut.safetensors", "cut.safetensors: "},
		{run + "DIR/text.safetensors", "text.safetensors: the header's length is "},
		{run + "DIR/f64.safetensors", "f64.safetensors: "},
		{run + "DIR/text.npy", "text.npy: not a .npy file"},
		{run + "DIR/text.npz", "text.npz: not a .npz file"},
		{run + "DIR/text.json", "text.json: weight_map is missing"},
		{run + "DIR/i32.safetensors", "softmax.forward: x is i32, want "},
		{run + "DIR/vector.safetensors", "softmax.forward: x has shape [3], want "},
		{run + "DIR/x.safetensors --tensor x=z", "--tensor x=z: "},
		{run + "DIR/x.safetensors --param eps=1", `softmax.forward: unknown parameter "eps"`},
		{run + "DIR/x.safetensors --device cpuu", `unknown device "cpuu"`},
		{run + "DIR/x.safetensors --lowering cpu.none", `unknown lowering "cpu.none"`},
		{run + "DIR/x.safetensors --report DIR/x.safetensors", "not a directory"},
		{"run softmax.forward --in DIR/x.safetensors --out DIR/absent/o.safetensors", "absent/o.safetensors: no such file or directory"},
		{"run softmax.forward --in DIR/x.safetensors --out DIR/folder", "folder: not a regular file"},
		{"run softmax.forward --in DIR/x.safetensors --out DIR/o.npz", "o.npz: an archive of arrays is read, not written"},
		{"run Softmax.Forward --in DIR/x.safetensors --out DIR/o.safetensors", `unknown operation "Softmax.Forward": names are lower case: softmax.forward`},
		{"explain Softmax", "names are lower case: softmax"},
		{"explain nothing", `unknown operation "nothing"`},
		{"explain softmax.forward --dtype f64", "f64"},
		{"explain DIR/absent.def", "absent.def: no such file or directory"},
		{"explain DIR/folder/", "is a folder without config.json"},
		{"explain DIR/empty.def", "empty.def:1:1: the text is empty"},
		{"explain DIR/wrong.def", "wrong.def:3:1: "},
		{"explain DIR/upper.def", `upper.def:2:1: definition "Mine.Own": names are lower case: mine.own`},
		{"explain DIR/shipped.def", "shipped.def: softmax.forward is an operation of this program, and this definition is another: give it a name of its own, such as my.softmax.forward"},
		{"verify DIR/shipped.def", "give it a name of its own"},
		{"run DIR/shipped.def --in DIR/x.safetensors --out DIR/o.safetensors", "give it a name of its own"},
		{"check DIR/shipped.def --exec true", "give it a name of its own"},
		{"bench DIR/shipped.def", "give it a name of its own"},
		{"explain DIR/where.def", "where.def:5:6: where is neither a node nor a function; write select(b, x, y)"},
		{"verify softmax --dtype f64", `unknown dtype "f64", want f16, bf16, f32, e4m3, e5m2, i32 or i64`},
		{"verify softmax --dtype float16", `unknown dtype "float16", did you mean f16?`},
		{"verify softmax --dtype F16", `unknown dtype "F16", did you mean f16?`},
		{"bench softmax --dtype f64", `unknown dtype "f64", want `},
		{"verify softmax --level fast", `unknown level "fast"`},
		{"verify softmax --out DIR/x.safetensors", "x.safetensors: not a directory"},
		{"verify softmax --html DIR/folder", "--html is "},
		{"verify softmax --html DIR/absent/page.html", "no such file or directory"},
		{"check softmax.forward", "no kernel is given"},
		{"check softmax.forward --exec DIR/absent", "absent"},
		{"check softmax.forward --exec true --library x", "want one of them"},
		{"check softmax.forward --batch DIR/absent --exec {}", "absent: no such file or directory"},
		{"check softmax.forward --in DIR/x.safetensors --got DIR/absent.npy", "absent.npy: no such file or directory"},
		{"check softmax.forward --in DIR/x.safetensors --got DIR/y.safetensors", "softmax.forward: "},
		{"check softmax.forward --got DIR/y.safetensors", "--in is missing"},
		{"evidence DIR/absent", "absent"},
		{"evidence", "no folder or archive given"},
		{"prove nothing", "nothing"},
		{"accuracy nothing", `unknown operation "nothing"`},
		{"completion tcsh", `unknown shell "tcsh"`},
		{"process", "want one of --fd N and --stdio"},
		{"nothing", `unknown command "nothing"`},
		{"version --jsno", "unknown flag --jsno, did you mean --json?"},
	} {
		for _, json := range []string{"", " --json"} {
			if json != "" && !strings.HasPrefix(c.line, "run") && !strings.HasPrefix(c.line, "verify") {
				continue
			}
			line := strings.ReplaceAll(c.line+json, "DIR", dir)
			if isRoot && strings.Contains(line, "locked") {
				continue // nothing is locked to root
			}
			code, stdout, stderr := program(t.Context(), strings.Fields(line)...)
			if code != exitWrongUse || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "\nsee 'tokitai") {
				t.Errorf("%s: exit code %d, %s%s\nwant 2, %s", line, code, stdout, stderr, c.want)
			}
		}
	}
}
