package train

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/data"
	"tokitai/internal/tool"
	"tokitai/model"
	"tokitai/model/tkp1"
)

// stepsOf trains in a folder, and returns loss, norm and weights of each step, in bits.
func stepsOf(t *testing.T, with Team, folder string, s Settings, on Data) (list [][3]string) {
	t.Helper()
	r, err := open(cpu.Queue(), with, osDisk{}, folder, s, on, "", "")
	if err != nil {
		t.Error(err)
		return nil
	}
	defer r.Close()
	if err := r.Train(t.Context(), nil); err != nil {
		t.Error(err)
	}
	lines, err := ReadMetrics(folder)
	if err != nil {
		t.Error(err)
	}
	for _, l := range lines {
		if l.Loss != nil {
			list = append(list, [3]string{l.LossBits, l.NormBits, l.Weights})
		}
	}
	return list
}

// TestMoments: a run that starts with the moments of another one takes the steps that the other one takes, where both have
// the same rate. It is resumed and computed again, and what it writes has the steps of both. Without the
// moments the steps are others.
func TestMoments(t *testing.T) {
	t.Parallel()
	features, table := tinyFeatures()
	momentum := tiny()
	momentum.Optimizer = "sgd"
	for name, c := range map[string]struct {
		s        Settings
		on       Data
		isFile   bool // export it as TKP1
		optional bool // its moments are taken only if the settings say so
	}{
		"TKP1":     {features, table, true, false},
		"features": {features, table, false, true},
		"dropout":  {bf16(tiny()), text(), false, true},
		"sgd":      {momentum, text(), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.s
			s.Schedule = "constant"
			want := stepsOf(t, Team{}, t.TempDir(), s, c.on)[4:]
			half, path := s, t.TempDir()
			half.Steps = 4
			stepsOf(t, Team{}, path, half, c.on)
			if c.isFile {
				to := filepath.Join(t.TempDir(), "exported")
				if err := Export(path, to, false); err != nil {
					t.Fatal(err)
				}
				path = to
			}
			s.Steps, s.Warmup, s.Start = 3, 0, path
			if c.optional {
				s.Moments = takeMoments
			}
			folder := t.TempDir()
			if got := stepsOf(t, Team{}, folder, s, c.on); !slices.Equal(got, want) {
				t.Errorf("steps %v, want those of the run that went on, %v", got, want)
			}
			begun, err := NewStarted(cpu.Queue(), Team{}, &s, c.on)
			if err != nil {
				t.Fatal(err)
			}
			defer begun.Close()
			d, err := ReadDescription(folder)
			if err != nil || d.Origin != begun.origin || begun.origin.Before != 4 || len(begun.origin.Moments) != 64 {
				t.Errorf("origin %+v, want %+v behind 4 steps; %v", d.Origin, begun.origin, err)
			}
			anew := s
			anew.Moments = zeroMoments
			if got := stepsOf(t, Team{}, t.TempDir(), anew, c.on); slices.Equal(got, want) {
				t.Error("without the moments the steps are the same")
			}
			if !c.isFile {
				together(t, 2, s.Config, func(with Team) error {
					if got := stepsOf(t, with, t.TempDir(), s, c.on); !slices.Equal(got, want) {
						t.Errorf("2 ranks take the steps %v, want %v", got, want)
					}
					return nil
				}, c.on)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Replay(t.Context(), cpu.Queue(), folder, 0, 3, c.on, nil); err != nil {
				t.Error(err)
			}
			if err := os.Remove(filepath.Join(folder, checkpointFolder, checkpointName(3))); err != nil {
				t.Fatal(err)
			}
			if got := stepsOf(t, Team{}, folder, s, c.on); !slices.Equal(got, want) {
				t.Errorf("resumed: steps %v, want %v", got, want)
			}
			if start, err := ReadStart(cpu.Queue().Device(), folder); err != nil || start.Steps != 7 {
				t.Errorf("what the run has written has moments of step %d, want 7; %v", start.Steps, err)
			}
			if c.isFile {
				again := filepath.Join(t.TempDir(), "again")
				if err := Export(folder, again, false); err != nil {
					t.Fatal(err)
				}
				if start, err := ReadStart(cpu.Queue().Device(), again); err != nil || start.Steps != 7 {
					t.Errorf("the file that it is exported to has moments of step %d, want 7; %v", start.Steps, err)
				}
			}
		})
	}
}

// written is a TKP1 file that an independent script writes: element k of parameter p is (p + k)/64, of m half as much, and of v a quarter.
// The file counts 70 steps, and its moments 7.
const written = `
import struct, sys
def text(s): return struct.pack("<I", len(s)) + s
names = [("router.param_0", 6), ("router.param_1", 2)]
for e in range(2):
    for i, n in enumerate([12, 4, 4, 4, 16, 4, 4, 4, 8, 2]):
        names.append(("expert_%d.param_%d" % (e, i), n))
with open(sys.argv[1], "wb") as f:
    f.write(b"TKP1" + struct.pack("<III", 1, 70, len(names)) + text(b'{"top_k":1}'))
    for p, (name, n) in enumerate(names):
        f.write(text(name.encode()))
        for part in (1, 2, 4):
            f.write(struct.pack("<I", n) + b"".join(struct.pack("<f", (p + k) / 64 / part) for k in range(n)))
        f.write(struct.pack("<IB", 7, 0))
`

