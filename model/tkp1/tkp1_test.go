package tkp1_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/tool"
	"tokitai/model"
	"tokitai/model/tkp1"
)

var small = model.Features{Inputs: 3, Outputs: 2, Hidden: 4, Layers: 1, Experts: 2, PerRow: 1}

// writer is an independent writer of the format. The element k of parameter p is 100*p + k, its m that plus 0.25, its v plus 0.5; and every
// other parameter has a gradient.
const writer = `
import struct, sys
def text(s): return struct.pack("<I", len(s)) + s
def floats(p, n, more): return b"".join(struct.pack("<f", 100 * p + k + more) for k in range(n))
names = [("router.param_0", 6), ("router.param_1", 2)]
for e in range(2):
    for i, n in enumerate([12, 4, 4, 4, 16, 4, 4, 4, 8, 2]):
        names.append(("expert_%d.param_%d" % (e, i), n))
with open(sys.argv[1], "wb") as f:
    f.write(b"TKP1" + struct.pack("<III", 1, 7, len(names)) + text(b'{"top_k":1,"seed":42}'))
    for p, (name, n) in enumerate(names):
        f.write(text(name.encode()))
        for more in (0, 0.25, 0.5):
            f.write(struct.pack("<I", n) + floats(p, n, more))
        f.write(struct.pack("<IB", 7, p % 2) + (floats(p, n, 0.75) if p % 2 else b""))
`

// reader is an independent reader, which prints a file as JSON.
const reader = `
import json, struct, sys
b, at = open(sys.argv[1], "rb").read(), 4
def number():
    global at
    at += 4
    return struct.unpack_from("<I", b, at - 4)[0]
def text():
    global at
    n = number()
    at += n
    return b[at - n:at].decode()
def floats(n):
    global at
    at += 4 * n
    return list(struct.unpack_from("<%df" % n, b, at - 4 * n))
assert b[:4] == b"TKP1" and number() == 1
step, count, config, parameters = number(), number(), None, []
config = json.loads(text())
for _ in range(count):
    p = {"Name": text(), "Weight": floats(number()), "M": floats(number()), "V": floats(number()), "Step": number()}
    at += 1
    if b[at - 1]:
        p["Grad"] = floats(len(p["Weight"]))
    parameters.append(p)
assert at == len(b)
print(json.dumps({"step": step, "config": config, "parameters": parameters}))
`

