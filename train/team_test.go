package train

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"tokitai/backend/cpu"
	"tokitai/internal/testlevel"
	"tokitai/ranks"
)

// together calls lead as rank 0 of several, and has the others follow; each has a queue of its own.
func together(t *testing.T, n int, c Config, lead func(with Team) error) {
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
				errs[r] = lead(Team{Group: g})
			} else {
				errs[r] = Follow(cpu.Queue(), Team{Group: g}, c, text())
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

// TestRanks: a run has one chain, however many ranks train it.
func TestRanks(t *testing.T) {
	t.Parallel()
	c := tiny().Config
	c.Leaves, c.Batch = 11, 11
	alone := newTrainer(t, cpu.Queue(), c)
	want := take(t, alone, 4)
	state, err := alone.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range testlevel.Pick([]int{2, 3, 8}, []int{1, 2, 3, 4, 8, 11}) {
		together(t, n, c, func(with Team) error {
			tr, err := NewRanked(cpu.Queue(), with, c, text())
			if err != nil {
				return err
			}
			defer tr.Close()
			for tr.Steps() < 4 {
				r, err := tr.Step()
				if err != nil {
					return err
				}
				if tr.Steps() == 4 && r != want {
					t.Errorf("%d ranks: %+v, want %+v", n, r, want)
				}
			}
			f, err := tr.checkpoint()
			if err == nil && fmt.Sprint(f) != fmt.Sprint(state) {
				t.Errorf("%d ranks: other tensors in the checkpoint", n)
			}
			return err
		})
	}
}

// alignedMemory returns memory that ranks of this process share.
func alignedMemory(bytes int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, bytes/8)[0])), bytes)
}
