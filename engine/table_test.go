package engine_test

import (
	"errors"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// turned reads rows of a table and of a list by two indices.
var turned = def.Must(def.Rowwise("turned", func(b *def.Builder) {
	pos, slot := b.InIndexOf("pos", "P"), b.InIndexOf("slot", "S")
	x := b.In("x", def.Only(num.F32))
	table, second := b.InTable("table", "P", def.Only(num.F32)), b.InTable("second", "P", def.Only(num.F32))
	b.Out("y", x.Add(table.At(pos)).Add(second.At(pos)), def.Only(num.F32))
	b.OutRow("w", b.InList("list", "S", def.Only(num.F32)).At(slot).Add(def.One), def.Only(num.F32))
}))

// turnedCall returns a call of turned on 3 rows of 9 columns, with tables of 5 rows and a list of 2.
func turnedCall(t *testing.T, dev device.Device, pos, slot []int32) engine.Args {
	t.Helper()
	floats := func(from float32, shape ...int) *tensor.Tensor {
		x := filled(t, dev, num.F32, 0, shape...)
		values := make([]float32, x.Len())
		for i := range values {
			values[i] = from + float32(i)
		}
		if err := x.SetFloat32s(values); err != nil {
			t.Fatal(err)
		}
		return x
	}
	ints := func(values []int32) *tensor.Tensor {
		x, err := tensor.FromInt32(dev, values, len(values))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	return engine.Args{
		"pos": ints(pos), "slot": ints(slot), "x": floats(0, 3, 9), "table": floats(1000, 5, 9), "second": floats(0, 5, 9), "list": floats(0.5, 2),
		"y": filled(t, dev, num.F32, 77, 3, 9), "w": filled(t, dev, num.F32, 77, 3),
	}
}

// TestTables calls turned with indices at both ends of its tables, again and again the same, and
// out of range where that is allowed, on the host and on a simulated GPU.
func TestTables(t *testing.T) {
	for name, dev := range map[string]device.Device{"cpu": cpu.Queue().Device(), "sim": gputest.NeedsSim(t, 32)} {
		for _, test := range []struct {
			pos, slot []int32
			skips     bool
		}{
			{[]int32{4, 0, 4}, []int32{1, 0, 1}, false},
			{[]int32{-1, 5, 2}, []int32{1, 2, -1}, true},
			{[]int32{-1 << 31, 1<<31 - 1, 3}, []int32{0, 1 << 30, 0}, true},
		} {
			var opts []engine.CallOption
			if test.skips {
				opts = append(opts, engine.WithBadIndex(engine.Skip))
			}
			args := turnedCall(t, dev, test.pos, test.slot)
			q := queueOn(t, dev)
			if err := engine.Run(q, turned, args, opts...); err != nil {
				t.Fatal(err)
			}
			y, err := args["y"].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			w, _ := args["w"].Float32s()
			for r := range 3 {
				want := float32(1)
				if s := test.slot[r]; s >= 0 && s < 2 {
					want = 1.5 + float32(s)
				}
				if w[r] != want {
					t.Errorf("%s: w[%d] of slot %d is %v, want %v", name, r, test.slot[r], w[r], want)
				}
				for c := range 9 {
					want := float32(9*r + c)
					if p := test.pos[r]; p >= 0 && p < 5 {
						want += 1000 + 2*float32(9*p+int32(c))
					}
					if got := y[9*r+c]; got != want {
						t.Errorf("%s: y[%d,%d] at position %d is %v, want %v", name, r, c, test.pos[r], got, want)
					}
				}
			}
		}
	}
}

// TestTableErrors has the mistakes of a call with tables. Nothing is written.
func TestTableErrors(t *testing.T) {
	q := cpu.Queue()
	for name, test := range map[string]struct {
		change func(args engine.Args)
		want   string
	}{
		"columns": {func(a engine.Args) { a["table"] = filled(t, q.Device(), num.F32, 0, 5, 8) }, "table has shape [5 8], want [P 9], rows with a value for each column"},
		"rank":    {func(a engine.Args) { a["table"] = filled(t, q.Device(), num.F32, 0, 1, 5, 9) }, "table has shape [1 5 9], want [P 9]"},
		"rows":    {func(a engine.Args) { a["second"] = filled(t, q.Device(), num.F32, 0, 4, 9) }, "second has shape [4 9], want 5 rows like table"},
		"list":    {func(a engine.Args) { a["list"] = filled(t, q.Device(), num.F32, 0, 2, 9) }, "list has shape [2 9], want [S], one value for each of its rows"},
		"overlap": {func(a engine.Args) { a["x"] = rowsOf(t, a["table"], 0, 3); a["y"] = a["x"] }, "y overlaps table, want memory of its own"},
		"index":   {func(a engine.Args) { a["pos"], _ = tensor.FromInt32(q.Device(), []int32{0, 5, 1}, 3) }, "pos[1] is 5, want 0 to 4"},
		"below":   {func(a engine.Args) { a["slot"], _ = tensor.FromInt32(q.Device(), []int32{0, 1, -1}, 3) }, "slot[2] is -1, want 0 to 1"},
	} {
		args := turnedCall(t, q.Device(), []int32{0, 1, 2}, []int32{0, 1, 0})
		test.change(args)
		before, _ := args["y"].Float32s()
		err := engine.Run(q, turned, args)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		var bad *engine.IndexError
		if isIndex := name == "index" || name == "below"; errors.As(err, &bad) != isIndex {
			t.Errorf("%s: %v is an index error: %t", name, err, !isIndex)
		}
		after, _ := args["y"].Float32s()
		for i := range after {
			if after[i] != before[i] {
				t.Fatalf("%s: y[%d] has changed", name, i)
			}
		}
	}
}

func rowsOf(t *testing.T, x *tensor.Tensor, from, to int) *tensor.Tensor {
	t.Helper()
	v, err := x.Slice(from, to, 0, x.Cols())
	if err != nil {
		t.Fatal(err)
	}
	return v
}
