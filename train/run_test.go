package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/data"
	"tokitai/tensor"
	"tokitai/tensor/safetensors"
)

// errKilled is what every call returns from the moment on at which a process is killed.
var errKilled = errors.New("killed")

// faulty is the disk of the operating system until its n-th call, which fails. A write then writes half of
// its bytes. With killed, all calls behind it fail too.
type faulty struct {
	osDisk
	left   int
	cause  error
	killed bool
	calls  []string
}

func (d *faulty) fails(call string) error {
	d.calls = append(d.calls, call)
	d.left--
	if d.left == 0 || d.left < 0 && d.killed {
		return d.cause
	}
	return nil
}

func (d *faulty) Mkdir(path string) error {
	if err := d.fails("mkdir"); err != nil {
		return err
	}
	return d.osDisk.Mkdir(path)
}

func (d *faulty) open(call string, open func(path string) (file, error), path string) (file, error) {
	if err := d.fails(call); err != nil {
		return nil, err
	}
	f, err := open(path)
	return &faultyFile{f, d}, err
}

func (d *faulty) Create(path string) (file, error) { return d.open("create", d.osDisk.Create, path) }
func (d *faulty) Append(path string) (file, error) { return d.open("append", d.osDisk.Append, path) }

func (d *faulty) Truncate(path string, size int64) error {
	if err := d.fails("truncate"); err != nil {
		return err
	}
	return d.osDisk.Truncate(path, size)
}

func (d *faulty) Rename(from, to string) error {
	if err := d.fails("rename"); err != nil {
		return err
	}
	return d.osDisk.Rename(from, to)
}

func (d *faulty) Remove(path string) error {
	if err := d.fails("remove"); err != nil {
		return err
	}
	return d.osDisk.Remove(path)
}

func (d *faulty) SyncFolder(path string) error {
	if err := d.fails("sync folder"); err != nil {
		return err
	}
	return d.osDisk.SyncFolder(path)
}

type faultyFile struct {
	file
	disk *faulty
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.disk.fails("write"); err != nil {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, err
	}
	return f.file.Write(b)
}

func (f *faultyFile) Sync() error {
	if err := f.disk.fails("sync"); err != nil {
		return err
	}
	return nil // nothing is lost but by a fault
}

func (f *faultyFile) Close() error {
	err := f.disk.fails("close")
	return errors.Join(err, f.file.Close())
}

// do begins or resumes a run and trains it to its end, or to n steps.
func do(d disk, folder string, s Settings, n int) (Entry, error) {
	r, err := open(cpu.Queue(), Team{}, d, folder, s, text(), "text", "")
	if err != nil {
		return Entry{}, err
	}
	defer r.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = r.Train(ctx, func(l Line) {
		if l.Step == n {
			stop()
		}
	})
	return r.trainer.chain, err
}

// whole is a run of tiny that nothing disturbed: its chain and its metrics.
var whole = sync.OnceValues(func() (chain Entry, metrics string) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if chain, err = do(osDisk{}, folder, tiny(), 0); err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, metricsFile))
	if err != nil {
		panic(err)
	}
	return chain, string(text)
})

// TestKill kills a run at every call that changes a file, one after another, and resumes it: the chain and
// the metrics are always those of the run that nothing disturbed.
func TestKill(t *testing.T) {
	t.Parallel()
	s := tiny()
	chain, metrics := whole()
	seen := map[string]bool{}
	for at := 1; ; at++ {
		folder := t.TempDir()
		d := &faulty{left: at, cause: errKilled, killed: true}
		_, err := do(d, folder, s, 0)
		if err == nil {
			break // it came to its end before
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("call %d: %v", at, err)
		}
		seen[d.calls[at-1]] = true
		got, err := do(osDisk{}, folder, s, 0)
		if err != nil || got != chain {
			t.Fatalf("killed at call %d, %s: chain %v, want %v; %v", at, d.calls[at-1], got, chain, err)
		}
		checkFolder(t, folder, metrics)
	}
	for _, call := range []string{"mkdir", "create", "append", "write", "sync", "close", "rename", "sync folder", "remove"} {
		if !seen[call] {
			t.Errorf("no run was killed at a call of %s", call)
		}
	}
}

