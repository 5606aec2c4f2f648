// Package randdef makes random rowwise definitions, every one of them valid, and
// random operands for any definition. It is what holds a lowering against the
// reference on expressions that nobody thought of.
//
// A generator decides everything: the same seed gives the same definition and the
// same bits on every machine. The package knows neither the reference nor any
// lowering. Start at [New] and [NewCase].
package randdef

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
)

// MaxSteps is the most values that New computes, not counting what functions expand to.
const MaxSteps = 60

// New makes a definition of 1 to [MaxSteps] computed values, few more often.
// It returns an error only if package def refuses what ought to be valid.
func New(g *gen.Generator) (*def.Definition, error) {
	return Sized(g, 1+g.Below(1+g.Below(MaxSteps)))
}

// Sized makes a definition of that many computed values, of which some may not
// reach an output.
func Sized(g *gen.Generator, steps int) (*def.Definition, error) {
	return def.Rowwise("random.rowwise", func(b *def.Builder) {
		e := &expression{g: g, b: b, used: map[def.Value]bool{}, functions: 4}
		e.leaves()
		for range steps {
			e.step()
		}
		e.outputs()
	})
}

// expression is a definition in the making.
type expression struct {
	g         *gen.Generator
	b         *def.Builder
	values    []def.Value // all that can be an argument
	used      map[def.Value]bool
	elements  []string // names of element inputs of floats
	inputs    []def.Value
	isPaired  map[string]bool // inputs that are read by partner, and therefore not written
	stores    []string        // operands whose storage a rounding may name
	functions int             // calls left: each is a few dozen nodes
	names     int
	operands  int  // declared so far
	slots     int  // inputs with slots
	late      bool // this step computes on values that are known after the last row
}

// oneIn returns true once in n times.
func (e *expression) oneIn(n int) bool { return e.g.Below(n) == 0 }

func (e *expression) add(v def.Value) { e.values = append(e.values, v) }

// firstOutput is the name of an output that every definition has, so that a
// rounding can name its storage before it is declared.
const firstOutput = "y0"

func (e *expression) leaves() {
	b := e.b
	for i := range 1 + e.g.Below(3) {
		name := fmt.Sprintf("x%d", i)
		e.elements = append(e.elements, name)
		e.add(b.In(name, e.rule(i > 0)...))
		e.stores = append(e.stores, name)
	}
	most := 3
	var lookups []def.Value
	if e.oneIn(4) { // outputs need some of MaxOperands
		lookups = e.tables()
		most = 2
	}
	for i := range e.g.Below(most) {
		e.add(b.InCol(fmt.Sprintf("c%d", i), e.rule(true)...))
	}
	for i := range e.g.Below(most) {
		e.add(b.InRow(fmt.Sprintf("r%d", i), e.rule(true)...))
	}
	for i := range e.g.Below(2) {
		e.add(b.InIndex(fmt.Sprintf("i%d", i)))
	}
	if lookups == nil {
		e.integers()
	}
	e.inputs = slices.Clone(e.values) // floats, indices and int32
	e.operands += len(e.inputs)
	e.values = append(e.values, lookups...)
	if e.oneIn(3) {
		e.partner()
	}
	if e.oneIn(3) {
		except := b.IntParam("except")
		e.add(b.InIndex("label", except))
		e.operands++
		e.add(except)
	}
	for i := range e.g.Below(3) {
		e.add(b.Param(fmt.Sprintf("p%d", i)))
	}
	for i := range e.g.Below(3) {
		e.add(b.IntParam(fmt.Sprintf("n%d", i)))
	}
	if e.oneIn(3) {
		e.add(b.Col())
	}
	e.stores = append(e.stores, firstOutput)
}

// partner reads an operand or a lookup in the other columns of pairs.
func (e *expression) partner() {
	at := e.g.Below(len(e.values))
	if e.values[at].Extent()&def.PerColumn == 0 {
		at = 0
	}
	if at < len(e.elements) {
		e.isPaired = map[string]bool{e.elements[at]: true}
	}
	e.add(e.values[at].Partner())
}

// integers declares inputs of int32 that are no indices.
func (e *expression) integers() {
	isInt := def.Only(num.I32)
	if e.oneIn(2) {
		e.add(e.b.In("k", isInt))
	}
	switch e.g.Below(5) {
	case 0:
		e.add(e.b.InCol("kc", isInt))
	case 1:
		e.add(e.b.InRow("kr", isInt))
	}
}

