package gpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// TestStreams compares random streams with the reference, on values of every kind, also where nothing
// is visible.
func TestStreams(t *testing.T) {
	t.Parallel()
	p := &tables{}
	g := gen.New("streams")
	for i := range testlevel.Pick(4, 30, 300) {
		d, draw := stream(g, i%2 == 1)
		dtypes := randdef.DTypes(g, d)
		k := p.compile(t, d, dtypes)
		for range 4 {
			sizes := draw(g)
			c := randdef.NewCase(g, d, dtypes, sizes)
			p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes), k, c.Memory, c.Params...)
		}
	}
	for warp, seed := range map[int]uint64{32: 0, 64: 7} {
		if text := p.run(t, simtest.Plain, warp, seed); text != "" {
			t.Fatal(text)
		}
	}
}

// stream returns a random stream, and how its sizes are drawn.
func stream(g *gen.Generator, isPaged bool) (*def.Definition, func(*gen.Generator) map[string]int) {
	if isPaged {
		return randdef.PagedStream(g), randdef.PagedSizes
	}
	return randdef.Stream(g), randdef.StreamSizes
}

// TestStreamsMMA compares random streams on tensor cores with the reference, in the models of Hopper and
// of Ampere.
func TestStreamsMMA(t *testing.T) {
	models := []def.Accum{def.MMA(16, 25), def.MMA(8, 24)}
	if isSmoke() {
		models = models[:1] // compilers take long
	}
	for n, accum := range models {
		t.Run(accum.String(), func(t *testing.T) {
			t.Parallel()
			p := &tables{accum: accum}
			g := gen.New(fmt.Sprint("streams of matrices", n))
			for i := range testlevel.Pick(2, 6, 60) {
				d, draw := stream(g, i%2 == 1)
				dtypes := d.DTypes([]num.DType{num.F16, num.BF16}[(i/2+n)%2])
				p.variant = gpu.Variant((i + i/2 + n) % 2)
				k := p.compile(t, d, dtypes)
				depth := []int{24, 128, 64, 17, 40, 8}[i%6] // an entry takes seconds to compile
				for range testlevel.Pick(6, 4, 8) {
					sizes := draw(g)
					sizes["D"] = depth
					lay := func(int) trial.Layout { return trial.Layout{Offset: 1, Gap: 3} }
					if p.variant == gpu.Vector {
						sizes["D"], lay = roundUp(depth, 8), nil
					}
					c := randdef.NewCase(g, d, dtypes, sizes)
					p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes, p.variant), k, trial.CopyOf(d, c.Operands, lay), c.Params...)
				}
			}
			addLong(t, p, g, 20)
			addLong(t, p, g, 50)
			if text := p.run(t, simtest.Plain, 32, uint64(n)); text != "" {
				t.Fatal(text)
			}
		})
	}
}

// TestStreamsHopper does so with wgmma, also for sequences that begin and end within tiles and blocks, and for values that are not finite.
func TestStreamsHopper(t *testing.T) {
	t.Parallel()
	p := &tables{accum: hopperModel, isWgmma: true}
	g := gen.New("streams of wgmma")
	for i := range testlevel.Pick(1, 2, 20) {
		d := randdef.Stream(g)
		dtypes := d.DTypes([]num.DType{num.BF16, num.F16}[i%2])
		k := p.compile(t, d, dtypes)
		for range testlevel.Pick(4, 4, 8) {
			sizes := randdef.StreamSizes(g)
			sizes["D"] = []int{64, 128, 72, 8}[i%4] // an entry takes seconds to compile
			c := randdef.NewCase(g, d, dtypes, sizes)
			p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes), k, trial.CopyOf(d, c.Operands, func(j int) trial.Layout { return trial.Layout{Gap: alignedGap(c.Operands[j], 8*(i%2))} }), c.Params...)
		}
	}
	addLong(t, p, g, 50)
	if text := p.run(t, simtest.Plain, 32, 0); text != "" {
		t.Fatal(text)
	}
}

