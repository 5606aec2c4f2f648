package ranks

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// memory returns memory for a group, as ranks of one process share it.
func memory(size, window int) []byte {
	n := MemoryBytes(size, window)
	return unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, n/8)[0])), n)
}

// transports are the implementations of Group: each returns what joins a group as one of its ranks.
var transports = map[string]func(t *testing.T, size int, o Options) func(rank int) (Group, error){
	"memory": func(t *testing.T, size int, o Options) func(rank int) (Group, error) {
		shared := memory(size, 100)
		return func(rank int) (Group, error) { return Join(shared, rank, size, o) }
	},
	"network": func(t *testing.T, size int, o Options) func(rank int) (Group, error) {
		address := freeAddress(t)
		return func(rank int) (Group, error) {
			return Connect(Place{rank, size, address, []byte("a secret of tests")}, o)
		}
	},
}

// each calls f as each rank of a group, and returns their errors.
func each(t *testing.T, transport string, size int, o Options, f func(g Group) error) []error {
	t.Helper()
	join, errs := transports[transport](t, size, o), make([]error, size)
	var wait sync.WaitGroup
	for r := range size {
		wait.Go(func() {
			g, err := join(r)
			if err == nil {
				err = f(g)
				g.Close()
			}
			errs[r] = err
		})
	}
	wait.Wait()
	return errs
}

// message is what a rank sends another one in a call: some bytes, perhaps none, perhaps of several windows.
func message(call, from, to int) []byte {
	random := rand.New(rand.NewPCG(uint64(call), uint64(from<<8|to)))
	data := make([]byte, random.IntN(3)*random.IntN(700))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// TestCalls: every rank gets what the others send it, whatever the lengths.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"memory", "network"} {
		for size := 1; size <= 5; size++ {
			testCalls(t, transport, size)
		}
	}
}

func testCalls(t *testing.T, transport string, size int) {
	errs := each(t, transport, size, Options{}, func(g Group) error {
		for call := range 40 {
			send, receive := make([][]byte, size), make([][]byte, size)
			for r := range size {
				send[r], receive[r] = message(call, g.Rank(), r), make([]byte, len(message(call, r, g.Rank())))
			}
			if err := g.AllToAllV(send, receive); err != nil {
				return err
			}
			for r := range size {
				if !bytes.Equal(receive[r], message(call, r, g.Rank())) {
					return fmt.Errorf("AllToAllV %d: other bytes from rank %d", call, r)
				}
				receive[r] = make([]byte, len(message(call, r, 99)))
			}
			if err := g.AllGather(message(call, g.Rank(), 99), receive); err != nil {
				return err
			}
			for r := range size {
				if !bytes.Equal(receive[r], message(call, r, 99)) {
					return fmt.Errorf("AllGather %d: other bytes from rank %d", call, r)
				}
			}
			root := call % size
			want := message(call, root, 98)
			got := make([]byte, len(want))
			if g.Rank() == root {
				copy(got, want)
			}
			if err := g.Broadcast(root, got); err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("Broadcast %d: other bytes", call)
			}
		}
		return g.Barrier()
	})
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%s, %d ranks: %v", transport, size, err)
	}
}

