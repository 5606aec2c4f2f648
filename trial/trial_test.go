package trial_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

// pair has an output before an input, one that is updated, and a value per column.
var pair = def.Must(def.Rowwise("pair", func(b *def.Builder) {
	x, z, w, g := b.In("x"), b.In("z"), b.In("w"), b.InCol("g")
	b.Out("y", x.Mul(g))
	b.Out("w", w.Add(z))
	b.OutRow("s", def.RowSum(x), def.Only(num.F32))
}))

var gather = def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"}))

func layouts(i int) trial.Layout { return trial.Layout{Offset: i % 3, Gap: 1 + i%2, ColumnGap: 3} }

// all are operands of pair, f16 but for s, with values in every input.
func all(t *testing.T) *trial.Operands {
	t.Helper()
	dtypes := pair.Formats()[0]
	x := trial.New(pair, dtypes, map[string]int{"R": 3, "C": 5}, layouts)
	g := gen.New("pair")
	for i := range pair.Operands {
		if pair.Operands[i].IsIn {
			trial.Fill(x.Array(i), func(int, int) float32 { return g.Ordinary() })
		}
	}
	return x
}

func operand(t *testing.T, name string) int {
	t.Helper()
	i := pair.Operand(name)
	if i < 0 {
		t.Fatalf("no operand %s", name)
	}
	return i
}

// kindOf says what a byte of an operand's memory is, worked out from the layout alone.
func kindOf(a num.Array, offset, at int) string {
	size := a.DType.Size()
	element := (at - offset) / size
	switch {
	case at < offset || element >= a.Rows*a.Stride:
		return "outside"
	case element%a.Stride >= a.Cols:
		return "gap"
	}
	return "element"
}

// TestBreachSeesEveryByte changes every single byte of all memory, alone.
func TestBreachSeesEveryByte(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		before := all(t)
		if inPlace && !before.Replace(operand(t, "y"), operand(t, "x")) {
			t.Fatal("y may not replace x")
		}
		if b := before.Clone().Breach(before); b != nil {
			t.Fatalf("nothing has changed: got %q", b.Reason)
		}
		seen := map[string]int{}
		for i := range pair.Operands {
			name, isPlaced := pair.Operands[i].Name, inPlace && pair.Operands[i].Name == "y"
			if isPlaced {
				continue // the same memory as x
			}
			memory, offset := before.Memory(i)
			if offset < trial.GuardBytes || len(memory) < offset+trial.GuardBytes {
				t.Fatalf("%s begins at %d of %d bytes, want guards of %d", name, offset, len(memory), trial.GuardBytes)
			}
			mayWrite := pair.Operands[i].IsOut || inPlace && name == "x"
			for at := range memory {
				after := before.Clone()
				m, _ := after.Memory(i)
				m[at] ^= 0x10
				want := ""
				switch kind := kindOf(before.Array(i), offset, at); {
				case kind == "outside":
					want = "it writes outside " + name
				case kind == "gap":
					want = "it writes between the rows of " + name
				case !mayWrite:
					want = "it writes to its input " + name
				}
				seen[want]++
				got := ""
				if b := after.Breach(before); b != nil {
					if got = b.Reason; b.Operand != i {
						t.Errorf("byte %d of %s: breach of operand %d, want %d", at, name, b.Operand, i)
					}
				}
				if got != want {
					t.Errorf("in place %v: byte %d of %s changed: got %q, want %q", inPlace, at, name, got, want)
				}
			}
		}
		for _, want := range []string{"", "it writes outside s", "it writes outside g", "it writes between the rows of x", "it writes between the rows of w", "it writes between the rows of s", "it writes to its input z", "it writes to its input g"} {
			if seen[want] == 0 {
				t.Errorf("in place %v: no byte belongs to %q", inPlace, want)
			}
		}
	}
}

// TestBreachOfOtherLayout compares operands that are not comparable.
func TestBreachOfOtherLayout(t *testing.T) {
	before := all(t)
	for _, other := range []*trial.Operands{
		trial.New(pair, before.DTypes(), map[string]int{"R": 4, "C": 5}, layouts),
		trial.New(pair, before.DTypes(), map[string]int{"R": 3, "C": 5}, func(int) trial.Layout { return trial.Layout{} }),
	} {
		if b := other.Breach(before); b == nil || b.Reason != "x is not laid out as it was before the call" {
			t.Errorf("got %v, want a breach", b)
		}
	}
}

