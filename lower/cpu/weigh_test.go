package cpu_test

import (
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/lower/cpu/mma"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// TestRandomStreams compares random streams with the reference, on values of every kind, also
// where nothing is visible.
func TestRandomStreams(t *testing.T) {
	isPaged := false
	testStreams(t, gen.New("streams"), func(g *gen.Generator) (*def.Definition, map[string]int) {
		if isPaged = !isPaged; isPaged {
			return randdef.PagedStream(g), randdef.PagedSizes(g)
		}
		return randdef.Stream(g), randdef.StreamSizes(g)
	}, cpu.CompileStream)
}

// TestRandomStreamsOfFewQueries does so where sequences have few queries, which are computed for all heads that
// share keys together: from 32 rows on of packed keys, beyond 64 of several queries and 128 of one not together,
// and those that share with nobody.
func TestRandomStreamsOfFewQueries(t *testing.T) {
	isPaged, heads := false, []int{2, 3, 5, 7, 2, 40, 70, 130}
	drawn := 0
	testStreams(t, gen.New("streams of few queries"), func(g *gen.Generator) (*def.Definition, map[string]int) {
		d, sizes := randdef.Stream(g), randdef.StreamSizes(g)
		if isPaged = !isPaged; isPaged {
			d, sizes = randdef.PagedStream(g), randdef.PagedSizes(g)
		}
		sizes["B"] = 1 + g.Below(3)
		sizes["T"], sizes["G"], sizes["J"] = sizes["B"]*(1+g.Below(1+g.Below(6))), 1+g.Below(3), heads[drawn/2%len(heads)]
		drawn++
		return d, sizes
	}, cpu.CompileStream)
}

// TestHeadsSeeApart compares queries of several heads, each of which sees other keys.
func TestHeadsSeeApart(t *testing.T) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	for i, step := range []int32{-100, 200, -100, 200} { // the last head sees least, and most
		queries := 1 + i/2*3
		d := def.Must(def.StreamOf("heads", form, func(b *def.StreamBuilder) {
			most := b.Query().ISub(def.IntConst(300)).IAdd(b.Head().IMul(def.IntConst(step)))
			b.Weigh(b.Score(), b.Key().LessEqual(most))
		}))
		g := gen.New("heads see apart")
		c := randdef.NewCase(g, d, d.DTypes(num.F32), map[string]int{"T": queries, "S": 700, "G": 2, "J": 3, "D": 8, "B": 1})
		randdef.FillNormal(g, c)
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		p, err := cpu.Compile(d, d.DTypes(num.F32), cpu.Short)
		if err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 1, g)
		if text := randdef.Diff(c, want); text != "" {
			t.Errorf("%d queries, step %d: %s", queries, step, text)
		}
	}
}

// TestRandomStreamsBackward does so for gradients.
func TestRandomStreamsBackward(t *testing.T) {
	testStreams(t, gen.New("gradients of streams"), backward, cpu.CompileStreamBackward)
}

func backward(g *gen.Generator) (*def.Definition, map[string]int) {
	return randdef.StreamBackward(g), randdef.StreamSizes(g)
}

// randomStream draws a definition, and sizes for it.
type randomStream func(g *gen.Generator) (*def.Definition, map[string]int)

// compiler lowers a stream or gradients of one by programs for their parts.
type compiler func(*def.Definition, []num.DType, def.Accum, cpu.Packer, func(lower.Piece, []num.DType) (cpu.Program, error)) (cpu.Program, error)