// tables declares up to two indices of rows and up to two tables, each of one size or of two,
// and returns what every index reads in every table that it has.
func (e *expression) tables() (lookups []def.Value) {
	b := e.b
	sizes := [2]string{"P", []string{"P", "Q"}[e.g.Below(2)]}
	var indices, tables []def.Value
	for i := range 1 + e.g.Below(2) {
		indices = append(indices, b.InIndexOf(fmt.Sprintf("j%d", i), sizes[i]))
		e.add(indices[i])
	}
	for i := range max(len(indices), 1+e.g.Below(2)) {
		declare, name := b.InTable, fmt.Sprintf("t%d_", i)
		if e.oneIn(3) {
			declare, name = b.InList, fmt.Sprintf("l%d", i)
		}
		size := sizes[0]
		if len(indices) == 2 {
			size = sizes[i]
		}
		tables = append(tables, declare(name, size, e.rule(true)...))
		e.operands++
		e.stores = append(e.stores, name)
	}
	for i, table := range tables {
		for k, index := range indices {
			if len(indices) == 1 || sizes[i] == sizes[k] {
				lookups = append(lookups, table.At(index))
			}
		}
	}
	return lookups
}

// rule returns a random rule for an operand's storage; x0 is always there to be like.
func (e *expression) rule(hasFirst bool) []def.Rule {
	switch e.g.Below(6) {
	case 0:
		return []def.Rule{def.Only(num.F32)}
	case 1:
		return []def.Rule{def.Only(num.F16, num.BF16)}
	case 2:
		if hasFirst {
			return []def.Rule{def.Like("x0")}
		}
	case 3:
		if hasFirst {
			return []def.Rule{def.Like("x0").Or(num.F32)}
		}
	}
	return nil
}

// none is the Value that pick returns where there is nothing to pick.
var none def.Value

// pick returns a random value of a type that satisfies the condition and can be an
// argument in this step, more often one that nothing uses yet, so that chains grow
// long; none if there is no such value.
func (e *expression) pick(t def.Type, ok func(v def.Value) bool) def.Value {
	var found, open []def.Value
	for _, v := range e.values {
		if v.Type() == t && e.fits(v) && (ok == nil || ok(v)) {
			found = append(found, v)
			if !e.used[v] {
				open = append(open, v)
			}
		}
	}
	if len(open) > 0 && !e.oneIn(3) {
		found = open
	}
	if len(found) == 0 {
		return none
	}
	v := found[e.g.Below(len(found))]
	e.used[v] = true
	return v
}

// fits reports whether v may stand in this step: a late value never meets one
// that changes from row to row.
func (e *expression) fits(v def.Value) bool {
	if e.late {
		return v.IsLate() || v.Extent()&def.PerRow == 0
	}
	return !v.IsLate()
}

func isElement(v def.Value) bool   { return v.Extent() == def.PerElement }
func isScalar(v def.Value) bool    { return v.Extent() == def.Scalar && !v.IsLate() }
func isRowIndex(v def.Value) bool  { return v.Extent()&def.PerColumn == 0 && !v.IsLate() }
func isLate(v def.Value) bool      { return v.IsLate() }
func isLeaf(v def.Value) bool      { return v == v.As("renamed") } // a leaf keeps its name
func (e *expression) f() def.Value { return e.pick(def.Float, nil) }

// step adds one value, and the constants it needs.
func (e *expression) step() {
	e.late = false
	for _, v := range e.values {
		if v.IsLate() && v.Type() == def.Float {
			e.late = e.oneIn(3)
			break
		}
	}
	var v def.Value
	for v == none {
		v = e.compute()
	}
	if e.oneIn(4) {
		e.names++
		v = v.As(fmt.Sprintf("v%d", e.names))
	}
	e.add(v)
}