// addLong adds a call whose last sequence has four segments, on values between which every join of
// segments counts: none of them is infinite, or outweighs the others. Blocks take segments in parallel
// where there are few tokens, and else one after another.
func addLong(t *testing.T, p *tables, g *gen.Generator, tokens int) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("long", form, func(b *def.StreamBuilder) {
		b.Weigh(b.Score().Mul(b.Param("kappa")), b.Key().LessEqual(b.Query()), b.In("sink", []string{"G", "J"}))
	}))
	dtypes, sizes := d.DTypes(num.BF16), map[string]int{"T": tokens, "S": 3*def.StreamSegment + 300, "G": 1, "J": 2, "D": 16, "B": 2}
	var operands []num.Array
	for i := range d.Operands {
		a := d.Operands[i].NewArray(dtypes[i], sizes)
		switch {
		case d.Operands[i].IsOffsets:
			a.SetBits(1, 0, 3) // a short sequence, then a long one
			a.SetBits(2, 0, uint32(sizes[d.Operands[i].Bound]))
		case d.Operands[i].IsIn:
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, float32(g.Below(256))/128-1)
				}
			}
		}
		operands = append(operands, a)
	}
	p.variant = gpu.Vector
	p.place(t, fmt.Sprintf("four segments, %d tokens", tokens), p.compile(t, d, dtypes), trial.CopyOf(d, operands, nil), 0.4)
}

// TestPagesAreChecked has lengths and tables of pages in and out of range: only pages in use are checked,
// and a call that is refused writes nothing.
func TestPagesAreChecked(t *testing.T) {
	t.Parallel()
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", Lengths: "klen", Pages: "pages", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("paged", form, func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	k, err := gpu.Compile(d, d.DTypes(num.F32), gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	program := simtest.Compile(t, k.Source.Text, simtest.Plain)
	sizes := map[string]int{"T": 2, "G": 1, "J": 1, "D": 2, "P": 4, "N": 16, "M": 3, "B": 2}
	const passed = gpu.Passed
	for i, x := range []struct {
		lengths [2]int32
		pages   [6]int32
		want    [2]uint64 // of lengths and of pages
	}{
		{[2]int32{48, 48}, [6]int32{0, 1, 2, 3, 3, 0}, [2]uint64{passed, passed}},
		{[2]int32{0, 16}, [6]int32{-1, -1, 99, 3, -1, 4}, [2]uint64{passed, passed}},
		{[2]int32{16, 17}, [6]int32{0, -1, 99, 3, -1, 4}, [2]uint64{passed, 4<<32 | 0xffffffff}},
		{[2]int32{16, 48}, [6]int32{0, -1, 99, 3, 0, 4}, [2]uint64{passed, 5<<32 | 4}},
		{[2]int32{1, 1}, [6]int32{4, -1, -1, -1, -1, -1}, [2]uint64{passed, 0<<32 | 4}},
		{[2]int32{16, 49}, [6]int32{0, 0, 0, 0, 0, 0}, [2]uint64{1<<32 | 49, passed}},
		{[2]int32{-1, 3}, [6]int32{9, 9, 9, 0, 9, 9}, [2]uint64{0<<32 | 0xffffffff, passed}},
	} {
		words := bytes.Repeat([]byte{0xff}, 24)
		buffers := [][]byte{words}
		call := &lower.Call{}
		for j := range d.Operands {
			a := d.Operands[j].NewArray(d.DTypes(num.F32)[j], sizes)
			switch d.Operands[j].Name {
			case "qstart":
				a.SetBits(1, 0, 1)
				a.SetBits(2, 0, 2)
			case "klen":
				trial.FillBits(a, func(r, _ int) uint32 { return uint32(x.lengths[r]) })
			case "pages":
				trial.FillBits(a, func(r, c int) uint32 { return uint32(x.pages[3*r+c]) })
			case "o", "lse":
				copy(a.Data, bytes.Repeat([]byte{trial.GuardByte}, len(a.Data)))
			}
			buffers = append(buffers, a.Data)
			call.Operands = append(call.Operands, lower.Operand{Array: a, Pointer: simtest.Pointer(len(buffers) - 1)})
		}
		var plan gpu.Plan
		if err := k.PlanChecked(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 1}); err != nil || len(plan.Checks) != 3 || plan.Checks[1].Bound != 49 || plan.Checks[2].Bound != 4 {
			t.Fatalf("checks %+v, %v", plan.Checks, err)
		}
		plan.Place(0, simtest.Pointer(0))
		if err := program.Run(simtest.Run{Warp: 32, Seed: uint64(i), Buffers: buffers, Launches: simtest.LaunchesOf(k, &plan)}); err != nil {
			t.Fatal(err)
		}
		for j, want := range x.want {
			if got := binary.LittleEndian.Uint64(words[8*(j+1):]); got != want {
				t.Errorf("lengths %v, pages %v: check %d found 0x%x, want 0x%x", x.lengths, x.pages, j+1, got, want)
			}
		}
		out := call.Operands[d.Operand("o")].Data
		if isWritten := !bytes.Equal(out, bytes.Repeat([]byte{trial.GuardByte}, len(out))); isWritten != (x.want == [2]uint64{passed, passed}) {
			t.Errorf("lengths %v, pages %v: written %v", x.lengths, x.pages, isWritten)
		}
	}
}