// TestWrap watches a caller's memory, which has no guards.
func TestWrap(t *testing.T) {
	arrays := all(t).Copies()
	before := trial.Wrap(pair, arrays).Clone()
	after := trial.Wrap(pair, arrays)
	if b := after.Breach(before); b != nil {
		t.Fatalf("nothing has changed: got %q", b.Reason)
	}
	z := arrays[operand(t, "z")]
	z.SetBits(2, 4, z.Bits(2, 4)^1)
	if b := after.Breach(before); b == nil || b.Reason != "it writes to its input z" {
		t.Errorf("z has changed: got %v", b)
	}
	// The gap after the last row is no part of a view's memory.
	strided := all(t).Array(0)
	wrapped := trial.Wrap(pair, append([]num.Array{strided}, arrays[1:]...))
	if memory, offset := wrapped.Memory(0); offset != 0 || len(memory) != ((3-1)*strided.Stride+5)*2 {
		t.Errorf("a view of 3 rows of 5, %d apart, has %d bytes at %d", strided.Stride, len(memory), offset)
	}
	clone := wrapped.Clone()
	operandOf(clone, 0).SetBits(1, 5, 0)
	if b := clone.Breach(wrapped); b == nil || b.Reason != "it writes between the rows of x" {
		t.Errorf("a gap has changed: got %v", b)
	}
}

// TestReplace holds an output to the places that it may take.
func TestReplace(t *testing.T) {
	x := all(t)
	y, in, z, w, s := operand(t, "y"), operand(t, "x"), operand(t, "z"), operand(t, "w"), operand(t, "s")
	for _, test := range []struct {
		out, in int
		want    bool
	}{{w, z, false}, {y, w, false}, {s, in, false}, {y, s, false}, {y, in, true}, {y, z, false}, {y, in, false}} {
		if got := x.Replace(test.out, test.in); got != test.want {
			t.Errorf("%s in the place of %s: got %v, want %v", pair.Operands[test.out].Name, pair.Operands[test.in].Name, got, test.want)
		}
	}
	for what, x := range map[string]*trial.Operands{"the operands": x, "a copy": x.Clone()} {
		operandOf(x, y).SetBits(1, 1, 0x1234)
		if operandOf(x, in).Bits(1, 1) != 0x1234 {
			t.Errorf("%s: y and x are not one memory", what)
		}
	}
	copies := x.Copies()
	copies[y].SetBits(0, 0, 0x4321)
	if copies[in].Bits(0, 0) == 0x4321 || operandOf(x, in).Bits(0, 0) == 0x4321 {
		t.Error("Copies share memory")
	}
	twice := def.Must(def.Rowwise("twice", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x)
		b.Out("z", x)
	}))
	one := trial.New(twice, twice.Formats()[0], map[string]int{"R": 1, "C": 1}, nil)
	if !one.Replace(1, 0) || one.Replace(2, 0) {
		t.Error("want one output in the place of x, and no second")
	}
	other := trial.New(pair, formats(t, num.F16, num.F32), map[string]int{"R": 1, "C": 1}, nil)
	if other.Replace(y, in) {
		t.Error("an output takes the place of an input in another format")
	}
}

// formats are those of pair with x and y stored differently.
func formats(t *testing.T, x, y num.DType) []num.DType {
	t.Helper()
	for _, f := range pair.Formats() {
		if f[operand(t, "x")] == x && f[operand(t, "y")] == y {
			return f
		}
	}
	t.Fatalf("pair is never stored as %v and %v", x, y)
	return nil
}

