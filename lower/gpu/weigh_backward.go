package gpu

import (
	_ "embed"
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh_backward.cu
var weighBackwardText string

//go:embed kernels/weigh_deltas.cu
var weighDeltasText string

// weighBackward plans the launches of kernels/weigh_backward.cu.
type weighBackward struct {
	weigh // of the stream
	f     *def.StreamBackward
}

// backwardColumns are the columns of a thread. More would not fit into its registers.
var backwardColumns = [...]int{2, 4, 8}

// The entries of kernels/weigh_backward.cu, in their order: the first, then by columns of a thread those
// of queries and of keys.
const (
	backwardDeltas  = 0
	backwardQueries = 1
	backwardKeys    = 1 + len(backwardColumns)
)

// backwardWarps is how many deltas a block computes.
const backwardWarps = 8

func compileWeighBackward(d *def.Definition, dtypes []num.DType, _ Variant, base string) *Kernel {
	f := d.Form.(*def.StreamBackward)
	dtype := dtypes[f.Query]
	entries := []string{base + "_deltas"}
	pairs := []string{"ENTRY_DELTAS,", base + "_deltas,"}
	for _, of := range []string{"queries", "keys"} {
		for _, columns := range backwardColumns {
			entry := fmt.Sprintf("%s_%s_%d", base, of, columns)
			entries = append(entries, entry)
			pairs = append([]string{fmt.Sprintf("ENTRY_%s_%d,", map[string]string{"queries": "QUERIES", "keys": "KEYS"}[of], columns), entry + ","}, pairs...)
		}
	}
	check := len(entries)
	entries = append(entries, base+"_check")
	source := weighSource(d, dtypes, base, weighBackwardText+weighDeltasText, pairs,
		"LOAD(AT)", fmt.Sprintf("load_%s(AT)", dtype),
		"STORE(AT, X)", fmt.Sprintf("store_%s(AT, X)", dtype),
		"ROUND(X)", fmt.Sprintf("round_%s(X)", dtype))
	return &Kernel{Source: Source{Name: base, Text: source, Entries: entries}, d: d, planner: &weighBackward{weigh{d, &f.Stream}, f}, check: check}
}

// writeBackwardParams writes the struct of the parameters of kernels for gradients.
func (b *weighBody) writeBackwardParams(s *text) {
	s.open("struct Params {")
	s.line("const Element *q, *k, *v, *o, *d_o;")
	s.line("Element *dq, *dk, *dv;")
	s.line("const float* lse;")
	s.line("float *dbase, *delta; // a delta for each query and head, densely")
	s.line("const i32 *qstart, *kstart;")
	s.line("const u64* refused;")
	s.line("i64 q_token, q_group, q_head, k_token, k_group, v_token, v_group, o_token, o_group, o_head, d_o_token, d_o_group, d_o_head;")
	s.line("i64 dq_token, dq_group, dq_head, dk_token, dk_group, dv_token, dv_group, lse_token, lse_group, dbase_token, dbase_group;")
	s.line("i64 qstart_stride, kstart_stride, sequences, groups, shared, depth;")
	b.writeReads(s)
}

// scale writes the function that returns the scale of gradients, which depends on parameters alone.
func (b *weighBody) scale(s *text, output int) {
	of := b.d.Exec().Outputs[output].Value
	needed := map[*def.Node]bool{of: true}
	nodes := b.d.Exec().Nodes
	for i := len(nodes) - 1; i >= 0; i-- {
		if needed[nodes[i]] {
			for _, a := range nodes[i].Args {
				needed[a] = true
			}
		}
	}
	s.open("DEVICE float scale_of(const Params& p) {")
	for _, n := range nodes {
		if needed[n] && !isInline(n) {
			b.declare(s, n, b.rowwise.expression(n))
		}
	}
	s.line("return %s;", b.value(of))
	s.close("}")
	s.line("")
}

// launches implements planner.
func (k *weighBackward) launches(p *Plan, c *lower.Call, _ Limits) error {
	entry, slices, err := k.slices(c, backwardColumns[:])
	if err != nil {
		return err
	}
	groups, shared, tokens := c.Size(k.d, "G"), c.Size(k.d, "J"), c.Size(k.d, "T")
	sequences := c.Operands[k.f.QueryStarts].Rows - 1
	queries := lower.GroupSlots(tokens, weighTile, sequences) * groups * shared
	keys := lower.GroupSlots(c.Size(k.d, "S"), weighTile, sequences) * groups
	delta := p.reserve(tokens * groups * shared)
	for _, l := range []struct{ entry, blocks, slices, depth int }{
		{backwardDeltas, tiles(tokens*groups*shared, backwardWarps), 1, 1},
		{backwardQueries + entry, queries, slices, 1},
		{backwardKeys + entry, keys, slices, 2},
	} {
		if err := k.launchBackward(p, c, l.entry, [3]int{l.blocks, l.slices, l.depth}, 256, 0, delta, nil); err != nil {
			return err
		}
	}
	return nil
}

// launchBackward plans a launch of a kernel of gradients, with reserved memory for deltas, and tensor maps before the other parameters.
func (k *weighBackward) launchBackward(p *Plan, c *lower.Call, entry int, grid [3]int, threads, sharedBytes int, delta int64, maps []TensorMap) error {
	if err := k.checkAxes(c); err != nil {
		return err
	}
	if grid[0] > math.MaxInt32 {
		return fmt.Errorf("%s: %d blocks are too many for one launch", k.d.Name, grid[0])
	}
	if grid[0] == 0 {
		return nil
	}
	p.launch(entry, [3]uint32{uint32(grid[0]), uint32(grid[1]), uint32(grid[2])}, [3]uint32{uint32(threads), 1, 1}, sharedBytes)
	for i := range maps {
		p.tensorMap(&maps[i])
	}
	f := k.f
	at := func(operand int) *lower.Operand { return &c.Operands[operand] }
	for _, i := range []int{f.Query, f.Key, f.Value, f.Out, f.OutGradient, f.QueryGradient, f.KeyGradient, f.ValueGradient, f.LogSum} {
		p.pointers(at(i).Pointer)
	}
	if f.HasBase() {
		p.pointers(at(f.BaseGradient).Pointer)
	} else {
		p.word(0)
	}
	p.scratch(delta)
	qstart, kstart := at(f.QueryStarts), at(f.KeyStarts)
	p.pointers(qstart.Pointer, kstart.Pointer)
	p.refused()
	for _, i := range []int{f.Query, f.Key, f.Value, f.Out, f.OutGradient, f.QueryGradient, f.KeyGradient, f.ValueGradient, f.LogSum, f.BaseGradient} {
		if i < 0 {
			p.ints(0, 0)
			continue
		}
		a := at(i)
		for axis := range a.Batch.Count {
			p.ints(a.Batch.Axes[axis].Stride)
		}
		p.ints(a.Stride)
	}
	p.ints(qstart.Stride, kstart.Stride, qstart.Rows-1, c.Size(k.d, "G"), c.Size(k.d, "J"), c.Size(k.d, "D"))
	k.passReads(p, c)
	return nil
}