// python runs a script on a file.
func python(t *testing.T, script, path string) string {
	t.Helper()
	out, err := exec.Command(tool.Need(t, "python3"), "-c", script, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func written(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.tkp1")
	python(t, writer, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRead reads a file that a script wrote: what is [in, out] there is [out, in] here.
func TestRead(t *testing.T) {
	t.Parallel()
	text := written(t)
	f, err := tkp1.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Features()
	if err != nil || got != small || f.Step != 7 || f.Parameters[1].Grad[1] != 101.75 || f.Parameters[0].Grad != nil || f.Parameters[2].V[3] != 203.5 {
		t.Errorf("%+v at step %d, error %v, want %+v at step 7", got, f.Step, err, small)
	}
	var again bytes.Buffer
	if err := f.Write(&again); err != nil || !bytes.Equal(again.Bytes(), text) {
		t.Errorf("written again, the file differs; error %v", err)
	}
	states, step, err := f.Take()
	if err != nil || len(states) != 22 || step != 7 {
		t.Fatalf("%d weights of step %d, error %v, want 22 of step 7", len(states), step, err)
	}
	for name, want := range map[string][]float32{
		"router.weight":            {0, 2, 4, 1, 3, 5}, // 3 inputs, 2 experts
		"experts.0.layers.0.bias":  {300, 301, 302, 303},
		"experts.0.norms.0.weight": {400, 401, 402, 403},
		"experts.0.norms.0.bias":   {500, 501, 502, 503},
		"experts.1.head.weight":    {2000, 2002, 2004, 2006, 2001, 2003, 2005, 2007},
	} {
		more := func(d float32) []float32 { // the moments of the script
			list := slices.Clone(want)
			for i := range list {
				list[i] += d
			}
			return list
		}
		if state := (tkp1.State{want, more(0.25), more(0.5)}); !reflect.DeepEqual(states[name], state) {
			t.Errorf("%s is %v, want %v", name, states[name], state)
		}
	}
}

// TestWrite writes a file that a script reads.
func TestWrite(t *testing.T) {
	t.Parallel()
	given, err := tkp1.Parse(written(t))
	if err != nil {
		t.Fatal(err)
	}
	taken, err := tkp1.Parse(written(t))
	if err != nil {
		t.Fatal(err)
	}
	states, _, err := taken.Take()
	if err != nil {
		t.Fatal(err)
	}
	f, err := tkp1.New(small, 9, func(name string) (w, m, v []float32, err error) {
		return states[name].Weight, states[name].Weight, nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := f.Write(&file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tkp1")
	if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Step       uint32
		Config     map[string]any
		Parameters []tkp1.Parameter
	}
	if err := json.Unmarshal([]byte(python(t, reader, path)), &read); err != nil {
		t.Fatal(err)
	}
	if read.Step != 9 || read.Config["top_k"] != 1.0 || len(read.Parameters) != 22 {
		t.Errorf("step %d, %d parameters, configuration %v", read.Step, len(read.Parameters), read.Config)
	}
	for i, p := range read.Parameters {
		want := given.Parameters[i]
		want.M, want.V, want.Step, want.Grad = want.Weight, make([]float32, len(want.Weight)), 9, nil
		if !reflect.DeepEqual(p, want) {
			t.Errorf("parameter %d is %+v, want %+v", i, p, want)
		}
	}
	beside, err := f.Architecture()
	if err != nil || f.CheckArchitecture(beside) != nil {
		t.Errorf("the file beside it is %s, error %v", beside, err)
	}
	if err := given.CheckArchitecture(beside); err != nil {
		t.Errorf("it does not fit the same configuration, written by another program: %v", err)
	}
	const want = "hidden_dim is 5, and 4 in the TKP1 file"
	if err := f.CheckArchitecture([]byte(`{"hidden_dim": 5, "hash": "0123456789abcdef", "other": 1}`)); err == nil || err.Error() != want {
		t.Errorf("another width: error %v, want %s", err, want)
	}
}

// TestBroken: files that are cut anywhere, or changed, are refused with the place and the name of what is wrong.
func TestBroken(t *testing.T) {
	t.Parallel()
	text := written(t)
	for n := range text {
		if _, err := tkp1.Parse(text[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes, the file is read", n, len(text))
		} else if e, ok := errors.AsType[*tkp1.FormatError](err); !ok || e.Offset > n {
			t.Fatalf("cut to %d bytes: error %v", n, err)
		}
	}
	first := 4 + 12 + 4 + len(`{"top_k":1,"seed":42}`) + 4 + len("router.param_0") // the length of the first weight
	change := func(at int, b byte) []byte {
		broken := bytes.Clone(text)
		broken[at] = b
		return broken
	}
	for want, broken := range map[string][]byte{
		`byte 0: it begins with "XKP1", want "TKP1"`:                                                  change(0, 'X'),
		"byte 4: the version is 2, want 1":                                                            change(4, 2),
		"byte 20: the configuration is no JSON":                                                       change(20, 'x'),
		fmt.Sprintf("byte %d: router.param_0 needs 67108888 bytes, and the file has ", first+4):       change(first+3, 1),
		fmt.Sprintf("byte %d: m of router.param_0 has 5 elements, want 6 as the weight", first+28):    change(first+28, 5),
		fmt.Sprintf("byte %d: has_grad of router.param_0 is 3, want 0 or 1", first+4*21+4):            change(first+4*21+4, 3),
		fmt.Sprintf("byte %d: 1 bytes behind the last parameter", len(text)):                          append(bytes.Clone(text), 0),
		fmt.Sprintf("byte %d: the length of router.param_0 needs 4 bytes, and the file has 2", first): text[:first+2],
	} {
		if _, err := tkp1.Parse(broken); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(f *tkp1.File){
		"two parameters router.param_1":                     func(f *tkp1.File) { f.Parameters[0].Name = "router.param_1" },
		"23 parameters, want 22":                            func(f *tkp1.File) { f.Parameters = append(f.Parameters, tkp1.Parameter{Name: "x"}) },
		"expert_1.param_9 has 1 elements, want 2":           func(f *tkp1.File) { f.Parameters[21].Weight = f.Parameters[21].Weight[:1] },
		"expert_1.param_8 has 0 elements, want 8, [2 4]":    func(f *tkp1.File) { f.Parameters[20].Name = "expert_1.param_99" },
		"a router of 2 experts, of which the first has 9 p": func(f *tkp1.File) { f.Parameters[11].Name = "x" },
		"features.per_row is 5":                             func(f *tkp1.File) { f.Config = []byte(`{"top_k":5}`) },
		"router.param_1 is of step 8, and router.param_0 o": func(f *tkp1.File) { f.Parameters[1].Step = 8 },
	} {
		f, err := tkp1.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		if _, _, err := f.Take(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := tkp1.New(model.FeatureSizes["dense"], 1, nil); err == nil || !strings.Contains(err.Error(), "no experts") {
		t.Errorf("a network without experts is written: error %v", err)
	}
}