// TestPoison fills what is only written and leaves everything else alone.
func TestPoison(t *testing.T) {
	for which := range 2 {
		before := all(t)
		x := before.Clone()
		x.Poison(which)
		for i := range pair.Operands {
			o := &pair.Operands[i]
			for r := range x.Array(i).Rows {
				for c := range x.Array(i).Cols {
					got, want := operandOf(x, i).Bits64(r, c), operandOf(before, i).Bits64(r, c)
					if !o.IsIn {
						want = trial.Poisons(x.Array(i).DType)[which]
					}
					if got != want {
						t.Errorf("poison %d: %s[%d,%d] is 0x%x, want 0x%x", which, o.Name, r, c, got, want)
					}
				}
			}
		}
		if b := x.Breach(before); b != nil {
			t.Errorf("poison %d: %s", which, b.Reason)
		}
		y, in := operand(t, "y"), operand(t, "x")
		placed := all(t)
		placed.Replace(y, in)
		placed.Poison(which)
		if operandOf(placed, y).Bits(0, 0) != operandOf(before, in).Bits(0, 0) {
			t.Error("an input was poisoned through the output in its place")
		}
	}
	for d := num.F16; d <= num.I32; d++ {
		p := trial.Poisons(d)
		if p[0] == p[1] || d != num.I32 && (!num.IsNaN(d, p[0]) || !num.IsNaN(d, p[1]) || p[0] == num.Canonical(d, p[0]) || p[1] == num.Canonical(d, p[1])) {
			t.Errorf("poisons of %v are 0x%x: want two unusual NaNs, or two numbers", d, p)
		}
	}
}

// TestUnwritten leaves each element of the outputs out, alone.
func TestUnwritten(t *testing.T) {
	outputs := []int{operand(t, "y"), operand(t, "s")}
	for _, i := range outputs {
		a := all(t).Array(i)
		for r := range a.Rows {
			for c := range a.Cols {
				var suspects []trial.Place
				for which := range 2 {
					before := all(t)
					before.Poison(which)
					after := before.Clone()
					for _, k := range outputs {
						trial.FillBits(after.Array(k), func(row, col int) uint64 {
							switch {
							case k == i && row == r && col == c:
								return operandOf(after, k).Bits64(row, col) // left out
							case row == 0:
								return trial.Poisons(after.Array(k).DType)[0] // written, by chance
							}
							return 0
						})
					}
					suspects = after.Unwritten(before, nil, suspects)
					if which == 0 && len(suspects) < 5 {
						t.Fatalf("the first run has %d suspects, want the poison that was written among them", len(suspects))
					}
				}
				if want := []trial.Place{{Operand: i, Row: r, Col: c}}; !slices.Equal(suspects, want) {
					t.Errorf("got %v, want %v", suspects, want)
				}
			}
		}
	}
	// What is read too, or takes an input's place, may keep its value.
	x := all(t)
	x.Replace(operand(t, "y"), operand(t, "x"))
	for _, p := range x.Unwritten(x.Clone(), nil, nil) {
		if p.Operand != operand(t, "s") {
			t.Errorf("%v is listed as unwritten: it may keep its value", p)
		}
	}
	if n := len(x.Unwritten(x.Clone(), nil, nil)); n != 3 {
		t.Errorf("got %d elements of s, want 3", n)
	}
	large := trial.New(pair, x.DTypes(), map[string]int{"R": 2, "C": trial.MostUnwritten}, nil)
	if n := len(large.Unwritten(large, nil, nil)); n != trial.MostUnwritten {
		t.Errorf("%d elements are listed, want at most %d", n, trial.MostUnwritten)
	}
}

// TestDifferenceSeesEveryElement changes every element of every output, alone.
func TestDifferenceSeesEveryElement(t *testing.T) {
	x := all(t)
	answer := x.Copies()
	if d := x.Difference(answer); d != nil {
		t.Fatalf("a copy differs: %v", d)
	}
	for i := range pair.Operands {
		a := x.Array(i)
		for r := range a.Rows {
			for c := range a.Cols {
				got := x.Clone()
				bits := a.Bits64(r, c) ^ 1
				operandOf(got, i).SetBits64(r, c, bits)
				d := got.Difference(answer)
				switch {
				case !pair.Operands[i].IsOut && d != nil:
					t.Errorf("an input differs: %v", d)
				case pair.Operands[i].IsOut && (d == nil || d.Name != pair.Operands[i].Name || d.Row != r || d.Col != c || d.Got != bits || d.Want != a.Bits64(r, c)):
					t.Errorf("%s[%d,%d] changed: got %v", pair.Operands[i].Name, r, c, d)
				}
			}
		}
	}
	wrong := slices.Clone(answer)
	wrong[operand(t, "y")] = num.NewArray(num.F16, 3, 6)
	if d := x.Difference(wrong); d == nil || d.String() != "y is f16 3×5, want f16 3×6" {
		t.Errorf("got %v for an answer of another size", d)
	}
}