// TestFewQueries: the launches go by sizes that the host knows.
func TestFewQueries(t *testing.T) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", Lengths: "klen", Pages: "pages", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("paged", form, func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	k, err := gpu.CompileWeighMMA(d, d.DTypes(num.BF16), gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		tokens, sequences, pages int
		grids                    [][3]uint32
	}{
		{64, 64, 64, [][3]uint32{{264, 1, 1}, {512, 1, 1}}},                  // segments of 64 sequences and 4 heads, on 132 multiprocessors
		{1, 1, 64, [][3]uint32{{16, 1, 1}, {8, 1, 1}}},                       // fewer segments than multiprocessors
		{16, 1, 64, [][3]uint32{{16, 4, 1}, {128, 1, 1}}},                    // of 64 rows that share keys
		{17, 1, 64, [][3]uint32{{16, 1, 1}}},                                 // one after another
		{1, 1, 1 << 14, [][3]uint32{{264, 1, 1}, {8, 1, 1}}},                 // a long cache
		{1 << 14, 1 << 14, 1 << 10, [][3]uint32{{16 * (1<<14 + 128), 1, 1}}}, // whose parts would need much memory
	} {
		sizes := map[string]int{"T": x.tokens, "G": 4, "J": 4, "D": 128, "P": 1, "N": 64, "M": x.pages, "B": x.sequences}
		call := &lower.Call{}
		for i := range d.Operands {
			rows, cols := d.Operands[i].Matrix(sizes)
			a := num.Array{DType: d.DTypes(num.BF16)[i], Rows: rows, Cols: cols, Stride: cols}
			n := rows * cols
			for _, letter := range d.Operands[i].BatchDims() {
				n /= sizes[letter]
				a.Batch.Append(sizes[letter], n)
			}
			call.Operands = append(call.Operands, lower.Operand{Array: a, Pointer: 1 << 20})
		}
		var plan gpu.Plan
		if err := k.Plan(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 132, SharedBytes: 227 << 10}); err != nil {
			t.Fatal(err)
		}
		var grids [][3]uint32
		for _, l := range plan.Launches {
			grids = append(grids, l.Grid)
		}
		if !slices.Equal(grids, x.grids) {
			t.Errorf("%d tokens of %d sequences with %d pages: got grids %v, want %v", x.tokens, x.sequences, x.pages, grids, x.grids)
		}
	}
}
