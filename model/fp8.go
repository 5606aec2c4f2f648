package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/gemm"
)

// FP8 says which linear layers have weights in e4m3, and how values are scaled into its range. The rows of their
// inputs are quantised where they are multiplied.
type FP8 struct {
	Scales   string `json:"scales"`           // of weights: rows, one for each, or blocks, one for each block of 128×128
	IsStatic bool   `json:"static,omitempty"` // inputs have a scale that is stored with the weight; else each row's own
	Except   Names  `json:"except,omitempty"` // linear layers that stay as they are, by their names
}

// These end the names of the scales of a linear layer, where ".weight" ends that of its weight.
const (
	WeightScale  = ".weight_scale"
	InputScale   = ".input_scale"   // one that is stored, for each column of the input
	ProductScale = ".product_scale" // of that and those of the weight, each rounded to binary32
)

// FP8Block is the number of rows and of columns of a block of a weight that has a scale, and of the columns of a row of
// its inputs that have one.
const FP8Block = 128

// IsUsed reports whether any layer may have weights in e4m3.
func (f *FP8) IsUsed() bool { return *f != FP8{} }

func (f *FP8) check() error {
	switch {
	case f.IsUsed() && f.Scales != "rows" && f.Scales != "blocks":
		return fmt.Errorf("fp8.scales is %q, want rows or blocks", f.Scales)
	case f.IsStatic && f.Scales == "blocks":
		return fmt.Errorf("fp8.static and fp8.scales blocks, want one of them: blocks of inputs have scales of their own")
	}
	return nil
}

// LinearLayers returns the names of the linear layers that FP8 is about: those of attention and of feed-forward layers,
// but neither the head nor routers.
func (c *Config) LinearLayers() []string {
	without := *c
	without.FP8 = FP8{}
	d := &decoder{body: newBody(without, 1), sequences: 1}
	d.forward()
	return d.linears
}

// HasExpertsInFP8 reports whether the weights of any experts are in e4m3.
func (c *Config) HasExpertsInFP8() bool {
	if !c.FP8.IsUsed() || c.Mixture.Experts == 0 {
		return false
	}
	except := c.FP8.Except.Values()
	return slices.ContainsFunc(c.LinearLayers(), func(layer string) bool {
		return strings.Contains(layer, ".mlp.experts.") && !slices.Contains(except, layer)
	})
}

