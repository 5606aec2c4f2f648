package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
)

// near is attention to a window of keys, with slopes and sinks, by starts of keys or by pages.
func near(f def.StreamForm) *def.Definition {
	f.Query, f.Key, f.Value, f.QueryStarts, f.Out, f.LogSum = "q", "k", "v", "qstart", "o", "lse"
	f.Functions = def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function}
	return def.Must(def.StreamOf("near", f, func(b *def.StreamBuilder) {
		distance := b.Query().ISub(b.Key())
		t := def.FMA(b.In("slope", []string{"G", "J"}, def.Only(num.F32)), distance.IToF(), b.Score().Mul(b.Param("kappa")))
		isSeen := def.Select(distance.Less(b.IntParam("window")), def.IntConst(0).LessEqual(distance), distance.Less(distance))
		b.Weigh(t, isSeen, b.In("sink", []string{"G", "J"}))
	}))
}

var nearInRows, nearInPages = near(def.StreamForm{KeyStarts: "kstart"}), near(def.StreamForm{Lengths: "klen", Pages: "pages"})

// decoding has the tokens of several sequences. The first of each are in the cache already, the others
// are queries.
type decoding struct {
	t               *testing.T
	dtype           num.DType
	keys, first     []int // of each sequence: tokens, and the first that is a query
	q, k, v         [][]uint32
	slope, sink     num.Array
	params          []float64
	window          int
	groups, sharing int
	depth           int
	run             func(d *def.Definition, operands []num.Array, params []float64) error

	o, lse map[[2]int]string // results by sequence and token, in one call
}

func newDecoding(t *testing.T, dtype num.DType) *decoding {
	const groups, sharing, depth, window = 2, 2, 16, 1030
	x := &decoding{t: t, dtype: dtype, keys: []int{1066, 17, 140, 1}, first: []int{1050, 0, 128, 0}, groups: groups, sharing: sharing, depth: depth, window: window, params: []float64{0.3, window}}
	g := gen.New("decoding")
	values := func(n int) []uint32 {
		list := make([]uint32, n)
		for i := range list {
			list[i] = num.Narrow(dtype, g.Normal())
		}
		return list
	}
	for _, n := range x.keys {
		x.q, x.k, x.v = append(x.q, values(n*groups*sharing*depth)), append(x.k, values(n*groups*depth)), append(x.v, values(n*groups*depth))
	}
	x.slope, x.sink = num.NewArray(num.F32, groups, sharing), num.NewArray(dtype, groups, sharing)
	for r := range groups {
		for c := range sharing {
			x.slope.Set(r, c, -float32(r+c+1)/64)
			x.sink.Set(r, c, float32(r-c))
		}
	}
	return x
}

// chunk is a part of a sequence: its queries from one token up to another.
type chunk struct{ sequence, from, to int }

// call computes a batch of chunks, with keys one behind the other, or in pages of a size.
func (x *decoding) call(what string, page int, batch []chunk) {
	x.t.Helper()
	sizes := map[string]int{"G": x.groups, "J": x.sharing, "D": x.depth, "B": len(batch), "N": page}
	most := 1
	for _, c := range batch {
		sizes["T"] += c.to - c.from
		sizes["S"] += c.to
		most = max(most, c.to)
	}
	d := nearInRows
	if page > 0 {
		sizes["M"] = (most + page - 1) / page
		sizes["P"] = sizes["M"]*len(batch) + 3
		d = nearInPages
	}
	var operands []num.Array
	for i := range d.Operands {
		o := &d.Operands[i]
		dtype := x.dtype
		if o.IsInt() {
			dtype = num.I32
		} else if o.Name == "lse" {
			dtype = num.F32
		}
		a := o.NewArray(dtype, sizes)
		switch o.Name {
		case "slope":
			a = x.slope
		case "sink":
			a = x.sink
		case "k", "v": // what nothing stores is not a number
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, float32(math.NaN()))
				}
			}
		case "pages":
			for r := range a.Rows {
				for c := range a.Cols {
					a.SetBits(r, c, uint32(0xffffffff))
				}
			}
		}
		operands = append(operands, a)
	}
	at := func(name string) *num.Array { return &operands[d.Operand(name)] }
	queries, keys := 0, 0
	for b, c := range batch {
		for i := range (c.to - c.from) * x.groups * x.sharing {
			at("q").SetPatterns(queries*x.groups*x.sharing+i, x.q[c.sequence][(c.from*x.groups*x.sharing+i)*x.depth:][:x.depth])
		}
		queries += c.to - c.from
		at("qstart").SetBits(b+1, 0, uint32(queries))
		if page == 0 {
			at("kstart").SetBits(b+1, 0, uint32(keys+c.to))
		} else {
			at("klen").SetBits(b, 0, uint32(c.to))
			for i := 0; i*page < c.to; i++ { // pages in no order
				at("pages").SetBits(b, i, uint32((b*sizes["M"]+i)*7919%sizes["P"]))
			}
		}
		for key := range c.to {
			row := keys + key
			if page > 0 {
				row = int(at("pages").Int(b, key/page))*page + key%page
			}
			if key < c.from-x.window+1 && c.to > c.from { // before every query's window
				continue
			}
			for g := range x.groups {
				from := (key*x.groups + g) * x.depth
				at("k").SetPatterns(row*x.groups+g, x.k[c.sequence][from:][:x.depth])
				at("v").SetPatterns(row*x.groups+g, x.v[c.sequence][from:][:x.depth])
			}
		}
		keys += c.to
	}
	if err := x.run(d, operands, x.params); err != nil {
		x.t.Fatalf("%s: %v", what, err)
	}
	x.compare(what, batch, at("o"), at("lse"))
}