// compute makes a random value, or none if what it needs is not there yet.
func (e *expression) compute() def.Value {
	switch e.g.Below(26) {
	case 0, 1, 2, 3:
		return e.binary()
	case 4:
		return def.FMA(e.f(), e.f(), e.f())
	case 5, 6:
		return e.unary()
	case 7:
		return e.scale()
	case 8:
		return e.round()
	case 9:
		return e.compareFloats()
	case 10:
		return e.compareInts()
	case 11, 12:
		return e.choose()
	case 13, 14:
		return e.call()
	case 15, 16, 17:
		return e.reduceRow()
	case 18:
		return e.at()
	case 19:
		return e.sumUp()
	case 20:
		e.add(e.constant())
		return none
	case 21, 22, 23:
		return e.arithmetic()
	default:
		return e.integer()
	}
}

// arithmetic computes with int32.
func (e *expression) arithmetic() def.Value {
	i, k := e.pick(def.Int, nil), e.pick(def.Int, nil)
	if i == none {
		return none
	}
	if e.oneIn(4) {
		k = e.intConst()
	}
	switch e.g.Below(12) {
	case 0:
		return i.IAdd(k)
	case 1:
		return i.ISub(k)
	case 2:
		return i.IMul(k)
	case 3:
		return i.UMulHigh(k)
	case 4:
		return i.IAnd(k)
	case 5:
		return i.IOr(k)
	case 6:
		return i.IXor(k)
	case 7:
		return i.ShlBy(k)
	case 8:
		return i.ShrBy(k)
	case 9:
		return i.ShrUBy(k)
	default:
		return i.IToF()
	}
}

func (e *expression) binary() def.Value {
	x, y := e.f(), e.f()
	switch e.g.Below(8) {
	case 0, 1:
		return x.Add(y)
	case 2:
		return x.Sub(y)
	case 3, 4:
		return x.Mul(y)
	case 5:
		return x.Div(y)
	case 6:
		return x.Min(y)
	default:
		return x.Max(y)
	}
}

func (e *expression) unary() def.Value {
	x := e.f()
	switch e.g.Below(4) {
	case 0:
		return x.Neg()
	case 1:
		return x.Abs()
	case 2:
		return x.Rint()
	default:
		return x.Abs().Sqrt()
	}
}

func (e *expression) scale() def.Value {
	if e.oneIn(2) {
		return e.f().Scale(def.Const(float64(e.g.Below(600) - 300)))
	}
	return e.f().Scale(e.f())
}

func (e *expression) storage() def.Storage {
	if e.oneIn(2) {
		return def.StorageOf(e.stores[e.g.Below(len(e.stores))])
	}
	return def.FixedStorage(num.FloatDTypes[e.g.Below(len(num.FloatDTypes))])
}

func (e *expression) round() def.Value {
	if e.oneIn(2) {
		return e.f().Round(e.storage())
	}
	if word := e.pick(def.Int, nil); word != none {
		return e.f().StochasticRound(e.storage(), word)
	}
	return none
}

func (e *expression) compareFloats() def.Value { return e.compare(e.f(), e.f()) }

func (e *expression) compareInts() def.Value {
	i, k := e.pick(def.Int, nil), e.pick(def.Int, nil)
	if i == none {
		return none
	}
	if e.oneIn(3) {
		return i.Inside()
	}
	return e.compare(i, k)
}

func (e *expression) compare(x, y def.Value) def.Value {
	switch e.g.Below(4) {
	case 0:
		return x.Less(y)
	case 1:
		return x.LessEqual(y)
	case 2:
		return x.Equal(y)
	default:
		return x.NotEqual(y)
	}
}

// choose selects between values of one type, now and then bools.
func (e *expression) choose() def.Value {
	cond := e.pick(def.Bool, nil)
	if cond == none {
		return none
	}
	t := def.Float
	if e.oneIn(3) {
		t = def.Int
	} else if e.oneIn(10) {
		t = def.Bool
	}
	if a := e.pick(t, nil); a != none {
		return def.Select(cond, a, e.pick(t, nil))
	}
	return none
}

// call applies a function: one of package fn, or one of integers. Where the domain is
// bounded the argument most often is, too: beyond there is nothing to compare but NaN.
func (e *expression) call() def.Value {
	if e.functions == 0 {
		return none
	}
	e.functions--
	if e.oneIn(3) {
		return Patterns(e.g.Next()).Of(e.f())
	}
	f, x := fn.All[e.g.Below(len(fn.All))], e.f()
	if d := f.Domain; d.OfAbs && d.Low == 0 && !e.oneIn(4) {
		x = x.Min(def.Const(d.High)).Max(def.Const(-d.High))
	}
	return f.Of(x)
}