// TestFault reports a breach before a difference.
func TestFault(t *testing.T) {
	want := all(t)
	x := want.Clone()
	if text := x.Fault(want); text != "" {
		t.Errorf("a copy: got %q", text)
	}
	y := x.Array(operand(t, "y"))
	y.SetBits(0, 0, 0x3c00)
	if text := x.Fault(want); text != "y[0,0] is 0x3c00, want 0xa5a5 (1, -0.02204895)" {
		t.Errorf("an output: got %q", text)
	}
	y.Data[y.Cols*2] ^= 1
	if text := x.Fault(want); text != "it writes between the rows of y: 1 byte changed, at element 1 of the gap after row 0, now 0xa5a4 (-0.022033691)" {
		t.Errorf("an output and a gap: got %q", text)
	}
}

// TestRule is the policy of the comparator, case by case.
func TestRule(t *testing.T) {
	if trial.RuleOf(pair) != trial.Values || trial.RuleOf(gather) != trial.Patterns {
		t.Error("a gather copies patterns, everything else computes values")
	}
	for _, test := range []struct {
		what                 string
		d                    num.DType
		x, y                 uint64
		asValues, asPatterns bool
	}{
		{"equal bits", num.F16, 0x3c00, 0x3c00, true, true},
		{"the last bit", num.F16, 0x3c00, 0x3c01, false, false},
		{"zeros of both signs", num.F16, 0x0000, 0x8000, false, false},
		{"zeros of both signs", num.BF16, 0x0000, 0x8000, false, false},
		{"zeros of both signs", num.F32, 0x00000000, 0x80000000, false, false},
		{"a subnormal and zero", num.F32, 0x00000001, 0x00000000, false, false},
		{"infinities of both signs", num.F32, 0x7f800000, 0xff800000, false, false},
		{"infinity and the largest number", num.F16, 0x7c00, 0x7bff, false, false},
		{"infinity and NaN", num.F16, 0x7c00, 0x7c01, false, false},
		{"infinity and infinity", num.BF16, 0xff80, 0xff80, true, true},
		{"NaNs of both signs", num.F16, 0x7e00, 0xfe00, true, false},
		{"NaNs of two payloads", num.BF16, 0x7fc0, 0x7fc1, true, false},
		{"a quiet and a signalling NaN", num.F32, 0x7fc00000, 0x7f800001, true, false},
		{"NaN and a number", num.F32, 0x7fc00000, 0x3f800000, false, false},
		{"a number and NaN", num.F32, 0x3f800000, 0x7fc00000, false, false},
		{"int32 that would be NaNs", num.I32, 0x7fc00000, 0x7fc00001, false, false},
		{"the same int32", num.I32, 0x7fc00001, 0x7fc00001, true, true},
	} {
		if got := trial.Values.Same(test.d, test.x, test.y); got != test.asValues {
			t.Errorf("%s in %v: the same value: got %v, want %v", test.what, test.d, got, test.asValues)
		}
		if got := trial.Patterns.Same(test.d, test.x, test.y); got != test.asPatterns {
			t.Errorf("%s in %v: the same pattern: got %v, want %v", test.what, test.d, got, test.asPatterns)
		}
		x, y := num.NewArray(test.d, 2, 2), num.NewArray(test.d, 2, 2)
		x.SetBits64(1, 1, test.x)
		y.SetBits64(1, 1, test.y)
		if got := trial.Values.Difference("y", x, y) == nil; got != test.asValues {
			t.Errorf("%s in %v: no difference of values: got %v, want %v", test.what, test.d, got, test.asValues)
		}
		if got := trial.Patterns.Difference("y", x, y) == nil; got != test.asPatterns {
			t.Errorf("%s in %v: no difference of patterns: got %v, want %v", test.what, test.d, got, test.asPatterns)
		}
	}
}

