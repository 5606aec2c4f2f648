package gpu

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/ordering.cu
var orderingText string

//go:embed kernels/packing.cu
var packingText string

// divided is a definition that is divided at its orderings: the kernels of its parts, and between them those of
// kernels/ordering.cu. The stages' values are in scratch memory.
type divided struct {
	d      *def.Definition
	stages *def.Stages
	parts  []*Kernel // by stage; nil for an ordering
	dtypes [][]num.DType
	first  []int // by stage: its first entry

	short      *Kernel // for rows of at most shortRow columns, or nil
	firstShort int     // its first entry
}

// orderings are the functions of kernels/ordering.cu that compute an ordering, with the threads of a
// block; a rank has one for rows of up to shortRank columns and one for longer rows.
var orderings = map[def.Op][]struct {
	function string
	threads  int
}{
	def.OpRank:       {{"rank_short", 256}, {"rank_long", 512}},
	def.OpRowKth:     {{"select<false", 1024}},
	def.OpRowNucleus: {{"select<true", 1024}},
}

// shortRank is the number of columns up to which ranks are counted.
const shortRank = 1024

func compileStages(d *def.Definition, stages *def.Stages, dtypes []num.DType, v Variant, base string) *Kernel {
	k := &divided{d: d, stages: stages}
	source := Source{Name: base}
	var b strings.Builder
	heading(&b, d, dtypes)
	isRefused := "false"
	if hasIndex(d) {
		b.WriteString(checkSource(d, base) + "\n")
		source.Entries = append(source.Entries, base+"_check")
		isRefused = base + "_is_refused(p.refused)"
	}
	if slices.ContainsFunc(stages.List, func(s def.Stage) bool { return s.Part == nil && s.Ordering.Op.IsOrdering() }) {
		b.WriteString(named(orderingText, "PREFIX", base) + "\n")
	}
	for i := range stages.List {
		s := &stages.List[i]
		k.first = append(k.first, len(source.Entries))
		if s.Part == nil {
			entry := fmt.Sprintf("%s_%s%d", base, s.Ordering.Op, i+1)
			source.Entries = append(source.Entries, entry)
			if s.Ordering.Op.IsOrdering() {
				format := num.F32
				if s.Operands[0] < len(dtypes) {
					format = dtypes[s.Operands[0]]
				}
				for n, o := range orderings[s.Ordering.Op] {
					if n > 0 {
						entry += "_long"
						source.Entries = append(source.Entries, entry)
					}
					open := "<"
					if strings.Contains(o.function, "<") {
						open = ", "
					}
					fmt.Fprintf(&b, "KERNEL(%s, %d)(const %s_ordering_params p) { if (!(%s)) %[3]s_%[5]s%s%[3]s_%[7]s>(p); }\n", entry, o.threads, base, isRefused, o.function, open, format)
				}
				b.WriteString("\n")
			} else {
				b.WriteString(packing(s, dtypes, entry, isRefused) + "\n")
			}
			k.parts, k.dtypes = append(k.parts, nil), append(k.dtypes, nil)
			continue
		}
		part := compileRowwise(s.Part, s.DTypes(), v, fmt.Sprintf("%s_part%d", base, i+1))
		b.WriteString(part.Source.Text + "\n")
		source.Entries = append(source.Entries, part.Source.Entries...)
		k.parts, k.dtypes = append(k.parts, part), append(k.dtypes, s.DTypes())
	}
	if k.short = compileShort(d, dtypes, v, base+"_short"); k.short != nil {
		k.firstShort = len(source.Entries)
		source.Entries = append(source.Entries, k.short.Source.Entries...)
		b.WriteString(k.short.Source.Text)
	}
	source.Text = b.String()
	return &Kernel{Source: source, d: d, planner: k}
}

// packing returns the kernel that packs or unpacks in one stage.
func packing(s *def.Stage, dtypes []num.DType, entry, isRefused string) string {
	slots, slot, narrow, widen, rest := s.Operands[2], "u32", "", "", "0"
	if s.Ordering.Op == def.OpUnpacked {
		slots = s.Operands[1]
	}
	if format := dtypes[slots]; format.Size() == 2 {
		slot = "u16"
		narrow, widen = "narrow_"+format.String()+"(float_of", "bits_of(widen_"+format.String()+"("
	}
	if s.Ordering.Type == def.Int {
		rest = "0xffffffffu"
	}
	text := named(packingText, "ENTRY", entry, "IS_REFUSED", isRefused, "IS_PACKING", truth(s.Ordering.Op == def.OpPacked), "SLOT", slot, "REST", rest)
	if narrow == "" {
		return named(text, "NARROW", "", "WIDEN", "")
	}
	return named(text, "NARROW(p.x[row * p.cols + c])", narrow+"(p.x[row * p.cols + c]))", "WIDEN(slots[n])", widen+"slots[n]))")
}

