package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// field is one member of the struct of parameters.
type field struct {
	typeName, name, note string
	bytes                int
	kind                 fieldKind
	index                int                     // of an operand or parameter
	value                func(b *binding) uint64 // of a field of any other kind
}

// fieldKind says what a field's value is.
type fieldKind uint8

const (
	plainField    fieldKind = iota
	scratchField            // an offset in scratch memory
	refusedField            // no value: the address of the checks' words
	pointerField            // the address of an operand
	strideField             // of an operand
	floatField              // a parameter
	integralField           // a parameter
)

// binding holds the values of a launch's parameters.
type binding struct {
	operands   []lower.Operand
	params     []float64
	rows, cols int
	hasRows    bool // the division into rows matters

	rowValues, columnLanes int64 // in scratch memory
	rowParts               int64
	totalsIn, totalsOut    int64
	lanes, laneStep        int
	totalLength            int // sums to add up
	totalCount             int // sums that result
	slots                  int // of groups in shared memory
}

// padded returns the number of columns of a lane in scratch memory.
func (b *binding) padded() int { return (b.cols + 7) / 8 * 8 }

// layout lists the fields, those of eight bytes before those of four.
func (k *rowwise) layout() {
	add := func(bytes int, typeName, name, note string, value func(b *binding) uint64) {
		if note != "" {
			note = " // " + note
		}
		k.fields = append(k.fields, field{typeName: typeName, name: name, note: note, bytes: bytes, value: value})
	}
	addIndexed := func(bytes int, typeName, name string, kind fieldKind, index int) {
		k.fields = append(k.fields, field{typeName: typeName, name: name, bytes: bytes, kind: kind, index: index})
	}
	addScratch := func(typeName, name, note string, offset func(b *binding) int64) {
		add(8, typeName, name, note, func(b *binding) uint64 { return uint64(offset(b)) })
		k.fields[len(k.fields)-1].kind = scratchField
	}
	for i := range k.d.Operands {
		o := &k.d.Operands[i]
		pointer := k.dtypes[i].String() + "*"
		if !o.IsOut {
			pointer = "const " + pointer
		}
		addIndexed(8, pointer, k.operands[i], pointerField, i)
		if o.Extent&(def.PerRow|def.Chosen) != 0 {
			addIndexed(8, "i64", k.operands[i]+"_stride", strideField, i)
		}
		if o.Extent == def.PerSlot {
			add(8, "i64", k.operands[i]+"_slots", "", func(b *binding) uint64 { return uint64(b.operands[i].Cols) })
		}
		if o.IsTable() {
			add(8, "u64", k.operands[i]+"_rows", "", func(b *binding) uint64 { return uint64(b.operands[i].Rows) })
		}
	}
	add(8, "i64", "rows", "", func(b *binding) uint64 { return uint64(b.rows) })
	if hasIndex(k.d) {
		add(8, "const u64*", "refused", "null, or what the checking pass found", func(*binding) uint64 { return 0 })
		k.fields[len(k.fields)-1].kind = refusedField
	}
	if len(k.walk(spread).entries()) > 0 {
		addScratch("float*", "row_parts", "scratch: parts of reductions, 32 for each", func(b *binding) int64 { return b.rowParts })
	}
	if len(k.handedOn) > 0 {
		addScratch("float*", "row_values", "scratch: row reductions, one array of rows each", func(b *binding) int64 { return b.rowValues })
	}
	if len(k.columnSums) > 0 {
		addScratch("float*", "column_lanes", "scratch: lanes of column sums, padded columns each", func(b *binding) int64 { return b.columnLanes })
		add(8, "i64", "lanes", "that are not empty", func(b *binding) uint64 { return uint64(b.lanes) })
		add(8, "i64", "lane_step", "", func(b *binding) uint64 { return uint64(b.laneStep) })
		add(8, "i64", "padded", "", func(b *binding) uint64 { return uint64(b.padded()) })
	}
	if len(k.totalSums) > 0 {
		addScratch("const float*", "totals_in", "scratch: sums of flat rows, total_length for each total", func(b *binding) int64 { return b.totalsIn })
		addScratch("float*", "totals_out", "their sums, total_count for each total", func(b *binding) int64 { return b.totalsOut })
		add(8, "i64", "total_length", "", func(b *binding) uint64 { return uint64(b.totalLength) })
		add(8, "i64", "total_count", "", func(b *binding) uint64 { return uint64(b.totalCount) })
	}
	words := 3
	add(4, "u32", "cols", "", func(b *binding) uint64 { return uint64(b.cols) })
	add(4, "float", "column_count", "cols as a number", func(b *binding) uint64 { return uint64(math.Float32bits(float32(b.cols))) })
	if len(k.walk(staged).entries())+len(k.walk(partly).entries()) > 0 {
		words++
		add(4, "u32", "slots", "groups of a thread in shared memory", func(b *binding) uint64 { return uint64(b.slots) })
	}
	add(4, "float", "row_count", "", func(b *binding) uint64 { return uint64(math.Float32bits(float32(b.rows))) })
	for i, p := range k.d.Params {
		words++
		if p.IsInt {
			addIndexed(4, "i32", k.params[i], integralField, i)
		} else {
			addIndexed(4, "float", k.params[i], floatField, i)
		}
	}
	if words%2 == 1 {
		add(4, "u32", "pad", "", func(*binding) uint64 { return 0 })
	}
	for i := range k.fields {
		k.paramBytes += k.fields[i].bytes
	}
}

