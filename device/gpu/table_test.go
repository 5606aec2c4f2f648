package gpu

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"tokitai/device/gpu/driver"
)

// tableCall mixes a table into a buffer: dst = 31·dst + table + 1.
type tableCall struct {
	call  Call
	table []byte
}

func newTableCall(f *Function, dst *Buffer, table []byte) *tableCall {
	return &tableCall{table: table, call: Call{Uses: []Use{{dst, true}}, TableBytes: len(table),
		Launches: []Launch{{Function: f, Grid: one, Block: warp, Params: mixParams(dst.Pointer(), 0, len(table), 1)}}}}
}

func (c *tableCall) Place(_, _ uint64) {}

func (c *tableCall) PlaceTable(address uint64) []byte {
	binary.LittleEndian.PutUint64(c.call.Launches[0].Params[8:], address)
	return c.table
}

func tableOf(n int, k byte) []byte { return bytes.Repeat([]byte{k}, n) }

// TestTables gives many calls tables, of which the device has copied none yet when the next
// call has its own: no table is overwritten before its call has read it.
func TestTables(t *testing.T) {
	f := newFake()
	table, copies := f.table(), 0
	copyIn := table.CopyIn
	table.CopyIn = func(dst driver.Pointer, src []byte, s driver.Stream) error {
		copies++
		return copyIn(dst, src, s)
	}
	d, err := Open(table, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		f.checkEmpty(t)
	})
	queues := []*Queue{queue(t, d), queue(t, d)}
	functions := []*Function{load(t, d, "mix"), load(t, d, "other")}
	const n = 600
	dst := alloc(t, d, n)
	want := make([]byte, n)
	for i := range 40 {
		size := min(100+20*(i%30), n) // tables outgrow their memory
		c := newTableCall(functions[i/2%2], dst, tableOf(size, byte(3*i)))
		if err := queues[i/7%2].Run(&c.call, c); err != nil {
			t.Fatal(err)
		}
		mix(want[:size], c.table, 1)
	}
	got := make([]byte, n)
	if err := dst.CopyOut(0, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %v, want %v, error %v", got[:4], want[:4], err)
	}

	// The same table again is not copied.
	before := copies
	same := newTableCall(functions[0], dst, tableOf(64, 200))
	for range 10 {
		if err := queues[0].Run(&same.call, same); err != nil {
			t.Fatal(err)
		}
		mix(want[:64], same.table, 1)
	}
	if copies != before+1 {
		t.Errorf("one table for ten calls is copied %d times", copies-before)
	}
	if err := dst.CopyOut(0, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v, error %v", got[:4], want[:4], err)
	}

	// A copy that fails is made again by the next call.
	f.fail["CopyIn"] = &driver.Error{Call: "cuMemcpyHtoDAsync", Class: driver.Failed}
	other := newTableCall(functions[0], dst, tableOf(64, 201))
	if err := queues[0].Run(&other.call, other); err == nil {
		t.Error("a copy that fails is no error")
	}
	delete(f.fail, "CopyIn")
	for _, c := range []*tableCall{other, same} {
		if err := queues[0].Run(&c.call, c); err != nil {
			t.Fatal(err)
		}
		mix(want[:64], c.table, 1)
	}
	if err := dst.CopyOut(0, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after an error: got %v, want %v, error %v", got[:4], want[:4], err)
	}
	if err := queues[1].Close(); err != nil { // the device closes the other
		t.Fatal(err)
	}
}

// TestTableMemoryIsReused gives the memory of a table to a buffer before the call has read
// the table, and the other way round.
func TestTableMemoryIsReused(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	q, function := queue(t, d), load(t, d, "mix")
	dst := alloc(t, d, 600)
	want, got := make([]byte, 600), make([]byte, 600)
	run := func(size int, k byte) {
		t.Helper()
		c := newTableCall(function, dst, tableOf(size, k))
		if err := q.Run(&c.call, c); err != nil {
			t.Fatal(err)
		}
		mix(want[:size], c.table, 1)
	}
	run(256, 7)
	run(600, 9) // the table of 256 bytes gives up its memory
	b := alloc(t, d, 256)
	if err := b.CopyIn(0, tableOf(256, 99)); err != nil {
		t.Fatal(err)
	}
	if err := b.CopyOut(0, make([]byte, 256)); err != nil {
		t.Fatal(err)
	}
	if err := dst.CopyOut(0, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v, error %v", got[:4], want[:4], err)
	}

	other := queue(t, d)
	call := mixCall(function, b, dst, 5)
	if err := other.Run(call, nil); err != nil {
		t.Fatal(err)
	}
	b.Close()
	q, function = queue(t, d), load(t, d, "other")
	run(256, 3) // in the memory of b, which is still to be written
	if err := dst.CopyOut(0, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v, error %v", got[:4], want[:4], err)
	}
	for queue := range d.queues {
		if queue != d.transfers.queue {
			if err := queue.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dst.Close()
	if u := d.Usage(); u.HeldBytes != u.CachedBytes {
		t.Errorf("of %d bytes, %d are not free", u.HeldBytes, u.HeldBytes-u.CachedBytes)
	}
}

// TestTablesRefused holds wrong use of tables.
func TestTablesRefused(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	q, dst := queue(t, d), alloc(t, d, 64)
	c := newTableCall(load(t, d, "mix"), dst, tableOf(64, 1))
	if err := q.Run(&c.call, nil); err == nil || !strings.Contains(err.Error(), "a table without a TablePlacer") {
		t.Errorf("no TablePlacer: %v", err)
	}
	c.call.TableBytes = 65
	if err := q.Run(&c.call, c); err == nil || !strings.Contains(err.Error(), "a table of 64 bytes, want 65") {
		t.Errorf("another size: %v", err)
	}
	c.call.Launches, c.call.TableBytes = nil, 64
	if err := q.Run(&c.call, c); err == nil || !strings.Contains(err.Error(), "a table without launches") {
		t.Errorf("no launches: %v", err)
	}
}

// TestTablesAllocateNothing holds for calls whose tables fit.
func TestTablesAllocateNothing(t *testing.T) {
	d, err := Open(noop(), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := queue(t, d)
	c := newTableCall(load(t, d, "mix"), alloc(t, d, 64), tableOf(64, 1))
	n := testing.AllocsPerRun(100, func() {
		c.table[0]++
		err = q.Run(&c.call, c)
	})
	if n > 1 || err != nil { // the fake driver queues a copy
		t.Errorf("%v allocations, %v", n, err)
	}
}