// compare compares results with those of one call, or takes them.
func (x *decoding) compare(what string, batch []chunk, o, lse *num.Array) {
	x.t.Helper()
	isFirst := x.o == nil
	if isFirst {
		x.o, x.lse = map[[2]int]string{}, map[[2]int]string{}
	}
	row := 0
	for _, c := range batch {
		for token := c.from; token < c.to; token++ {
			var values, sums []byte
			for h := range x.groups * x.sharing {
				values = append(values, o.Row(row*x.groups*x.sharing+h)...)
			}
			for g := range x.groups {
				sums = append(sums, lse.Row(row*x.groups+g)...)
			}
			row++
			key := [2]int{c.sequence, token}
			switch {
			case isFirst:
				x.o[key], x.lse[key] = string(values), string(sums)
			case x.o[key] != string(values) || x.lse[key] != string(sums):
				x.t.Fatalf("%s: sequence %d, token %d has other bits than in one call", what, c.sequence, token)
			}
		}
	}
}

// test computes all chunks in one call, then in several ways that must give the same bits.
func (x *decoding) test(isSlow bool) {
	var whole []chunk
	for s, n := range x.keys {
		whole = append(whole, chunk{s, x.first[s], n})
	}
	x.call("one call", 0, whole)
	for _, o := range x.o {
		if num.IsNaN(x.dtype, uint32(o[0])|uint32(o[1])<<8) && x.dtype != num.F32 {
			x.t.Fatal("one call: a result is not a number")
		}
	}
	pages := []int{16, 32, 64, 128, 256}
	if isSlow {
		pages = []int{16, 256}
	}
	for _, page := range pages {
		x.call(fmt.Sprintf("one call, pages of %d", page), page, whole)
	}
	for _, c := range whole {
		x.call(fmt.Sprintf("sequence %d alone", c.sequence), 0, []chunk{c})
		x.call(fmt.Sprintf("sequence %d alone, in pages", c.sequence), 64, []chunk{c})
	}
	steps := func(n int) [][]chunk { // chunks of n tokens, of all sequences together, in an order that changes
		var list [][]chunk
		for done := 0; ; done += n {
			var batch []chunk
			isOver := true
			for s, end := range x.keys {
				from, to := min(x.first[s]+done, end), min(x.first[s]+done+n, end)
				batch, isOver = append(batch, chunk{s, from, to}), isOver && from == to
			}
			if isOver {
				return list
			}
			if done/n%2 == 1 {
				slices.Reverse(batch)
			}
			list = append(list, batch)
		}
	}
	for _, n := range []int{7, 1} {
		for i, batch := range steps(n) {
			if isSlow && n == 1 && i%6 != 0 {
				continue
			}
			x.call(fmt.Sprintf("step %d of %d tokens, in pages", i, n), pages[i%len(pages)], batch)
			if n > 1 || i%5 == 0 {
				x.call(fmt.Sprintf("step %d of %d tokens", i, n), 0, batch)
			}
		}
	}
}

// on returns a function that computes calls on a queue.
func on(q *engine.Queue, opts ...engine.CallOption) func(d *def.Definition, operands []num.Array, params []float64) error {
	return func(d *def.Definition, operands []num.Array, params []float64) error {
		var tensors []*tensor.Tensor
		for i := range operands {
			x, err := tensor.FromBytes(q.Device(), operands[i].DType, operands[i].Data, d.Operands[i].Shape(&operands[i])...)
			if err != nil {
				return err
			}
			defer x.Close()
			tensors = append(tensors, x)
		}
		if err := engine.Call(q, d, tensors, params, opts...); err != nil {
			return err
		}
		if err := q.Wait(); err != nil {
			return err
		}
		for i := range operands {
			raw, err := tensors[i].Bytes()
			if err != nil {
				return err
			}
			copy(operands[i].Data, raw)
		}
		return nil
	}
}