// checkFolder holds what a finished run leaves to what it should.
func checkFolder(t *testing.T, folder, metrics string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(folder, metricsFile)); err != nil || string(got) != metrics {
		t.Errorf("metrics\n%s\nwant\n%s\n%v", got, metrics, err)
	}
	list, err := Checkpoints(folder)
	if err != nil || len(list) < 2 || len(list) > 3 || list[len(list)-1].Step != tiny().Steps {
		t.Errorf("checkpoints %v, want two or three, the last of step %d; %v", list, tiny().Steps, err)
	}
	err = filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, temporarySuffix) {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInterrupt: a run that is interrupted after any step writes a checkpoint and goes on from there. The metrics are those of
// a run that nothing disturbed, also where the interrupt came before a validation or a sample of the step.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s, folder, undisturbed := tiny(), t.TempDir(), t.TempDir()
	s.CheckpointEvery, s.SampleEvery, s.Keep = 0, 3, 0
	want, err := do(osDisk{}, undisturbed, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= s.Steps; n++ {
		if _, err := do(osDisk{}, folder, s, n); !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted after step %d: %v", n, err)
		}
		if list, err := Checkpoints(folder); err != nil || list[len(list)-1].Step != n {
			t.Fatalf("checkpoints %v, want one of step %d; %v", list, n, err)
		}
	}
	for range 2 { // the second finds everything done
		if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
			t.Errorf("chain %v, want %v; %v", got, want, err)
		}
		if got, want := readFile(t, folder, metricsFile), readFile(t, undisturbed, metricsFile); got != want {
			t.Errorf("metrics\n%s\nwant\n%s", got, want)
		}
	}
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFullDisk: a checkpoint for which there is no room ends the run, and the one before it stays good.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	want, _ := whole()
	probe := &faulty{left: -1}
	if _, err := do(probe, t.TempDir(), s, 0); err != nil {
		t.Fatal(err)
	}
	creates := 0
	at := 1 + slices.IndexFunc(probe.calls, func(call string) bool {
		if call == "create" {
			creates++
		}
		return creates == 3 && call == "write" // run.json, two checkpoints
	})
	_, err := do(&faulty{left: at, cause: syscall.ENOSPC}, folder, s, 0)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want no space", err)
	}
	list, err := Checkpoints(folder)
	if err != nil || len(list) != 1 || list[0].Step != 2 {
		t.Fatalf("checkpoints %v, want that of step 2; %v", list, err)
	}
	if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
		t.Errorf("chain %v, want %v; %v", got, want, err)
	}
}