// pack adds the parameters in the layout of the kernel's struct.
func (k *rowwise) pack(p *Plan) {
	l := p.last()
	for i := range k.fields {
		f := &k.fields[i]
		switch {
		case f.kind == scratchField:
			p.scratch(int64(f.value(&p.binding)))
		case f.kind == refusedField:
			p.refused()
		case f.kind == pointerField:
			p.pointer(p.binding.operands[f.index].Pointer)
		case f.bytes == 8:
			l.Params = binary.LittleEndian.AppendUint64(l.Params, f.of(&p.binding))
		default:
			l.Params = binary.LittleEndian.AppendUint32(l.Params, uint32(f.of(&p.binding)))
		}
	}
}

// of returns the value of a field that is not an address in scratch memory or of a check.
func (f *field) of(b *binding) uint64 {
	switch f.kind {
	case pointerField:
		return b.operands[f.index].Pointer
	case strideField:
		return uint64(b.operands[f.index].Stride)
	case floatField:
		return uint64(math.Float32bits(float32(b.params[f.index])))
	case integralField:
		return uint64(uint32(int32(b.params[f.index])))
	}
	return f.value(b)
}

// rowwiseEntries are the indices of all kernels but rows among the source's entries, or -1
// for those that a definition does not need.
type rowwiseEntries struct {
	columnLanes, totalRows, totalFlat, totalNext, flat, elements, columns, scalars int
	check                                                                          int
}

// number finds the indices of the entries.
func (k *rowwise) number() {
	at := func(suffix string) int { return slices.Index(k.source.Entries, k.base+"_"+suffix) }
	k.entries = rowwiseEntries{
		columnLanes: at("column_lanes"), totalRows: at("total_rows"), totalFlat: at("total_flat"), totalNext: at("total_next"),
		flat: at("flat"), elements: at("elements"), columns: at("columns"), scalars: at("scalars"), check: at("check"),
	}
	for i := range k.rowEntries {
		k.rowEntries[i].index = slices.Index(k.source.Entries, k.rowEntries[i].name)
	}
}

// maxColumns is the length of the longest row: kernels count columns in 32 bits.
const maxColumns = 1 << 31

// maxGrid is the most blocks of a launch; kernels loop over the rest. A block has at most 2^10
// threads, and HIP counts the threads of a launch in 32 bits.
const maxGrid = 1 << 21