func (e *expression) reduceRow() def.Value {
	e.late = false
	if k := e.pick(def.Int, isElement); k != none && e.oneIn(5) {
		return def.RowSum(k)
	}
	x := e.pick(def.Float, isElement)
	switch e.g.Below(6) {
	case 0, 1:
		return def.RowSum(x)
	case 2:
		return def.RowMax(x)
	case 3:
		return def.RowMin(x)
	case 4:
		return def.RowArgMax(x)
	default:
		return def.RowArgMin(x)
	}
}

func (e *expression) at() def.Value {
	e.late = false
	if e.oneIn(2) {
		return e.order()
	}
	index := e.pick(def.Int, isRowIndex)
	switch {
	case index == none || e.oneIn(3):
		index = e.intConst()
	case e.oneIn(6): // the lesser of two
		other := e.pick(def.Int, isRowIndex)
		index = def.Select(index.Less(other), index, other)
	}
	return e.pick(def.Float, isElement).At(index)
}

// order compares the elements of a row.
func (e *expression) order() def.Value {
	x := e.pick(def.Float, isElement)
	if keep := e.pick(def.Bool, isElement); keep != none && e.operands+5 < def.MaxOperands && e.oneIn(3) {
		e.slots++
		e.operands++
		return def.Unpacked(keep, e.b.InSlots(fmt.Sprintf("s%d", e.slots), e.rule(true)...))
	}
	switch e.g.Below(4) {
	case 0:
		return def.Rank(x)
	case 1:
		index := e.pick(def.Int, isRowIndex)
		if index == none {
			index = e.intConst()
		}
		return def.RowKth(x, index)
	case 2:
		return def.RowNucleus(x, e.pick(def.Float, isElement).Abs(), def.Const(0.5))
	default:
		share := e.pick(def.Float, isRowIndex)
		if share == none {
			share = def.One
		}
		return def.RowNucleus(x, e.pick(def.Float, isElement), share)
	}
}

func (e *expression) sumUp() def.Value {
	e.late = false
	x := e.pick(def.Float, isElement)
	if k := e.pick(def.Int, isElement); k != none && e.oneIn(4) {
		x = k
	}
	if e.oneIn(2) {
		return def.TotalSum(x)
	}
	return def.ColSum(x)
}

var constants = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3, 511.5, 65504, 65520, 0x1p-24, 0x1p-149, 0x1p-126, 0x1p127,
	math.Inf(1), math.Inf(-1), math.NaN(), math.Pi,
}

func (e *expression) constant() def.Value {
	switch e.g.Below(5) {
	case 0:
		return def.Number([]string{"0.1", "1/3", "-0.044715", "1e-3"}[e.g.Below(4)])
	case 1:
		return def.Const(float64(e.g.Ordinary()))
	case 2:
		if e.oneIn(2) {
			return e.b.Rows()
		}
		return e.b.Columns()
	default:
		return def.Const(constants[e.g.Below(len(constants))])
	}
}

var intConstants = []int32{0, 1, -1, 6, 255, 511, 512, 1<<24 + 1, -0x61c88647, math.MaxInt32, math.MinInt32}

func (e *expression) intConst() def.Value {
	return def.IntConst(intConstants[e.g.Below(len(intConstants))])
}

func (e *expression) integer() def.Value {
	word := func() def.Value {
		if v := e.pick(def.Int, isScalar); v != none && e.oneIn(2) {
			return v
		}
		return e.intConst()
	}
	ofRow := func() def.Value {
		if v := e.pick(def.Int, isRowIndex); v != none {
			return v
		}
		return word()
	}
	e.late = false
	switch e.g.Below(10) {
	case 0:
		e.add(e.intConst())
		return none
	case 1:
		e.add(e.b.Col())
		return none
	case 2:
		e.add(e.b.ColFloat())
		return none
	case 3, 4:
		e.add(e.inputs[e.g.Below(len(e.inputs))].Stored())
		return none
	case 5:
		return e.b.Random(word(), word(), word(), word(), word(), word())
	case 6:
		return e.b.RandomRow(ofRow(), ofRow(), ofRow(), ofRow(), word())
	case 7:
		return e.b.Element(word(), word())
	case 8:
		return e.b.ElementHigh(word(), word())
	default:
		return e.b.Random(word(), word(), word(), word())
	}
}

