package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/dispatch.cu
var dispatchText string

// dispatch plans the launches of kernels/dispatch.cu.
type dispatch struct{ d *def.Definition }

// The entries of kernels/dispatch.cu, in their order.
const (
	dispatchCount = iota
	dispatchScan
	dispatchPlace
	dispatchBounds
	dispatchCheck
)

var dispatchEntries = [...]string{"COUNT", "SCAN", "PLACE", "BOUNDS", "CHECK"}

func compileDispatch(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	k := &Kernel{Source: Source{Name: name}, d: d, planner: &dispatch{d}, check: dispatchCheck}
	pairs := []string{"IS_REFUSED", name + "_is_refused"}
	for _, entry := range dispatchEntries {
		full := name + "_" + strings.ToLower(entry)
		pairs = append(pairs, "ENTRY_"+entry, full)
		k.Source.Entries = append(k.Source.Entries, full)
	}
	var b strings.Builder
	heading(&b, d, dtypes)
	b.WriteString(checkSource(d, name) + "\n")
	b.WriteString(named(dispatchText, pairs...))
	k.Source.Text = b.String()
	return k
}

const (
	digitBits      = 9       // of an expert, at most, that a pass sorts by
	dispatchBlocks = 1 << 12 // of a pass, at most
)

// launches implements planner.
func (k *dispatch) launches(p *Plan, c *lower.Call, _ Limits) error {
	f := k.d.Form.(*def.Sort)
	index, counts, offsets := &c.Operands[f.Index], &c.Operands[f.Counts], &c.Operands[f.Offsets]
	source, slot, place := &c.Operands[f.Source], &c.Operands[f.Slot], &c.Operands[f.Place]
	choices, experts := index.Rows*index.Cols, counts.Rows
	if choices > math.MaxInt32 || experts >= math.MaxInt32 {
		return fmt.Errorf("%s: %d choices of %d experts are too many, want at most 2^31-1 and 2^31-2", k.d.Name, choices, experts)
	}
	width := bits.Len(uint(experts)) // bad indices count as expert number experts
	digits := tiles(width, digitBits)
	perDigit := tiles(width, digits)
	bins := 1 << perDigit
	rounds := max(1, tiles(choices, 256*dispatchBlocks))
	blocks := max(1, tiles(choices, 256*rounds))
	histogram, totals := p.reserve(bins*blocks), p.reserve(bins)
	var lists [2]int64
	for i := range min(2, digits-1) {
		lists[i] = p.reserve(choices)
	}
	launch := func(entry, blocks1, digit int) {
		p.launch(entry, [3]uint32{uint32(blocks1), 1, 1}, [3]uint32{256, 1, 1}, 0)
		p.pointers(index.Pointer)
		if digit > 0 {
			p.scratch(lists[(digit-1)%2])
		} else {
			p.pointers(0)
		}
		if digit < digits-1 {
			p.scratch(lists[digit%2])
		} else {
			p.pointers(0)
		}
		p.scratches(histogram, totals)
		p.pointers(counts.Pointer, offsets.Pointer, source.Pointer, slot.Pointer, place.Pointer)
		p.refused()
		p.ints(index.Stride, counts.Stride, offsets.Stride, source.Stride, slot.Stride, place.Stride)
		p.ints(choices, index.Cols, experts, blocks, rounds, digit*perDigit, bins, digits)
	}
	for digit := range digits {
		launch(dispatchCount, blocks, digit)
		launch(dispatchScan, bins, digit)
		launch(dispatchPlace, blocks, digit)
	}
	if digits > 1 {
		launch(dispatchBounds, min(tiles(experts+1, 256), maxGrid), digits-1)
	}
	return nil
}