// bind returns an error for a call that the kernels cannot compute.
func (k *rowwise) bind(b *binding, c *lower.Call) error {
	if len(c.Operands) != len(k.d.Operands) || len(c.Params) != len(k.d.Params) {
		return fmt.Errorf("%s: got %d operands and %d parameters, want %d and %d", k.d.Name, len(c.Operands), len(c.Params), len(k.d.Operands), len(k.d.Params))
	}
	*b = binding{}
	b.operands, b.params, b.rows, b.cols = c.Operands, c.Params, c.Rows, c.Cols
	b.hasRows = !isContiguous(k.d, c.Operands)
	for i := range c.Operands {
		o, a := &k.d.Operands[i], &c.Operands[i]
		if a.DType != k.dtypes[i] {
			return fmt.Errorf("%s: %s is stored as %s, the kernel is compiled for %s", k.d.Name, o.Name, a.DType, k.dtypes[i])
		}
		if k.variant == Vector && !isAligned(k.d, o, a) {
			return fmt.Errorf("%s: %s does not consist of rows of whole groups at multiples of 16 bytes, which the vector kernel needs", k.d.Name, o.Name)
		}
	}
	switch {
	case b.cols < 1:
		return fmt.Errorf("%s: got %d rows and %d columns, want at least one column", k.d.Name, b.rows, b.cols)
	case b.cols > maxColumns:
		return fmt.Errorf("%s: got %d columns, want at most %d", k.d.Name, b.cols, maxColumns)
	}
	return nil
}

// launches implements planner.
func (k *rowwise) launches(p *Plan, c *lower.Call, limits Limits) error {
	b := &p.binding
	if err := k.bind(b, c); err != nil {
		return err
	}
	launch := func(entry, blocks, y, threads, shared int) {
		p.launch(entry, [3]uint32{uint32(max(1, min(blocks, maxGrid))), uint32(y), 1}, [3]uint32{uint32(threads), 1, 1}, shared)
		k.pack(p)
	}
	isFused := false
	if len(k.columnSums) > 0 {
		b.laneStep = num.ColLanes(b.cols)
		b.lanes = min(max(1, b.rows), b.laneStep) // the lane of no rows is zeros
		b.columnLanes = p.reserve(len(k.columnSums) * b.lanes * b.padded())
		if e, bytes := k.chooseRows(b, limits, true); e != nil && b.rows > 0 {
			isFused = true
			launch(e.index, blocksOf(b.lanes, e.rows/e.steps), 1, e.threads*e.rows, bytes)
		}
	}
	if !isFused {
		k.launchApart(p, limits, launch)
	}
	if len(k.columnOutputs) > 0 {
		threads := 64
		for threads < min(b.lanes, columnsThreads) {
			threads *= 2
		}
		launch(k.entries.columns, blocksOf(b.cols, 8), 1, threads, 0)
		p.last().IsEarly = true
	}
	if len(k.scalarOutputs) > 0 {
		launch(k.entries.scalars, 1, 1, 32, 0)
	}
	return nil
}