// TestMomentsOfOthers: a trainer has the moments of a file that a script wrote.
func TestMomentsOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "others.tkp1")
	if out, err := exec.Command(tool.Need(t, "python3"), "-c", written, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var rows strings.Builder
	for i := range 20 {
		if err := json.NewEncoder(&rows).Encode(map[string][]int{"features": {i, 1, 2}, "targets": {1, i}}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(file, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := data.ReadTable(file)
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultFeatures()
	s.Features, s.Batch, s.Start = model.Features{Inputs: 3, Outputs: 2, Hidden: 4, Layers: 1, Experts: 2, PerRow: 1}, 2, path
	tr, err := NewStarted(cpu.Queue(), Team{}, &s, table)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if tr.origin.Before != 7 {
		t.Errorf("the moments are of step %d, want 7", tr.origin.Before)
	}
	for name, want := range map[string][]float32{ // parameters 0, 1, 3 and 20, which has 4 inputs and 2 outputs
		"router.weight":           {0, 2, 4, 1, 3, 5},
		"router.bias":             {1, 2},
		"experts.0.layers.0.bias": {3, 4, 5, 6},
		"experts.1.head.weight":   {20, 22, 24, 26, 21, 23, 25, 27},
	} {
		for k, x := range tr.shard.state(slices.Index(tr.names, name)) {
			got, err := x.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			scaled := slices.Clone(want)
			for i := range scaled {
				scaled[i] /= float32(int(64) << k)
			}
			if !slices.Equal(got, scaled) {
				t.Errorf("%s%s is %v, want %v", []string{"", prefixM, prefixV}[k], name, got, scaled)
			}
		}
	}
	take(t, tr, 1)
}

// TestMomentErrors: moments that no run can go on with are refused.
func TestMomentErrors(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	s.Steps = 2
	folder, to := t.TempDir(), filepath.Join(t.TempDir(), "exported")
	stepsOf(t, Team{}, folder, s, table)
	if err := Export(folder, to, false); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(to, NetworkFile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tkp1")
	try := func(s Settings, change func(f *tkp1.File)) error {
		f, err := tkp1.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		out, err := os.Create(path)
		if err == nil {
			err = f.Write(out)
		}
		if err != nil || out.Close() != nil {
			t.Fatal(err)
		}
		s.Start = path
		tr, err := NewStarted(cpu.Queue(), Team{}, &s, table)
		if err == nil {
			tr.Close()
		}
		return err
	}
	none := func(*tkp1.File) {}
	set := func(name, value string) Settings {
		s := s
		if err := s.Set(name + "=" + value); err != nil {
			t.Fatal(err)
		}
		return s
	}
	each := func(f *tkp1.File, change func(p *tkp1.Parameter)) {
		for i := range f.Parameters {
			change(&f.Parameters[i])
		}
	}
	for want, err := range map[string]error{
		"its moments are those of adamw, and optimizer is sgd: want moments=zero": try(set("optimizer", "sgd"), none),
		"its moments are those of sgd, and optimizer is adamw": try(s, func(f *tkp1.File) {
			each(f, func(p *tkp1.Parameter) { clear(p.V) })
		}),
		"its moments are of step 2147483647, want at most 715827880": try(s, func(f *tkp1.File) {
			each(f, func(p *tkp1.Parameter) { p.Step = 1<<31 - 1 })
		}),
		"it has moments that are not 0, of step 0":                        try(s, func(f *tkp1.File) { each(f, func(p *tkp1.Parameter) { p.Step = 0 }) }),
		"router.param_1 is of step 9":                                     try(s, func(f *tkp1.File) { f.Parameters[1].Step = 9 }),
		"element 1 of optimizer.v.router.bias is -1, which no step gives": try(s, func(f *tkp1.File) { f.Parameters[1].V[1] = -1 }),
		"moments is start, and " + path + " has none": try(set("moments", "start"), func(f *tkp1.File) {
			each(f, func(p *tkp1.Parameter) { clear(p.M); clear(p.V) })
		}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for name, err := range map[string]error{
		"no moments": try(s, func(f *tkp1.File) { each(f, func(p *tkp1.Parameter) { clear(p.M); clear(p.V) }) }),
		"zero":       try(set("moments", "zero"), func(f *tkp1.File) { f.Parameters[1].V[1] = -1 }),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for setting, want := range map[string]string{"moments=all": `moments is "all", want start or zero`, "moments=start": "start is not set"} {
		s := s
		if err := s.Set(setting); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", setting, err)
		}
	}
	if !reflect.DeepEqual(set("moments", "zero").Config, s.Config) {
		t.Error("what a run does with moments is in its configuration, want it only in the chain's origin")
	}
}
