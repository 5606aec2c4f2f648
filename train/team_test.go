package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"tokitai/backend/cpu"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/ranks"
)

// together calls lead as rank 0 of several, and has the others follow, on text or other data; each has a queue of its own.
func together(t *testing.T, n int, c Config, lead func(with Team) error, on ...Data) {
	t.Helper()
	as(t, n, c, func(with Team) Team { return with }, lead, on...)
}

// as is together with other settings of the team.
func as(t *testing.T, n int, c Config, set func(with Team) Team, lead func(with Team) error, on ...Data) {
	t.Helper()
	memory := alignedMemory(ranks.MemoryBytes(n, 1<<10))
	var wait sync.WaitGroup
	errs := make([]error, n)
	for r := range n {
		wait.Go(func() {
			g, err := ranks.Join(memory, r, n, ranks.Options{})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			if r == 0 {
				errs[r] = lead(set(Team{Group: g}))
			} else {
				errs[r] = Follow(cpu.Queue(), set(Team{Group: g}), c, append(on, text())[0])
			}
		})
	}
	wait.Wait()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d of %d: %v", r, n, err)
		}
	}
}

// ranked are settings whose 7 leaves ranks share unevenly.
func ranked(s Settings) Settings {
	s.Leaves, s.Batch, s.Steps = 7, 7, 5
	return s
}