// testStreams compares every other one in machine code.
func testStreams(t *testing.T, g *gen.Generator, random randomStream, compile compiler) {
	sets := machine.Available()
	for i := range testlevel.Pick(32, 300, 4000) {
		d, sizes := random(g)
		dtypes := randdef.DTypes(g, d)
		c := randdef.NewCase(g, d, dtypes, sizes)
		if i/2%2 == 1 {
			randdef.FillNormal(g, c)
		}
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params}); err != nil {
			t.Fatal(err)
		}
		p, err := cpu.Compile(d, dtypes, cpu.Short)
		if set := sets[i/8%len(sets)]; i/4%2 == 1 && set != machine.Plain {
			packer, failed := matmul.Packer(dtypes[d.Operand("q")], set)
			if failed != nil {
				t.Fatal(failed)
			}
			p, err = compile(d, dtypes, def.FMAChain, packer, func(part lower.Piece, dtypes []num.DType) (cpu.Program, error) {
				if part.Product() != nil {
					return matmul.Compile(part.Definition, dtypes, set)
				}
				return jit.CompilePiece(part, dtypes, set)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 1+i/16%2, g) // one worker takes whole heads
		if text := randdef.Diff(c, want); text != "" {
			t.Fatalf("stream %d, stored as %v: %s\n%s", i, dtypes, text, d.Text())
		}
	}
}

// TestRandomStreamsMMA compares random streams under the models of tensor cores with the reference.
func TestRandomStreamsMMA(t *testing.T) {
	drawn := 0
	testStreamsMMA(t, gen.New("streams of matrices"), func(g *gen.Generator) (*def.Definition, map[string]int) {
		if drawn++; drawn%12 > 6 {
			return randdef.PagedStream(g), randdef.PagedSizes(g)
		}
		return randdef.Stream(g), randdef.StreamSizes(g)
	}, cpu.CompileStream)
}

// TestRandomStreamsBackwardMMA does so for gradients.
func TestRandomStreamsBackwardMMA(t *testing.T) {
	testStreamsMMA(t, gen.New("gradients of streams of matrices"), backward, cpu.CompileStreamBackward)
}

func testStreamsMMA(t *testing.T, g *gen.Generator, random randomStream, compile compiler) {
	models, formats := []def.Accum{def.MMA(16, 25), def.MMA(8, 24), def.MMA(4, 23)}, []num.DType{num.F16, num.BF16}
	sets := machine.Available()
	for i := range testlevel.Pick(18, 200, 2000) {
		d, sizes := random(g)
		accum, set := models[i%3], sets[i/6%len(sets)]
		dtypes := d.DTypes(formats[i/3%2])
		c := randdef.NewCase(g, d, dtypes, sizes)
		if i%2 == 1 {
			randdef.FillNormal(g, c)
		}
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params, Accum: accum}); err != nil {
			t.Fatal(err)
		}
		p, err := compile(d, dtypes, accum, nil, func(part lower.Piece, dtypes []num.DType) (cpu.Program, error) {
			if part.Product() != nil {
				return mma.Compile(part.Definition, dtypes, accum, set)
			}
			return cpu.CompilePiece(part, dtypes)
		})
		if err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 2, g)
		if text := randdef.Diff(c, want); text != "" {
			t.Fatalf("stream %d, stored as %v, %s, %s: %s\n%s", i, dtypes, accum, set, text, d.Text())
		}
	}
}

// TestStreamBackwardSteps adds gradients that are much larger than their sum, so that results show
// which of them a step holds: the steps of queries begin at multiples of their length.
func TestStreamBackwardSteps(t *testing.T) {
	d, err := def.Parse(`tokitai-def 1
stream-backward steps
  in    q[T,G,J,D] f16 bf16 f32
  in    k[S,G,D] as q
  in    v[S,G,D] as q
  in    qstart[B+1] i32 ascending from 0 to T
  in    kstart[B+1] i32 ascending from 0 to S
  in    do[T,G,J,D] as q
  in    o[T,G,J,D] as q
  in    lse[T,G,J] f32
  out   dq[T,G,J,D] as q
  out   dk[S,G,D] as q
  out   dv[S,G,D] as q
  dq, dk, dv <- weigh_backward(v, score, key <= query, 1, 1, do, o, lse)
`, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	accum, dtypes := def.MMA(16, 25), d.DTypes(num.F16)
	g := gen.New("steps")
	for _, sizes := range []map[string]int{{"T": 37, "S": 50, "G": 1, "J": 1, "D": 8, "B": 1}, {"T": 50, "S": 37, "G": 1, "J": 2, "D": 8, "B": 1}} {
		c := randdef.NewCase(g, d, dtypes, sizes)
		for i := range d.Operands {
			if d.Operands[i].IsIn && !d.Operands[i].IsInt() {
				trial.Fill(c.Operands[i], func(int, int) float32 { return 0 })
			}
		}
		do := c.Operands[d.Operand("do")]
		for column := range do.Cols {
			for row := range do.Rows {
				do.Set(row, column, g.Normal()*0x1p-10)
			}
			row := do.Rows/2 + g.Below(do.Rows/2-1) // where all queries see some keys
			do.Set(row, column, 0x1p12)
			do.Set(row+1, column, -0x1p12)
		}
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{Accum: accum}); err != nil {
			t.Fatal(err)
		}
		p, err := cpu.CompileStreamBackward(d, dtypes, accum, nil, func(part lower.Piece, dtypes []num.DType) (cpu.Program, error) {
			if part.Product() != nil {
				return mma.Compile(part.Definition, dtypes, accum, machine.Available()[0])
			}
			return cpu.CompilePiece(part, dtypes)
		})
		if err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 2, g)
		if text := randdef.Diff(c, want); text != "" {
			t.Errorf("%v: %s", sizes, text)
		}
	}
}