// TestKeep: the newest checkpoints stay, and that of the best validation.
func TestKeep(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	s.CheckpointEvery, s.ValidateEvery, s.Keep = 1, 1, 1
	r, err := open(cpu.Queue(), Team{}, osDisk{}, folder, s, text(), "text", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	low := 1.0
	r.note(Line{Step: 3, Validation: &low}) // better than all that follow
	if err := r.Train(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	list, err := Checkpoints(folder)
	if err != nil || len(list) != 2 || list[0].Step != 3 || list[1].Step != 7 {
		t.Errorf("checkpoints %v, want those of steps 3 and 7; %v", list, err)
	}
}

// TestDamage: a run whose files are damaged does not go on, and says which file it is.
func TestDamage(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	if _, err := do(osDisk{}, folder, s, 4); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	list, err := Checkpoints(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := list[len(list)-1].Path
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile(filepath.Join(folder, metricsFile))
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(want string) {
		t.Helper()
		if _, err := do(osDisk{}, folder, s, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	change := func(edit func(h *header, f *safetensors.File)) {
		t.Helper()
		h, f, err := readCheckpoint(path)
		if err != nil {
			t.Fatal(err)
		}
		edit(h, f)
		h.State = stateDigest(f.Entries)
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		f.Metadata[headerKey] = string(text)
		if err := safetensors.WriteFile(path, f); err != nil {
			t.Fatal(err)
		}
	}

	flipped := slices.Clone(good)
	flipped[len(flipped)-1] ^= 1
	write(path, flipped)
	refuses("the file is damaged")
	write(path, good[:len(good)-100])
	refuses(filepath.Base(path))
	write(path, good)
	change(func(_ *header, f *safetensors.File) { f.Entries[0].Shape = []int{len(f.Entries[0].Data) / 4, 1} })
	refuses("by the configuration")
	write(path, good)
	change(func(_ *header, f *safetensors.File) { f.Entries = f.Entries[1:] })
	refuses("tensors, want")
	write(path, good)
	change(func(_ *header, f *safetensors.File) { f.Entries[0].Name += "x" })
	refuses("no tensor")
	write(path, good)
	change(func(h *header, _ *safetensors.File) { h.Origin.Config.Layers = 9 })
	refuses("layers is 9, not 1")
	write(path, good)
	change(func(h *header, _ *safetensors.File) { h.Origin.Program = "other" })
	refuses("another program")
	write(path, good)
	change(func(h *header, _ *safetensors.File) { h.Chain = h.Chain[2:] })
	refuses("entry")
	write(path, good)
	f, err := safetensors.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	delete(f.Metadata, headerKey)
	if err := safetensors.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	refuses("no checkpoint of a run")
	write(path, good)

	write(filepath.Join(folder, metricsFile), metrics[:len(metrics)/2])
	refuses("does not reach the entry of the checkpoint of step 4")
	write(filepath.Join(folder, metricsFile), append([]byte("{]\n"), metrics...))
	refuses(metricsFile + ":1")
	write(filepath.Join(folder, metricsFile), metrics)
	want, _ := whole()
	if got, err := do(osDisk{}, folder, s, 0); err != nil || got != want {
		t.Errorf("repaired: chain %v, want %v; %v", got, want, err)
	}
}

// TestOpenErrors: what does not fit a run is refused by name.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	r, err := open(cpu.Queue(), Team{}, osDisk{}, folder, s, text(), "text", "")
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(folder string, s Settings, c *data.Corpus, want string) {
		t.Helper()
		_, err := open(cpu.Queue(), Team{}, osDisk{}, folder, s, c, "text", "")
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	refuses(folder, s, text(), "in use by another process")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	other := s
	other.Rate, other.Keep = 1, 9 // how many checkpoints stay may change
	refuses(folder, other, text(), "rate is 0.01, not 1; begin another run")
	refuses(folder, s, data.New(data.Grammar(6, 120)), "on other data")
	refuses(t.TempDir(), s, data.New([]byte("short")), "the corpus has 6 tokens, want at least 41")
	busy := t.TempDir()
	if err := os.WriteFile(filepath.Join(busy, "thesis.tex"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	refuses(busy, s, text(), "has files and is no run")
	if list, err := os.ReadDir(busy); err != nil || len(list) != 1 {
		t.Errorf("a folder that was refused has %v, %v", list, err)
	}
}

// TestReplay computes steps of a run again, with another number of workers, and finds a step that was
// changed.
func TestReplay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := do(osDisk{}, folder, tiny(), 0); err != nil {
		t.Fatal(err)
	}
	q := queueWith(t, 2)
	for _, from := range []int{0, 5, 6} {
		start := newest(t, folder, from)
		r, err := Replay(t.Context(), q, folder, from, 7-from, text(), nil)
		if err != nil || r.Start != start || r.To != 7 {
			t.Errorf("replay behind step %d: %+v, want a start at %d; %v", from, r, start, err)
		}
	}
	if _, err := Replay(t.Context(), q, folder, 5, 3, text(), nil); err == nil || !strings.Contains(err.Error(), "steps 6 to 8") {
		t.Errorf("steps that were not taken: error %v", err)
	}
	path := filepath.Join(folder, metricsFile)
	metrics, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ReadMetrics(folder)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(metrics), lines[2].Chain, strings.Repeat("0", 64))
	if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Replay(t.Context(), q, folder, 0, 5, text(), nil)
	if e, ok := errors.AsType[*DifferenceError](err); !ok || e.Replayed.Differs != 3 {
		t.Errorf("error %v, want one for step 3", err)
	}
}

func newest(t *testing.T, folder string, upTo int) int {
	t.Helper()
	list, err := Checkpoints(folder)
	if err != nil {
		t.Fatal(err)
	}
	step := 0
	for _, c := range list {
		if c.Step <= upTo {
			step = c.Step
		}
	}
	return step
}

// TestDiff finds the step, the call and the element in which runs part.
func TestDiff(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if _, err := do(osDisk{}, base, tiny(), 0); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(s *Settings)
		want   Difference
	}{
		"nothing": {func(*Settings) {}, Difference{Same: 7}},
		"schedule": {func(s *Settings) { s.Schedule = "constant" }, Difference{
			Settings: []string{"schedule is cosine, not constant"}, Same: 2, Step: 3, How: "loss and norm are the same", Call: "the update of lm_head.weight", Tensor: "lm_head.weight",
		}},
		"dropout": {func(s *Settings) { s.Dropout = 0.5 }, Difference{
			Settings: []string{"dropout is 0.25, not 0.5"}, Step: 1, How: "loss", Call: `the programs differ: "embed.drop.y`,
		}},
		"seed": {func(s *Settings) { s.Seed = 9 }, Difference{Settings: []string{"seed is 1, not 9"}, Step: 1, How: "loss", Call: "embed", Tensor: "tokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := tiny(), t.TempDir()
			c.change(&s)
			if _, err := do(osDisk{}, folder, s, 0); err != nil {
				t.Fatal(err)
			}
			d, err := Diff(t.Context(), cpu.Queue(), [2]string{base, folder}, [2]Data{text(), text()})
			if err != nil {
				t.Fatal(err)
			}
			w := &c.want
			if fmt.Sprint(d.Settings) != fmt.Sprint(w.Settings) || d.Same != w.Same || d.Step != w.Step || !strings.HasPrefix(d.How, w.How) || !strings.HasPrefix(d.Call, w.Call) || d.Tensor != w.Tensor || d.Wrong != "" {
				t.Errorf("got %+v, want %+v", d, w)
			}
		})
	}
}

// TestNotFiniteRun: a run whose loss is not finite ends, with a checkpoint of its last good step.
func TestNotFiniteRun(t *testing.T) {
	t.Parallel()
	s, folder := tiny(), t.TempDir()
	s.CheckpointEvery = 0
	r, err := open(cpu.Queue(), Team{}, osDisk{}, folder, s, text(), "text", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Train(t.Context(), func(l Line) {
		if l.Step == 4 { // as if a step had overflowed
			values := make([]float32, r.trainer.weights[0].Len())
			values[0] = float32(math.Inf(1))
			if err := r.trainer.weights[0].SetFloat32s(values); err != nil {
				t.Error(err)
			}
		}
	})
	if e, ok := errors.AsType[*NotFiniteError](err); !ok || e.Step != 5 || e.Tensor != r.trainer.names[0] {
		t.Errorf("error %v, want one of step 5 that names %s", err, r.trainer.names[0])
	}
	list, err := Checkpoints(folder)
	if err != nil || len(list) != 1 || list[0].Step != 4 {
		t.Errorf("checkpoints %v, want that of step 4; %v", list, err)
	}
}