// launchApart launches rows, sums and elements as separate kernels.
func (k *rowwise) launchApart(p *Plan, limits Limits, launch func(entry, blocks, y, threads, shared int)) {
	b := &p.binding
	rows := func() {
		if blocks := k.spreadOver(b, limits); blocks > 1 {
			w := k.walk(spread)
			b.rowParts = p.reserve(b.rows * w.spreadWords(len(w.passes)) * 32)
			for i := range k.rowEntries {
				switch e := &k.rowEntries[i]; {
				case e.storage != spread:
				case e.groups == len(w.passes):
					launch(e.index, b.rows, 1, 32, 0)
				default:
					launch(e.index, b.rows, blocks, spreadThreads/blocks, 0)
				}
			}
			return
		}
		e, bytes := k.chooseRows(b, limits, false)
		blocks := blocksOf(b.rows, e.rows)
		if e.storage == streamed && limits.Multiprocessors > 0 {
			blocks = min(blocks, limits.Multiprocessors)
		}
		if e.storage.isStaged() {
			if limits.Multiprocessors > 0 {
				blocks = min(blocks, limits.Multiprocessors) // each fills a multiprocessor and loops over rows
			}
			// As much of the next row as there is room for.
			group := bytes / e.groups
			b.slots = e.groups
			if blocks < b.rows {
				b.slots = min(2*e.groups, (limits.SharedBytes-staticShared)/group)
			}
			bytes = b.slots * group
		}
		launch(e.index, blocks, 1, e.threads*e.rows, bytes)
	}
	groups := b.padded() / 8
	if len(k.handedOn) > 0 {
		b.rowValues = p.reserve(len(k.handedOn) * b.rows)
	}
	if k.hasRows && k.isSplit && b.rows > 0 {
		rows()
	}
	if len(k.columnSums) > 0 {
		launch(k.entries.columnLanes, blocksOf(b.lanes*groups, 256), 1, 256, 0)
	}
	if n := len(k.totalSums); n > 0 {
		b.totalCount = max(1, blocksOf(b.rows*b.cols, num.FlatRow))
		b.totalsOut = p.reserve(n * b.totalCount)
		entry := k.entries.totalRows
		if !b.hasRows {
			entry = k.entries.totalFlat
		}
		launch(entry, b.totalCount, 1, 1024, 0)
		for b.totalCount > 1 {
			b.totalsIn, b.totalLength = b.totalsOut, b.totalCount
			b.totalCount = blocksOf(b.totalLength, num.FlatRow)
			b.totalsOut = p.reserve(n * b.totalCount)
			launch(k.entries.totalNext, b.totalCount, n, 1024, 0)
		}
		b.totalsIn = b.totalsOut
	}
	if k.hasRows && !k.isSplit && b.rows > 0 {
		rows()
	}
	if k.storesElements() && b.rows > 0 {
		if !b.hasRows {
			launch(k.entries.flat, blocksOf(b.rows*b.cols, k.flatU*flatChunk), 1, flatThreads, 0)
		} else {
			if len(k.elementOutputs) == 0 {
				groups = 1
			}
			launch(k.entries.elements, blocksOf(b.rows*groups, 256), 1, 256, 0)
		}
	}
}

func blocksOf(items, perBlock int) int { return (items + perBlock - 1) / perBlock }

// chooseRows returns the instance of the rows kernel for rows of so many columns, and its
// dynamic shared memory in bytes. It returns nil if no instance with, or without, the lanes
// of column sums fits. Instances are in the order of preference.
func (k *rowwise) chooseRows(b *binding, limits Limits, isFused bool) (chosen *rowEntry, bytes int) {
	threads := num.RowLanes(b.cols) / lanesPerThread
	for i := range k.rowEntries {
		e := &k.rowEntries[i]
		groups := blocksOf(b.cols, e.threads*8)
		bytes := max(groups, e.groups) * e.sharedWords * 4 * e.threads * e.rows
		if e.storage == streamed {
			bytes = e.sharedWords * 4 * e.threads
		}
		switch {
		case isFused != (e.storage == fused), e.storage == spread:
		case e.threads != threads && (e.threads > threads || groups > 1): // lanes of other threads would not be empty
		case e.groups > 0 && groups > e.groups:
		case e.isWhole && b.cols != e.threads*8*e.groups:
		case e.isWhole && e.storage == fused && b.rows%(e.steps*b.laneStep) > 0:
		case e.isWhole && e.storage != fused && b.rows%max(1, limits.WarpWidth/e.threads) > 0:
		case bytes+staticShared <= limits.SharedBytes || bytes == 0:
			return e, bytes
		}
	}
	return nil, 0
}

// staticShared is an upper bound of the rows kernel's static shared memory.
const staticShared = 16 << 10

// mostShared is the shared memory of a block on devices that have the most.
const mostShared = 227 << 10