// run trains in a folder, up to a step, and returns the metrics.
func run(with Team, folder string, s Settings, upTo int) (metrics string, err error) {
	r, err := open(cpu.Queue(), with, osDisk{}, folder, s, text(), "text", "")
	if err != nil {
		return "", err
	}
	defer r.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = r.Train(ctx, func(l Line) {
		if l.Step == upTo {
			stop()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(folder, metricsFile))
	return string(raw), err
}

// stateOf returns the newest checkpoint of a run.
func stateOf(t *testing.T, folder string) string {
	t.Helper()
	list, err := Checkpoints(folder)
	if err != nil || len(list) == 0 {
		t.Fatalf("checkpoints %v, %v", list, err)
	}
	h, _, err := readCheckpoint(list[len(list)-1].Path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", h)
}

// TestRanks: a run has the metrics and the checkpoints of one process, however many ranks train it, and also if their
// number changes on the way.
func TestRanks(t *testing.T) {
	t.Parallel()
	tail := balanced(1e-3)
	tail.Mixture.Dense = ""
	momentum := bf16(tail)
	momentum.Optimizer, momentum.Decay = "sgd", 0.1
	for name, c := range map[string]struct {
		s     Settings
		ranks []int // one behind the other
	}{
		"f32":             {tiny(), testlevel.Pick([]int{3}, []int{1, 2, 3, 4, 7})},
		"mixture":         {tail, testlevel.Pick([]int{2}, []int{2, 5})},
		"bf16, sgd":       {momentum, testlevel.Pick([]int{7}, []int{4, 7})},
		"bf16, mixture":   {bf16(tail), []int{4}},
		"another number":  {tiny(), []int{4, 1, 3, 2}},
		"several windows": {wide(), []int{3}},
	} {
		s := ranked(c.s)
		folder := t.TempDir()
		want, err := run(Team{}, folder, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		state, changes := stateOf(t, folder), name == "another number"
		folder = t.TempDir()
		for i, n := range c.ranks {
			upTo := i + 1
			if !changes {
				folder, upTo = t.TempDir(), 0
			}
			var got string
			together(t, n, s.Config, func(with Team) (err error) {
				got, err = run(with, folder, s, upTo)
				return err
			})
			if changes && i < len(c.ranks)-1 {
				continue
			}
			if changes { // to the end
				got, err = run(Team{}, folder, s, 0)
			}
			if got != want || err != nil {
				t.Errorf("%s, %d ranks: metrics\n%s\nwant\n%s\n%v", name, n, got, want, err)
			}
			if got := stateOf(t, folder); got != state {
				t.Errorf("%s, %d ranks: checkpoint %s, want %s", name, n, got, state)
			}
		}
	}
}

// wide returns settings for a network with weights that are divided among ranks.
func wide() Settings {
	s := tiny()
	s.Width, s.Heads, s.KVHeads, s.Hidden = 256, 2, 2, 400
	return s
}

// TestRanksNotFinite: a step that is not finite is not taken by any rank, and the error is that of one process.
func TestRanksNotFinite(t *testing.T) {
	t.Parallel()
	s := ranked(tiny())
	s.Rate, s.MinRate, s.Warmup = 1e30, 1e30, 0
	alone := t.TempDir()
	_, want := run(Team{}, alone, s, 0)
	folder := t.TempDir()
	together(t, 3, s.Config, func(with Team) error {
		_, err := run(with, folder, s, 0)
		if _, isNotFinite := errors.AsType[*NotFiniteError](err); !isNotFinite || err.Error() != want.Error() {
			t.Errorf("error %v, want %v", err, want)
		}
		return nil
	})
	if got, want := stateOf(t, folder), stateOf(t, alone); got != want {
		t.Errorf("checkpoint %s, want %s", got, want)
	}
}

// TestRanksRefuse: ranks that cannot train together say why.
func TestRanksRefuse(t *testing.T) {
	t.Parallel()
	other := ranked(tiny())
	other.Seed++
	few := ranked(tiny())
	few.Leaves = 1
	for want, c := range map[string][2]Config{
		"rank 1 differs from rank 0 in the setting seed: 2, not 1": {ranked(tiny()).Config, other.Config},
		"2 ranks for 1 leaves": {few.Config, few.Config},
	} {
		var got [2]error
		memory := alignedMemory(ranks.MemoryBytes(2, 1<<10))
		var wait sync.WaitGroup
		for r := range got {
			wait.Go(func() {
				g, err := ranks.Join(memory, r, 2, ranks.Options{})
				if err != nil {
					got[r] = err
					return
				}
				defer g.Close()
				if r == 0 {
					_, got[r] = NewRanked(cpu.Queue(), Team{Group: g}, c[r], text())
				} else {
					got[r] = Follow(cpu.Queue(), Team{Group: g}, c[r], text())
				}
			})
		}
		wait.Wait()
		for r, err := range got {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: error %v, want one with %q", r, err, want)
			}
		}
	}
}

// TestDivide: shares begin at flat rows, have every element once and in order, and are about even.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][]int{{1}, {5, 7, 9}, {3*num.FlatRow + 5, 10, num.FlatRow, 40*num.FlatRow + 1}} {
		total := 0
		for _, n := range sizes {
			total += n
		}
		for n := 1; n <= 9; n++ {
			ends := make([]int, len(sizes))
			for r, share := range divide(sizes, n) {
				for i, s := range share {
					if s.weight != i || s.len() > 0 && (s.lo%num.FlatRow != 0 || s.lo != ends[i]) {
						t.Errorf("%v among %d: rank %d has %v of weight %d, behind %d", sizes, n, r, s, i, ends[i])
					}
					if s.len() > 0 {
						ends[i] = s.hi
					}
				}
				if got := lengthOf(share); abs(got-total/n) > 2*num.FlatRow {
					t.Errorf("%v among %d: rank %d has %d elements", sizes, n, r, got)
				}
			}
			if !slices.Equal(ends, sizes) {
				t.Errorf("%v among %d: the shares end at %v", sizes, n, ends)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// TestTree: sums over any shares of the leaves grow to the tree of all leaves.
func TestTree(t *testing.T) {
	t.Parallel()
	for leaves := 1; leaves <= 17; leaves++ {
		var want []string
		add := func(list *[]string) func(int) error {
			return func(at int) error {
				l := *list
				*list = append(l[:at:at], "("+l[at]+"+"+l[at+1]+")")
				return nil
			}
		}
		all := tree{leaves: leaves}
		for leaf := range leaves {
			want = append(want, fmt.Sprint(leaf))
			all.push(node{0, leaf}, add(&want))
		}
		for n := 1; n <= leaves; n++ {
			var got []string
			top := tree{leaves: leaves}
			for r := range n {
				own, texts := tree{leaves: leaves}, []string(nil)
				for _, leaf := range leavesOf(leaves, n, r) {
					texts = append(texts, fmt.Sprint(leaf))
					own.push(node{0, leaf}, add(&texts))
				}
				for i, sum := range own.nodes {
					got = append(got, texts[i])
					top.push(sum, add(&got))
				}
			}
			if len(want) != 1 || !slices.Equal(got, want) {
				t.Errorf("%d leaves, %d ranks: %v, want %v", leaves, n, got, want)
			}
		}
	}
}

// alignedMemory returns memory that ranks of this process share.
func alignedMemory(bytes int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, bytes/8)[0])), bytes)
}