var (
	// Quantize brings every row of x into the range of e4m3 and rounds it: x[r,c] is q[r,c] times scale[r], but for
	// the rounding. The scale of a row whose largest magnitude is zero, or so small that its 448th part is, is zero.
	Quantize = def.Must(def.Rowwise("model.quantize", func(b *def.Builder) {
		x := b.In("x")
		scale := def.RowMax(x.Abs()).Div(largestE4M3).As("scale")
		b.Out("q", scaledDown(x, def.Select(scale.Equal(def.Zero), def.One, scale)), def.Only(num.E4M3))
		b.OutRow("scale", scale, def.Only(num.F32))
		b.Formula("scale[r] = max |x[r,c]| over c / 448", "q[r,c] = x[r,c] / scale[r] (x[r,c] itself if scale[r] is 0), between -448 and 448, rounded once, to e4m3")
	}))

	// QuantizeBy divides every column of x by its scale in by, limits the quotients to -448 and 448, the largest values of e4m3, and
	// rounds them to it. QuantizeByExpert divides every row by the scale of its expert.
	QuantizeBy = def.Must(def.Rowwise("model.quantize.by", func(b *def.Builder) {
		x, by := b.In("x"), b.InCol("by", def.Only(num.F32))
		b.Out("q", scaledDown(x, by), def.Only(num.E4M3))
		b.Formula("q[r,c] = x[r,c] / by[c], between -448 and 448, rounded once, to e4m3")
	}))
	QuantizeByExpert = def.Must(def.Rowwise("model.quantize.by.expert", func(b *def.Builder) {
		x, by := b.In("x"), b.InList("by", "E", def.Only(num.F32))
		b.Out("q", scaledDown(x, by.At(b.InIndexOf("expert", "E"))), def.Only(num.E4M3))
		b.Formula("q[r,c] = x[r,c] / by[expert[r]], between -448 and 448, rounded once, to e4m3")
	}))

	// ExpertOf finds the experts of rows that are sorted by expert, which are columns here: end has the row behind the
	// last one of each.
	ExpertOf = def.Must(def.Rowwise("model.expert.of", func(b *def.Builder) {
		isBehind := def.Select(b.InRow("end", def.Only(num.I32)).LessEqual(b.Col()), def.IntConst(1), def.IntConst(0))
		b.Out("behind", isBehind, def.Only(num.I32))
		b.OutCol("expert", def.ColSum(isBehind), def.Only(num.I32))
		b.Formula("behind[r,c] = 1 if end[r] <= c, else 0", "expert[c] = sum over r of behind[r,c]")
	}))

	// LinearFP8 is Linear of a block in e4m3.
	LinearFP8 = def.Must(def.Contraction("model.linear.fp8", def.ContractionForm{
		Left: "x", LeftDims: []string{"M", "K"}, Right: "w", RightDims: []string{"N", "K"}, TransposeRight: true,
		Result: "y", ResultDims: []string{"M", "N"}, Factors: def.Only(num.E4M3),
		Formula: []string{"y[m,n] = sum over k of x[m,k] * w[n,k]"},
	}))

	// ScaledFP8 is LinearFP8 with a scale for each row of the weight.
	ScaledFP8 = def.Must(def.Contraction("model.linear.fp8.scaled", def.ContractionForm{
		Left: "x", LeftDims: []string{"M", "K"}, Right: "w", RightDims: []string{"N", "K"}, TransposeRight: true,
		Result: "y", ResultDims: []string{"M", "N"}, Factors: def.Only(num.E4M3), Scales: def.Scales{Col: "scale"},
		Formula: []string{"y[m,n] = (sum over k of x[m,k] * w[n,k]) * scale[n]"},
	}))

	// GroupedFP8 is Grouped of a block in e4m3.
	GroupedFP8 = def.Must(def.Contraction("model.grouped.fp8", def.ContractionForm{
		Left: "x", LeftDims: []string{"M", "K"}, Right: "w", RightDims: []string{"E", "N", "K"}, TransposeRight: true,
		Result: "y", ResultDims: []string{"M", "N"}, Factors: def.Only(num.E4M3), Groups: groups,
		Formula: []string{"y[m,n] = sum over k of x[m,k] * w[e,n,k], offsets[e] <= m < offsets[e+1]"},
	}))

	// ScaleByExpert and ScaleByStatic multiply sums by scales as gemm.fp8.forward and ScaledFP8 do. Those of columns
	// are the expert's.
	ScaleByExpert = def.Must(def.Rowwise("model.scale.by.expert", func(b *def.Builder) {
		sum, row := b.In("sum", def.Only(num.F32)), b.InRow("row", def.Only(num.F32))
		b.Out("y", sum.Mul(row).Mul(scaleOfExpert(b)), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = (sum[r,c] * row[r]) * col[expert[r],c]")
	}))
	ScaleByStatic = def.Must(def.Rowwise("model.scale.by.static", func(b *def.Builder) {
		b.Out("y", b.In("sum", def.Only(num.F32)).Mul(scaleOfExpert(b)), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = sum[r,c] * col[expert[r],c]")
	}))

	// FirstBlock and NextBlock add up sums of blocks, each times the scales of its row and its column: one rounding for
	// the product of the scales, and one for that with the sum and its addition. FirstBlockOf and NextBlockOf do so with
	// the columns' scales of the row's expert.
	FirstBlock = def.Must(def.Rowwise("model.block.first", func(b *def.Builder) {
		sum, row, col := b.In("sum", def.Only(num.F32)), b.InRow("row", def.Only(num.F32)), b.InCol("col", def.Only(num.F32))
		b.Out("y", def.FMA(sum, row.Mul(col), def.Zero), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = sum[r,c] * row[r] * col[c]")
	}))
	NextBlock = def.Must(def.Rowwise("model.block.next", func(b *def.Builder) {
		sum, row, col := b.In("sum", def.Only(num.F32)), b.InRow("row", def.Only(num.F32)), b.InCol("col", def.Only(num.F32))
		before := b.In("before", def.Only(num.F32))
		b.Out("y", def.FMA(sum, row.Mul(col), before), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = before[r,c] + sum[r,c] * row[r] * col[c]")
	}))
	FirstBlockOf = def.Must(def.Rowwise("model.block.first.expert", func(b *def.Builder) {
		sum, row := b.In("sum", def.Only(num.F32)), b.InRow("row", def.Only(num.F32))
		b.Out("y", def.FMA(sum, row.Mul(scaleOfExpert(b)), def.Zero), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = sum[r,c] * row[r] * col[expert[r],c]")
	}))
	NextBlockOf = def.Must(def.Rowwise("model.block.next.expert", func(b *def.Builder) {
		sum, row, col := b.In("sum", def.Only(num.F32)), b.InRow("row", def.Only(num.F32)), scaleOfExpert(b)
		before := b.In("before", def.Only(num.F32))
		b.Out("y", def.FMA(sum, row.Mul(col), before), def.Only(num.F32, num.F16, num.BF16))
		b.Formula("y[r,c] = before[r,c] + sum[r,c] * row[r] * col[expert[r],c]")
	}))

	largestE4M3 = def.Const(448)
)

// scaleOfExpert declares scales of columns for every expert, and the experts of rows.
func scaleOfExpert(b *def.Builder) def.Value {
	col := b.InTable("col", "E", def.Only(num.F32))
	return col.At(b.InIndexOf("expert", "E"))
}

// scaledDown returns a binary32 between the largest values of e4m3 that is rounded to e4m3 as x / scale itself is. NaN
// stays NaN. The quotient in binary32 is such a number unless it lies halfway between two values of e4m3, and x / scale
// does not: then it takes a step to where x / scale lies. Numbers halfway have five bits. Where scales are tiny, what is
// left over the quotient would underflow: scale and x are multiplied by a power of two.
func scaledDown(x, scale def.Value) def.Value {
	q := x.Div(scale).Min(largestE4M3).Max(largestE4M3.Neg()).As("quotient")
	high := q.Mul(def.Const(0x1p19 + 1)).As("high")
	isShort := high.Sub(high.Sub(q)).Equal(q)
	up := def.Select(scale.Less(def.Const(0x1p-60)), def.Const(0x1p80), def.One).As("up")
	left := def.FMA(q.Abs().Neg(), scale.Mul(up), x.Abs().Mul(up)).As("left")
	step := def.Select(left.Less(def.Zero), def.Const(1-0x1p-23), def.Select(def.Zero.Less(left), def.Const(1+0x1p-23), def.One))
	return q.Mul(def.Select(isShort, step, def.One))
}

// isFP8 reports whether the weight of a linear layer is in e4m3.
func (d *body) isFP8(name string) bool { return d.FP8.IsUsed() && !d.isExcept[name] }

// linearFP8 multiplies rows, quantised, by a weight in e4m3, and the sums by the scales of both.
func (d *body) linearFP8(name string, x Ref, in, out int) Ref {
	w := d.Fixed(name+".weight", num.E4M3, out, in)
	y := d.Value(name+".y", d.format, d.tokens, out)
	if d.FP8.Scales == "blocks" {
		d.multiplyBlocks(name, d.quantise(name, x, d.quantiseBlocks), w, y)
		return y
	}
	if d.FP8.IsStatic {
		q := d.Call(name+".quantize", QuantizeBy, nil, x, d.Fixed(name+InputScale, num.F32, in))
		d.CallInto(name, ScaledFP8, nil, []Ref{q[0], w, d.Fixed(name+ProductScale, num.F32, out)}, []Ref{y})
		return y
	}
	q := d.quantise(name, x, func(name string, x Ref) []Ref { return d.Call(name, Quantize, nil, x) })
	d.CallInto(name, gemm.FP8ForwardDefinition, nil, []Ref{q[0], w, q[1], d.Fixed(name+WeightScale, num.F32, out)}, []Ref{y})
	return y
}

// quantise returns rows in e4m3 and their scales, once for several layers that multiply the same rows.
func (d *body) quantise(name string, x Ref, by func(name string, x Ref) []Ref) []Ref {
	if d.quantised[x.value] == nil {
		d.quantised[x.value] = by(name+".quantize", x)
	}
	return d.quantised[x.value]
}

// quantiseBlocks quantises the blocks of every row, each as a row of its own. The scales are [rows, blocks].
func (d *body) quantiseBlocks(name string, x Ref) []Ref {
	rows, cols := x.shape[0], x.shape[1]
	blocks := (cols + FP8Block - 1) / FP8Block
	q, scale := d.Value(name+".q", num.E4M3, rows, cols), d.Value(name+".scale", num.F32, rows, blocks)
	if cols%FP8Block == 0 {
		d.CallInto(name, Quantize, nil, []Ref{x.As(rows*blocks, FP8Block)}, []Ref{q.As(rows*blocks, FP8Block), scale.As(rows * blocks)})
		return []Ref{q, scale}
	}
	for b := range blocks {
		from, to := b*FP8Block, min((b+1)*FP8Block, cols)
		d.CallInto(name+"."+strconv.Itoa(b), Quantize, nil, []Ref{x.Columns(from, to)}, []Ref{q.Columns(from, to), scale.Columns(b, b+1)})
	}
	return []Ref{q, scale}
}

// multiplyBlocks adds up the products of the blocks of K, in ascending order. Scales of weights are [blocks, columns].
func (d *body) multiplyBlocks(name string, q []Ref, w, y Ref) {
	out, in := w.shape[0], w.shape[1]
	blocks := (in + FP8Block - 1) / FP8Block
	scale := d.Fixed(name+WeightScale, num.F32, blocks, out).As(1, blocks*out)
	d.addBlocks(name, q, y, in, FirstBlock, NextBlock, func(at string, b, from, to int) (sum Ref, scales []Ref) {
		sum = d.Call(at, LinearFP8, nil, q[0].Columns(from, to), w.Columns(from, to))[0]
		return sum, []Ref{scale.Columns(b*out, (b+1)*out).As(out)}
	})
}

// addBlocks adds up sums of blocks of the width of the input. multiply returns that of one, with the operands of its
// scales behind the row's.
func (d *body) addBlocks(name string, q []Ref, y Ref, in int, first, next *def.Definition, multiply func(at string, b, from, to int) (sum Ref, scales []Ref)) {
	blocks := (in + FP8Block - 1) / FP8Block
	var before Ref
	for b := range blocks {
		at := name + ".block." + strconv.Itoa(b)
		sum, scales := multiply(at, b, b*FP8Block, min((b+1)*FP8Block, in))
		after := y
		if b+1 < blocks {
			after = d.Value(at+".sum", num.F32, y.shape...)
		}
		operands := append([]Ref{sum, q[1].Columns(b, b+1)}, scales...)
		if b == 0 {
			d.CallInto(at+".add", first, nil, operands, []Ref{after})
		} else {
			d.CallInto(at+".add", next, nil, append(operands, before), []Ref{after})
		}
		before = after
	}
}

// sortedRows are rows of values sorted by expert.
type sortedRows struct {
	experts int
	offsets Ref // where the rows of each expert begin
	expert  Ref // of each row; the zero Ref until it is needed
}

// expertOf returns the expert of each row.
func (d *body) expertOf(name string, s *sortedRows, rows int) Ref {
	if s.expert.value == nil {
		end := s.offsets.As(1, s.experts+1).Columns(1, s.experts+1).As(s.experts)
		s.expert = d.Value(name+".expert", num.I32, rows)
		d.CallInto(name+".expert", ExpertOf, nil, []Ref{end}, []Ref{d.Value(name+".behind", num.I32, s.experts, rows), s.expert})
	}
	return s.expert
}

// groupedFP8 is linearFP8 of rows sorted by expert, and has the bits that it has with the weights of an expert.
func (d *body) groupedFP8(name string, x Ref, s *sortedRows, in, out int) Ref {
	rows := d.tokens * d.Mixture.PerToken
	expert := d.expertOf(strings.TrimSuffix(name, name[strings.LastIndexByte(name, '.'):]), s, rows)
	w := d.Fixed(name+".weight", num.E4M3, s.experts, out, in)
	y := d.Value(name+".y", d.format, rows, out)
	if d.FP8.Scales == "blocks" {
		blocks := (in + FP8Block - 1) / FP8Block
		scale := d.Fixed(name+WeightScale, num.F32, blocks, s.experts, out).As(1, blocks*s.experts*out)
		q := d.quantise(name, x, d.quantiseBlocks)
		d.addBlocks(name, q, y, in, FirstBlockOf, NextBlockOf, func(at string, b, from, to int) (sum Ref, scales []Ref) {
			sum = d.Call(at, GroupedFP8, nil, q[0].Columns(from, to), w.Columns(from, to).As(s.experts, out, to-from), s.offsets)[0]
			return sum, []Ref{scale.Columns(b*s.experts*out, (b+1)*s.experts*out).As(s.experts, out), expert}
		})
		return y
	}
	if d.FP8.IsStatic {
		q := d.Call(name+".quantize", QuantizeByExpert, nil, x, d.Fixed(name+InputScale, num.F32, s.experts), expert)
		sum := d.Call(name+".sum", GroupedFP8, nil, q[0], w, s.offsets)[0]
		d.CallInto(name, ScaleByStatic, nil, []Ref{sum, d.Fixed(name+ProductScale, num.F32, s.experts, out), expert}, []Ref{y})
		return y
	}
	q := d.quantise(name, x, func(name string, x Ref) []Ref { return d.Call(name, Quantize, nil, x) })
	sum := d.Call(name+".sum", GroupedFP8, nil, q[0], w, s.offsets)[0]
	d.CallInto(name, ScaleByExpert, nil, []Ref{sum, q[1], d.Fixed(name+WeightScale, num.F32, s.experts, out), expert}, []Ref{y})
	return y
}