// outputs stores one to five values: what nothing else uses first, then anything,
// inputs and values stored already among them.
func (e *expression) outputs() {
	e.late = false
	taken := map[string]bool{}
	maps.Copy(taken, e.isPaired)
	store := func(name string, v def.Value) {
		var rule []def.Rule
		if v.Type() == def.Float {
			rule = e.rule(true)
		}
		switch v.Extent() {
		case def.PerElement:
			x := e.elements[e.g.Below(len(e.elements))]
			if name != firstOutput && v.Type() == def.Float && !taken[x] && e.oneIn(2) {
				taken[x] = true
				e.b.Out(x, v)
				return
			}
			e.b.Out(name, v, rule...)
		case def.PerRow:
			e.b.OutRow(name, v, rule...)
		case def.PerColumn:
			e.b.OutCol(name, v, rule...)
		default:
			e.b.OutScalar(name, v, rule...)
		}
	}
	if keep := e.pick(def.Bool, isElement); keep != none && e.operands+2 < def.MaxOperands && e.oneIn(3) {
		e.operands += 2
		if v := e.pick(def.Int, isElement); v != none && e.oneIn(2) {
			e.b.OutSlots("z0", def.Packed(keep, v))
		}
		e.b.OutSlots("z1", def.Packed(keep, e.pick(def.Float, isElement)), e.rule(true)...)
	}
	var floats, ints, open []def.Value
	for _, v := range e.values {
		switch v.Type() {
		case def.Float:
			floats = append(floats, v)
			if !e.used[v] && !isLeaf(v) {
				open = append(open, v)
			}
		case def.Int:
			ints = append(ints, v)
		}
	}
	for i := range 1 + e.g.Below(min(5, def.MaxOperands-e.operands)) {
		v := floats[e.g.Below(len(floats))]
		if len(open) > 0 && !e.oneIn(4) {
			k := e.g.Below(len(open))
			v = open[k]
			open = append(open[:k], open[k+1:]...)
		}
		if i == 0 && e.oneIn(2) {
			// Late values are rare: show one if there is any.
			for _, w := range floats {
				if isLate(w) {
					v = w
				}
			}
		}
		if i > 0 && len(ints) > 0 && e.oneIn(4) {
			v = ints[e.g.Below(len(ints))]
			for _, w := range ints {
				if w.Extent() == def.PerColumn { // these are rare as well
					v = w
				}
			}
		}
		store(fmt.Sprintf("y%d", i), v)
	}
}

// Patterns returns a function on the pattern of its argument, in a few integer
// operations that the seed decides. NaN gives NaN whatever its pattern.
func Patterns(seed uint64) *def.Function {
	return &def.Function{
		Name: fmt.Sprintf("patterns%x", seed), Math: def.MathExp,
		ULPs: 1, Domain: def.NoX,
		Expand: func(x def.Value) def.Value { return patterns(gen.Seeded(seed), x) },
	}
}

func patterns(g *gen.Generator, x def.Value) def.Value {
	sign := def.IntConst(math.MinInt32)
	switch g.Below(4) {
	case 0: // x itself, read twice
		return x.Bits().Float()
	case 1:
		return x.Bits().IOr(sign).Float()
	}
	ints := []def.Value{x.Bits(), x.FToI(), def.IntConst(int32(g.Next()))}
	any := func() def.Value { return ints[g.Below(len(ints))] }
	for range 2 + g.Below(6) {
		var v def.Value
		switch g.Below(8) {
		case 0:
			v = any().IAdd(any())
		case 1:
			v = any().ISub(any())
		case 2:
			v = any().IAnd(any())
		case 3:
			v = any().IOr(any())
		case 4:
			v = any().Shl(int32(g.Below(40)))
		case 5:
			v = any().Shr(int32(g.Below(40)))
		case 6:
			v = def.Select(any().Less(any()), any(), any())
		default:
			v = any().IToF().FToI()
		}
		ints = append(ints, v)
	}
	last := ints[len(ints)-1]
	isNumber := x.Equal(x)
	if g.Below(2) == 0 {
		return def.Select(isNumber, last.IToF(), x)
	}
	return def.Select(isNumber, last, def.IntConst(0x7fc00000)).Float()
}