func TestDifferenceText(t *testing.T) {
	for want, d := range map[string]trial.Difference{
		"y[0,3] is 0x3c01, want 0x3c00 (1.0009766, 1)":  {Name: "y", Col: 3, DType: num.F16, Got: 0x3c01, Want: 0x3c00},
		"y[2,0] is 0x80000000, want 0x00000000 (-0, 0)": {Name: "y", Row: 2, DType: num.F32, Got: 1 << 31},
		"z[0,0] is 0x7f81, want 0xff80 (NaN, -Inf)":     {Name: "z", DType: num.BF16, Got: 0x7f81, Want: 0xff80},
		"index[7,0] is -1, want 12":                     {Name: "index", Row: 7, DType: num.I32, Got: 0xffffffff, Want: 12},
	} {
		if got := d.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLayout holds addresses to what was asked for.
func TestLayout(t *testing.T) {
	x := trial.New(pair, pair.Formats()[0], map[string]int{"R": 3, "C": 5}, layouts)
	for i := range pair.Operands {
		a := x.Array(i)
		memory, offset := x.Memory(i)
		if want := trial.GuardBytes + i%3*a.DType.Size(); offset != want {
			t.Errorf("%s begins at byte %d, want %d", pair.Operands[i].Name, offset, want)
		}
		stride := map[string]int{"g": 5, "s": 1 + 3}[pair.Operands[i].Name]
		if stride == 0 {
			stride = 5 + 1 + i%2
		}
		if a.Stride != stride {
			t.Errorf("%s has stride %d, want %d", pair.Operands[i].Name, a.Stride, stride)
		}
		if bytes.Count(memory, []byte{trial.GuardByte}) != len(memory) {
			t.Errorf("%s does not start as guard bytes", pair.Operands[i].Name)
		}
		if &memory[offset] != &a.Data[0] || len(a.Data) != cap(a.Data) {
			t.Errorf("%s is not a view of its memory that ends with its last element", pair.Operands[i].Name)
		}
	}
}

// TestOneRow has no stride to speak of.
func TestOneRow(t *testing.T) {
	if a := trial.New(pair, pair.Formats()[0], map[string]int{"R": 1, "C": 5}, layouts).Array(0); a.Stride != 5 {
		t.Errorf("one row of 5 has stride %d", a.Stride)
	}
}

func TestCopyOf(t *testing.T) {
	x := all(t)
	y := trial.CopyOf(pair, x.Arrays(), func(i int) trial.Layout { return trial.Layout{Gap: 7} })
	for i := range pair.Operands {
		if d := trial.Patterns.Difference(pair.Operands[i].Name, y.Array(i), x.Array(i)); d != nil {
			t.Error(d)
		}
	}
	operandOf(y, 0).SetBits(0, 0, 0)
	if operandOf(x, 0).Bits(0, 0) == 0 {
		t.Error("a copy shares memory with what it was made of")
	}
}

// TestFillOrder draws row by row: inputs that are hashed depend on it.
func TestFillOrder(t *testing.T) {
	a := trial.New(pair, pair.Formats()[0], map[string]int{"R": 2, "C": 3}, layouts).Array(0)
	n := 0
	trial.Fill(a, func(r, c int) float32 {
		n++
		return float32(100*n + 10*r + c)
	})
	var got []float32
	for r := range a.Rows {
		for c := range a.Cols {
			got = append(got, a.At(r, c))
		}
	}
	if want := "[100 201 302 410 511 612]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// operandOf returns operand i, to be read or written element by element.
func operandOf(x *trial.Operands, i int) *num.Array {
	a := x.Array(i)
	return &a
}

// TestFillOffsets divides a size in ascending order, whatever the cuts are.
func TestFillOffsets(t *testing.T) {
	for _, test := range []struct {
		cuts, want []int
	}{
		{[]int{}, []int{0, 9}},
		{[]int{4}, []int{0, 4, 9}},
		{[]int{9, 0, 5}, []int{0, 0, 5, 9, 9}},
	} {
		a := num.NewArray(num.I32, len(test.want), 1)
		trial.FillOffsets(a, 9, func(i int) int { return test.cuts[i-1] })
		var got []int
		for r := range a.Rows {
			got = append(got, int(a.Int(r, 0)))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("cuts %v: got %v, want %v", test.cuts, got, test.want)
		}
	}
}