// TestStreamUnderflow divides the smallest negative number by the sum of two weights: a mean that
// underflows keeps its sign.
func TestStreamUnderflow(t *testing.T) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("mean", form, func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	sizes := map[string]int{"T": 1, "S": 2, "G": 1, "J": 1, "D": 1, "B": 1}
	var operands []num.Array
	for i := range d.Operands {
		a := d.Operands[i].NewArray(d.DTypes(num.F32)[i], sizes)
		if o := &d.Operands[i]; o.IsOffsets {
			a.SetBits(1, 0, uint32(sizes[o.Bound]))
		}
		operands = append(operands, a)
	}
	operands[d.Operand("v")].Set(0, 0, -0x1p-149)
	p, err := cpu.Compile(d, d.DTypes(num.F32), cpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	cputest.ExecuteInTurn(p, cputest.Call(d, operands, nil), 1)
	got := operands[d.Operand("o")].Bits(0, 0)
	if err := reference.Run(d, operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := operands[d.Operand("o")].Bits(0, 0); got != want || want != 1<<31 {
		t.Errorf("got %#x, the reference has %#x, want -0", got, want)
	}
}

// TestWholeHeads compares gradients that one worker computes in one pass over several blocks of keys.
func TestWholeHeads(t *testing.T) {
	g := gen.New("whole heads")
	for drawn := range 12 {
		d := randdef.StreamBackward(g)
		dtypes := d.DTypes(num.F32)
		c := randdef.NewCase(g, d, dtypes, map[string]int{"T": 300, "S": 400, "G": 1, "J": 2, "D": 8, "B": 1})
		randdef.FillNormal(g, c)
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params}); err != nil {
			t.Fatal(err)
		}
		p, err := cpu.Compile(d, dtypes, cpu.Short)
		if err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 1, g)
		if text := randdef.Diff(c, want); text != "" {
			t.Fatalf("stream %d: %s\n%s", drawn, text, d.Text())
		}
	}
}

// TestWholeHeadsAndTiles computes gradients by whole heads, and then by tiles in the same memory.
func TestWholeHeadsAndTiles(t *testing.T) {
	g := gen.New("whole heads and tiles")
	d := randdef.StreamBackward(g)
	dtypes := d.DTypes(num.F32)
	p, err := cpu.Compile(d, dtypes, cpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		c := randdef.NewCase(g, d, dtypes, map[string]int{"T": 3 + i/4*60, "S": 128, "G": 8 - i%2*7, "J": 2, "D": 8, "B": 1})
		randdef.FillNormal(g, c)
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params}); err != nil {
			t.Fatal(err)
		}
		cputest.Execute(p, cputest.CallOf(c), 2, g) // 8 heads are enough to take whole ones
		if text := randdef.Diff(c, want); text != "" {
			t.Fatalf("call %d: %s\n%s", i, text, d.Text())
		}
	}
}