// TestTokenByToken checks that a token has the same bits in a prompt that is computed in one call, in
// chunks, and alone; with its keys in rows and in pages of any size; in every batch; whatever lies where no
// query looks.
func TestTokenByToken(t *testing.T) {
	formats := []num.DType{num.BF16, num.F32}
	if testlevel.Current() == testlevel.Smoke {
		formats = formats[:1]
	}
	for _, dtype := range formats {
		for _, accum := range []def.Accum{def.FMAChain, def.MMA(16, 25)} {
			if dtype == num.F32 && accum != def.FMAChain {
				continue
			}
			t.Run(fmt.Sprintf("reference/%v/%v", dtype, accum), func(t *testing.T) {
				t.Parallel()
				x := newDecoding(t, dtype)
				x.run = func(d *def.Definition, operands []num.Array, params []float64) error {
					return reference.Run(d, operands, reference.Options{Params: params, Accum: accum})
				}
				x.test(true)
			})
		}
		t.Run(fmt.Sprintf("cpu/%v", dtype), func(t *testing.T) {
			x := newDecoding(t, dtype)
			x.run = on(newQueue(t))
			x.test(testlevel.Current() == testlevel.Smoke)
		})
	}
	t.Run("sim", func(t *testing.T) {
		lowerings := []string{"sim.mma", "sim.stream"}
		if testlevel.Current() == testlevel.Smoke { // the host's compiler takes seconds for each
			lowerings = lowerings[:1]
		}
		for _, lowering := range lowerings {
			t.Run(lowering, func(t *testing.T) {
				x := newDecoding(t, num.BF16)
				x.run = on(queueOn(t, gputest.NeedsSim(t, 32), engine.WithAdmission(engine.Off)), engine.WithLowering(lowering))
				x.test(true)
			})
		}
	})
}

// TestPagesRefused gives sizes, lengths and pages that are refused, on the host and on a device, and those
// that nothing reads.
func TestPagesRefused(t *testing.T) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", Lengths: "klen", Pages: "pages", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("paged", form, func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	for name, q := range map[string]*engine.Queue{"cpu": newQueue(t), "sim": queueOn(t, gputest.NeedsSim(t, 32), engine.WithAdmission(engine.Off))} {
		for _, x := range []struct {
			name          string
			page          int
			klen, pages   []int32
			want, operand string
		}{
			{"in range", 16, []int32{17, 0}, []int32{3, 0, -1, 9, 9, 9}, "", ""},
			{"a page too large", 16, []int32{17, 0}, []int32{3, 4, 0, 0, 0, 0}, "paged: pages[0,1] is 4, want 0 to 3", "pages"},
			{"a page below zero", 16, []int32{17, 48}, []int32{3, 1, 99, 0, 0, -1}, "paged: pages[1,2] is -1, want 0 to 3", "pages"},
			{"a length too large", 16, []int32{49, 0}, make([]int32, 6), "paged: klen[0] is 49, want 0 to 48", "klen"},
			{"a length below zero", 16, []int32{0, -1}, make([]int32, 6), "paged: klen[1] is -1, want 0 to 48", "klen"},
			{"short pages", 8, []int32{0, 0}, make([]int32, 6), "k has shape [4 8 1 4]: N is 8, want a power of two from 16 to 256", ""},
			{"long pages", 512, []int32{0, 0}, make([]int32, 6), "k has shape [4 512 1 4]: N is 512, want a power of two from 16 to 256", ""},
			{"pages of 24", 24, []int32{0, 0}, make([]int32, 6), "k has shape [4 24 1 4]: N is 24, want a power of two from 16 to 256", ""},
		} {
			sizes := map[string]int{"T": 2, "G": 1, "J": 1, "D": 4, "P": 4, "N": x.page, "M": 3, "B": 2}
			var operands []num.Array
			for i := range d.Operands {
				a := d.Operands[i].NewArray(d.DTypes(num.F32)[i], sizes)
				switch d.Operands[i].Name {
				case "qstart":
					a.SetBits(1, 0, 1)
					a.SetBits(2, 0, 2)
				case "klen":
					copy(a.Data, num.IndexArray(x.klen...).Data)
				case "pages":
					copy(a.Data, num.IndexArray(x.pages...).Data)
				case "o", "lse":
					copy(a.Data, bytes.Repeat([]byte{7}, len(a.Data)))
				}
				operands = append(operands, a)
			}
			err := on(q)(d, operands, nil)
			isWritten := !bytes.Equal(operands[d.Operand("o")].Data, bytes.Repeat([]byte{7}, 4*2*4))
			if (err == nil) != (x.want == "") || err != nil && !bytes.Contains([]byte(err.Error()), []byte(x.want)) {
				t.Errorf("%s: %s: got %v, want %q", name, x.name, err, x.want)
			}
			if isWritten != (err == nil) {
				t.Errorf("%s: %s: written %t", name, x.name, isWritten)
			}
			if index, ok := errors.AsType[*engine.IndexError](err); ok != (x.operand != "") || ok && index.Operand != x.operand {
				t.Errorf("%s: %s: got %#v", name, x.name, err)
			}
			if x.operand == "" {
				continue
			}
			if err := reference.Run(d, operands, reference.Options{}); err == nil || err.Error() != x.want {
				t.Errorf("the reference: %s: got %v, want %q", x.name, err, x.want)
			}
		}
	}
}
