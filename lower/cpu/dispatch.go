package cpu

import (
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// dispatch sorts choices by expert with a counting sort. Workers count parts of the tokens, then each
// puts its part into place.
type dispatch struct {
	d    *def.Definition
	jobs sync.Pool
}

func compileDispatch(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	return &dispatch{d: d}, nil
}

func (p *dispatch) String() string {
	return fmt.Sprintf("dispatch %s: a counting sort, in parts\n", p.d.Name)
}

type dispatchJob struct {
	p                                           *dispatch
	index, counts, offsets, source, slot, place num.Array
	places                                      [][]int32 // by part and expert, bad indices last: how many there are, then where the next is put
	phase                                       int
}

// partOfTokens is how many choices a part has at least.
const partOfTokens = 1 << 14

// Bind implements Program.
func (p *dispatch) Bind(c *lower.Call, workers int) Job {
	j, _ := p.jobs.Get().(*dispatchJob)
	if j == nil {
		j = &dispatchJob{p: p}
	}
	f := p.d.Form.(*def.Sort)
	j.index, j.counts, j.offsets = c.Operands[f.Index].Array, c.Operands[f.Counts].Array, c.Operands[f.Offsets].Array
	j.source, j.slot, j.place, j.phase = c.Operands[f.Source].Array, c.Operands[f.Slot].Array, c.Operands[f.Place].Array, 0
	parts := min(workers, 1+j.index.Rows*j.index.Cols/max(partOfTokens, j.counts.Rows))
	for len(j.places) < parts {
		j.places = append(j.places, nil)
	}
	j.places = j.places[:parts]
	return j
}

// Next implements Job.
func (j *dispatchJob) Next() (int, bool) {
	switch j.phase++; j.phase {
	case 1:
	case 2:
		j.divide()
	default:
		return 0, false
	}
	return len(j.places), true
}

// Do implements Job.
func (j *dispatchJob) Do(_, part int) {
	if j.phase == 1 {
		j.count(part)
	} else {
		j.put(part)
	}
}

// part returns the tokens of a part.
func (j *dispatchJob) part(part int) (from, to int) {
	return j.index.Rows * part / len(j.places), j.index.Rows * (part + 1) / len(j.places)
}

// count counts the choices of each expert in a part.
func (j *dispatchJob) count(part int) {
	experts := j.counts.Rows
	counts := j.places[part]
	if cap(counts) < experts+1 {
		counts = make([]int32, experts+1)
	}
	counts = counts[:experts+1]
	clear(counts)
	from, to := j.part(part)
	for t := from; t < to; t++ {
		for _, e := range row(&j.index, t) {
			counts[min(uint32(e), uint32(experts))]++
		}
	}
	j.places[part] = counts
}

// divide turns the counts into places, and writes what is known of experts.
func (j *dispatchJob) divide() {
	sum, experts := int32(0), j.counts.Rows
	for e := range experts + 1 {
		first := sum
		for _, places := range j.places {
			n := places[e]
			places[e] = sum
			sum += n
		}
		j.offsets.SetBits(e, 0, uint32(first))
		if e < experts {
			j.counts.SetBits(e, 0, uint32(sum-first))
		}
	}
}

// put puts the choices of a part into their places.
func (j *dispatchJob) put(part int) {
	places, experts, cols := j.places[part], uint32(j.counts.Rows), j.index.Cols
	sources, sourceAt := counter(&j.source)
	slots, slotAt := counter(&j.slot)
	from, to := j.part(part)
	for t := from; t < to; t++ {
		place := row(&j.place, t)
		for s, v := range row(&j.index, t) {
			e := min(uint32(v), experts)
			r := places[e]
			places[e]++
			source, slot := int32(t), int32(t*cols+s)
			place[s] = r
			if e == experts {
				place[s], source, slot = -1, -1, -1
			}
			sources[sourceAt(int(r))], slots[slotAt(int(r))] = source, slot
		}
	}
}

// row returns a row of int32.
func row(a *num.Array, r int) []int32 { return view[int32](a, r, 0, a.Cols) }

// counter returns the elements of an array with the gaps between its rows, and where element i of
// those without gaps is.
func counter(a *num.Array) (elements []int32, at func(i int) int) {
	elements = view[int32](a, 0, 0, (a.Rows-1)*a.Stride+a.Cols)
	if a.Stride == a.Cols {
		return elements, func(i int) int { return i }
	}
	return elements, func(i int) int { return i/a.Cols*a.Stride + i%a.Cols }
}

// Release implements Job.
func (j *dispatchJob) Release() {
	j.index, j.counts, j.offsets, j.source, j.slot, j.place = num.Array{}, num.Array{}, num.Array{}, num.Array{}, num.Array{}, num.Array{}
	j.p.jobs.Put(j)
}