// inScratch marks the address of an operand as an offset in scratch memory. No address of a device has
// this bit.
const inScratch = 1 << 63

// pointer adds the address of an operand, which may be in scratch memory.
func (p *Plan) pointer(address uint64) {
	if address&inScratch != 0 {
		p.scratch(int64(address &^ inScratch))
	} else {
		p.word(address)
	}
}

// launches implements planner.
func (k *divided) launches(p *Plan, c *lower.Call, limits Limits) error {
	if k.short != nil && c.Cols <= shortRow {
		p.firstEntry = k.firstShort
		err := k.short.planner.launches(p, c, limits)
		p.firstEntry = 0
		return err
	}
	p.values = slices.Grow(p.values[:0], len(k.stages.Values))[:len(k.stages.Values)]
	values := p.values
	for i, v := range k.stages.Values {
		rows, cols := 1, 1
		if v.Extent&def.PerRow != 0 {
			rows = c.Rows
		}
		if v.Extent&def.PerColumn != 0 {
			cols = c.Cols
		}
		values[i] = lower.Operand{}
		values[i].Array = num.Array{DType: num.F32, Rows: rows, Cols: cols, Stride: cols}
		values[i].Pointer = inScratch | uint64(p.reserve(rows*cols))
	}
	operand := func(at int) lower.Operand {
		if at < len(c.Operands) {
			return c.Operands[at]
		}
		return values[at-len(c.Operands)]
	}
	memory := int64(-1)
	for i := range k.stages.List {
		s := &k.stages.List[i]
		if s.Part != nil {
			call := &p.part
			call.Operands, call.Params, call.Rows, call.Cols = call.Operands[:0], c.Params, c.Rows, c.Cols
			for n, at := range s.Operands {
				o := operand(at)
				o.DType = k.dtypes[i][n]
				call.Operands = append(call.Operands, o)
			}
			p.firstEntry = k.first[i]
			err := k.parts[i].planner.launches(p, call, limits)
			p.firstEntry = 0
			if err != nil {
				return err
			}
			continue
		}
		if !s.Ordering.Op.IsOrdering() {
			first, second, third := operand(s.Operands[0]), operand(s.Operands[1]), operand(s.Operands[2])
			x, out, slots := second, third, third
			if s.Ordering.Op == def.OpUnpacked {
				x, slots = first, second
			}
			p.launch(k.first[i], [3]uint32{uint32(min(c.Rows, maxGrid)), 1, 1}, [3]uint32{128, 1, 1}, 0)
			p.pointer(first.Pointer)
			p.pointer(x.Pointer)
			p.pointer(out.Pointer)
			p.pointer(slots.Pointer)
			p.refused()
			p.ints(slots.Stride, c.Rows)
			p.half(uint32(c.Cols))
			p.half(uint32(slots.Cols))
			continue
		}
		var args [3]lower.Operand
		for n, at := range s.Operands[:len(s.Operands)-1] {
			args[n] = operand(at)
		}
		out := operand(s.Operands[len(s.Operands)-1])
		entry, blocks, threads := 0, c.Rows, 1024
		switch {
		case c.Cols <= 256:
			threads = 64
		case c.Cols <= 4096:
			threads = 256
		}
		per := args[1]
		switch s.Ordering.Op {
		case def.OpRank:
			threads = 256
			lanes := 32
			for lanes < c.Cols && lanes < threads {
				lanes *= 2
			}
			blocks = blocksOf(c.Rows, threads/lanes)
			if c.Cols > shortRank {
				entry, threads = 1, 512
				blocks = min(c.Rows, max(1, limits.Multiprocessors))
				if memory < 0 {
					memory = p.reserve(4 * blocks * c.Cols)
				}
			}
		case def.OpRowNucleus:
			per = args[2]
		}
		p.launch(k.first[i]+entry, [3]uint32{uint32(min(blocks, maxGrid)), 1, 1}, [3]uint32{uint32(threads), 1, 1}, 0)
		p.pointer(args[0].Pointer)
		p.ints(args[0].Stride)
		p.pointer(args[1].Pointer)
		p.pointer(per.Pointer)
		p.pointer(out.Pointer)
		p.pointer(inScratch | uint64(max(memory, 0)))
		if s.Need > 0 {
			p.pointer(operand(s.Need).Pointer)
		} else {
			p.word(0)
		}
		p.refused()
		step := 0
		if per.Rows > 1 {
			step = 1
		}
		p.ints(step, out.Stride, c.Rows)
		p.half(uint32(c.Cols))
		p.half(0)
	}
	return nil
}