// TestPeers: if one rank keeps the others from going on, all of them name it.
func TestPeers(t *testing.T) {
	t.Parallel()
	calls := func(g Group) error {
		for range 3 {
			if err := g.Barrier(); err != nil {
				return err
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		options Options
		bad     func(g Group) error // what rank 1 does
		want    string
	}{
		"leaves":      {bad: func(g Group) error { return nil }, want: "rank 1 has"},
		"other call":  {bad: func(g Group) error { return g.Broadcast(1, nil) }, want: "rank 1 "},
		"other bytes": {bad: func(g Group) error { return g.AllGather(make([]byte, 5), make([][]byte, 3)) }, want: "rank 1 "},
		"hangs":       {options: Options{Limit: time.Second}, want: "rank 1 has "},
		"is lost": {bad: func(g Group) error {
			if m, isMemory := g.(*Memory); isMemory {
				m.Lose(1, "has ended: signal killed")
			}
			return nil
		}, want: "rank 1 has "},
	} {
		for transport := range transports {
			waiting, hang := 2, make(chan struct{})
			var mu sync.Mutex
			errs := each(t, transport, 3, c.options, func(g Group) error {
				if g.Rank() == 1 {
					if name == "hangs" {
						<-hang
					} else {
						c.bad(g)
					}
					return nil
				}
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					if waiting--; waiting == 0 && name == "hangs" {
						close(hang)
					}
				}()
				return calls(g)
			})
			for _, r := range []int{0, 2} {
				if e, isPeer := errors.AsType[*PeerError](errs[r]); !isPeer || !strings.HasPrefix(e.Error(), c.want) {
					t.Errorf("%s, %s: rank %d: error %v, want one with %q", transport, name, r, errs[r], c.want)
				}
			}
		}
	}
}

// TestWatch: between calls a rank that is silent or has ended is named, and one that has left is not.
func TestWatch(t *testing.T) {
	t.Parallel()
	named := func(name string, g Watched, want string) {
		t.Helper()
		if err := g.Watch(); fmt.Sprint(err) != want && (want == "<nil>" || err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	shared := memory(2, 100)
	a, errA := Join(shared, 0, 2, Options{Silence: time.Nanosecond})
	b, errB := Join(shared, 1, 2, Options{})
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b.ending <- struct{}{} // it beats no more
	a.Watch()              // the last beat is seen
	named("memory, silent", a, "rank 1 has not shown a sign of life")
	a.Lose(1, "has ended: signal killed")
	named("memory, lost", a, "rank 1 has ended: signal killed")
	b.own().store(stateWord, left)
	named("memory, left", a, "<nil>")

	for _, leaves := range []bool{true, false} {
		join := transports["network"](t, 2, Options{})
		var pair [2]*Network
		var wait sync.WaitGroup
		for r := range pair {
			wait.Go(func() {
				g, err := join(r)
				if err != nil {
					t.Error(err)
					return
				}
				pair[r] = g.(*Network)
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
		defer pair[0].Close()
		named("network", pair[0], "<nil>")
		want := "<nil>"
		if leaves {
			pair[1].Close()
		} else {
			pair[1].peers[0].conn.Close()
			want = "rank 1 has ended"
		}
		<-pair[0].peers[1].failed
		named("network, behind the end", pair[0], want)
	}
}

// TestSilence: a rank that never comes is named.
func TestSilence(t *testing.T) {
	t.Parallel()
	g, err := Join(memory(2, 100), 0, 2, Options{Silence: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Broadcast(0, nil); err == nil || !strings.HasPrefix(err.Error(), "rank 1 has not shown a sign of life for ") {
		t.Errorf("error %v, want rank 1", err)
	}
}

func TestJoinErrors(t *testing.T) {
	t.Parallel()
	m := memory(2, 100)
	g, err := Join(m, 0, 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for want, join := range map[string]func() (*Memory, error){
		"rank 2 of 2":              func() (*Memory, error) { return Join(m, 2, 2, Options{}) },
		"rank 0 has joined before": func() (*Memory, error) { return Join(m, 0, 2, Options{}) },
		"want at least":            func() (*Memory, error) { return Join(m[:64], 1, 2, Options{}) },
	} {
		if _, err := join(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestAgree: ranks that differ have the same error, which names both.
func TestAgree(t *testing.T) {
	t.Parallel()
	for _, bad := range []bool{false, true} {
		errs := each(t, "memory", 3, Options{}, func(g Group) error {
			value := "0123"
			if bad && g.Rank() == 2 {
				value = "4567"
			}
			return Agree(g, []Fact{{"program", strings.Repeat("x", 500)}, {"the data", value}})
		})
		for r, err := range errs {
			if want := "rank 2 differs from rank 0 in the data: 4567, not 0123"; bad && (err == nil || err.Error() != want) || !bad && err != nil {
				t.Errorf("rank %d: %v, want %q: %v", r, err, want, bad)
			}
		}
	}
}
