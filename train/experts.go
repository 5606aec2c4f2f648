package train

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/ranks"
	"tokitai/tensor"
)

// divided is what a rank has of experts that are divided among ranks, neighbours to each. It alone holds their weights and moments.
// Ranks compute a leaf each at the same time, a round: rank r leaf r, then leaf r + n, and so on. Wherever rows go to experts, each
// rank sends those of its leaf to the ranks of their experts, which compute them, for one leaf after another, and send results
// back. So gradients of experts come in the order of the leaves, and are added up by the tree of all leaves as they come.
type divided struct {
	t        *Trainer
	division *model.Division
	experts  *model.Experts
	bounds   []int          // the first expert of each rank, and behind the last
	weights  []int          // numbers of those of experts
	numbers  map[string]int // the same by the names of their gradients
	forwards int            // exchanges in front of the gradients

	levels [][]*tensor.Tensor // of the tree of leaves: gradients of the own experts, by the numbers of weights; nil for others
	whole  []*tensor.Tensor   // the first level, with what its last flat row lacks behind it
	sums   tree               // of the leaves of the step so far
	leaves int                // these
	runs   int                // leaves of the round

	counts        map[*model.Value][][]int32 // by the offsets of a mixture: the rows of each rank for each expert
	send, receive [][]byte
	sent          int64 // bytes of rows that went to other ranks, since the step began
}

// divideExperts divides the experts among ranks, if that is wanted and there are several.
func (t *Trainer) divideExperts(with Team) error {
	n, experts := with.Group.Size(), t.config.Mixture.Experts
	switch {
	case !with.DividesExperts:
		return nil
	case t.config.HasFeatures() || experts == 0 || len(t.network.Routers) == 0:
		return badInput("experts are to be divided among ranks, and the network has no mixture")
	case n > experts:
		return badInput("%d ranks for %d experts, want at most as many ranks as experts, if they are divided", n, experts)
	case with.Audit > 0:
		return badInput("experts are to be divided among ranks, and steps audited, want one of them: a second rank has no experts of the first")
	case n == 1:
		return nil
	}
	division, err := t.network.Program.Divide()
	if err != nil {
		return err
	}
	d := &divided{t: t, division: division, numbers: map[string]int{}, counts: map[*model.Value][][]int32{}, send: make([][]byte, n), receive: make([][]byte, n)}
	for r := range n + 1 {
		d.bounds = append(d.bounds, r*experts/n)
	}
	for i, w := range t.network.Program.Of(model.Weight) {
		for _, x := range division.Weights {
			if x.Weight == w.Name {
				d.weights, d.numbers[x.Gradient] = append(d.weights, i), i
			}
		}
	}
	for d.forwards < len(division.Exchanges) && division.Exchanges[d.forwards].IsFirst {
		d.forwards++
	}
	t.divided = d
	return nil
}

// isDivided reports whether a weight is one of experts that are divided among ranks.
func (t *Trainer) isDivided(weight int) bool {
	return t.divided != nil && slices.Contains(t.divided.weights, weight)
}

// sharedOf returns a list with nil for the weights of experts that are divided.
func (t *Trainer) sharedOf(list []*tensor.Tensor) []*tensor.Tensor {
	list = slices.Clone(list)
	for i := range list {
		if t.isDivided(i) {
			list[i] = nil
		}
	}
	return list
}

// own returns the experts of this rank, from and to.
func (d *divided) own() (from, to int) {
	r := d.t.team.Rank()
	return d.bounds[r], d.bounds[r+1]
}

// shape returns what this rank has of a weight of experts.
func (d *divided) shape(whole []int) []int {
	from, to := d.own()
	return append([]int{to - from}, whole[1:]...)
}

// program returns what a rank computes of a leaf of its own.
func (d *divided) program(whole *model.Program) *model.Program {
	if d == nil {
		return whole.Joined()
	}
	return d.division.Program
}

// spans divides weights of these sizes: experts as they are divided, and all others evenly, which shared has alone.
func (d *divided) spans(sizes []int) (all, shared [][]span) {
	others := slices.Clone(sizes)
	for _, i := range d.weights {
		others[i] = 0
	}
	n := len(d.bounds) - 1
	shared = divide(others, n)
	for r, list := range shared {
		list = slices.Clone(list)
		for _, i := range d.weights {
			each := sizes[i] / d.bounds[n]
			list[i] = span{i, d.bounds[r] * each, d.bounds[r+1] * each}
		}
		all = append(all, list)
	}
	return all, shared
}

// allocate makes the gradients of the own experts.
func (d *divided) allocate() error {
	if d == nil {
		return nil
	}
	t, given := d.t, map[string]*tensor.Tensor{}
	all := make([]int, t.config.Leaves)
	for leaf := range all {
		all[leaf] = leaf
	}
	_, levels := sumsOf(t.config.Leaves, all)
	d.whole = make([]*tensor.Tensor, len(t.names))
	for k := range levels {
		list := make([]*tensor.Tensor, len(t.names))
		for _, i := range d.weights {
			given[t.names[i]] = t.working[i]
			n := t.working[i].Len()
			if k == 0 {
				n += d.tail(t.team.Rank(), i).len()
			}
			x, err := t.tensor(num.F32, n)
			if err != nil {
				return err
			}
			shape := t.working[i].Shape()
			if list[i], err = tensor.At(x.Buffer(), 0, num.F32, shape[len(shape)-1], shape...); err != nil {
				return err
			}
			if k == 0 {
				d.whole[i] = x
			}
		}
		d.levels = append(d.levels, list)
	}
	experts, err := model.NewExperts(t.queue, d.division, t.team.Size(), given)
	d.experts, err = own(t, experts, err)
	return err
}

// tail returns the elements of a weight of experts behind those of a rank that the last flat row lacks which begins in its span.
func (d *divided) tail(rank, weight int) span {
	s := d.t.team.spans[rank][weight]
	if from, to := s.rows(); from < to {
		return span{weight, s.hi, min(to*num.FlatRow, d.t.team.spans[len(d.bounds)-2][weight].hi)}
	}
	return span{weight, s.hi, s.hi}
}

// setWhole says where the flat rows of gradients of experts are whole.
func (d *divided) setWhole(s *shard) (err error) {
	if d == nil {
		return nil
	}
	for _, i := range d.weights {
		own := s.spans[i]
		from, to := own.rows()
		s.whole[i] = nil
		if from == to {
			continue
		}
		if s.whole[i], err = flat(d.whole[i], from*num.FlatRow-own.lo, d.whole[i].Len()); err != nil {
			return err
		}
	}
	return nil
}

// wholeRows completes the last flat rows of gradients of experts with elements of the ranks behind.
func (d *divided) wholeRows() error {
	if d == nil {
		return nil
	}
	m := d.t.team
	me := m.Rank()
	// piece is what a rank has of the tail of another, for a weight.
	piece := func(from, to, i int) span {
		a, b := m.spans[from][i], d.tail(to, i)
		return span{i, max(a.lo, b.lo), max(max(a.lo, b.lo), min(a.hi, b.hi))}
	}
	for r := range d.send {
		d.send[r] = d.send[r][:0]
		n := 0
		for _, i := range d.weights {
			if s := piece(me, r, i); s.len() > 0 && r != me {
				raw, lo := make([]byte, 4*s.len()), m.spans[me][i].lo
				if err := copyOut(d.whole[i], s.lo-lo, s.hi-lo, raw); err != nil {
					return err
				}
				d.send[r] = append(d.send[r], raw...)
			}
			if r != me {
				n += 4 * piece(r, me, i).len()
			}
		}
		d.receive[r] = sized(d.receive[r], n)
	}
	if err := m.exchangeSummed("parts of gradients of experts", d.send, d.receive); err != nil {
		return err
	}
	for r := range d.receive {
		raw := d.receive[r]
		for _, i := range d.weights {
			s, lo := piece(r, me, i), m.spans[me][i].lo
			if s.len() == 0 || r == me {
				continue
			}
			if err := copyIn(d.whole[i], s.lo-lo, s.hi-lo, raw); err != nil {
				return err
			}
			raw = raw[4*s.len():]
		}
	}
	return nil
}

// sumLeaves computes the leaves of a step, in rounds.
func (d *divided) sumLeaves(step int) error {
	t := d.t
	d.sums, d.leaves, d.sent = tree{leaves: t.config.Leaves}, 0, 0
	for round := 0; d.leaves < t.config.Leaves; round++ {
		d.runs = min(t.team.Size(), t.config.Leaves-d.leaves)
		var err error
		if round < len(t.leaves) {
			err = t.leaf(step, t.leaves[round], round)
		} else {
			err = d.run(nil, len(d.division.Exchanges), nil)
		}
		if err != nil {
			return err
		}
		d.nextRound()
	}
	return nil
}

// nextRound notes that the leaves of a round are among the sums.
func (d *divided) nextRound() {
	for range d.runs {
		d.sums.push(node{0, d.leaves}, func(int) error { return nil })
		d.leaves++
	}
}

// forward takes part in a pass without gradients of a leaf of rank 0; p is nil on the others.
func (d *divided) forward(p *pass) error {
	d.runs = 1
	return d.run(p, d.forwards, nil)
}

// notes are told the calls of a pass and what they have used: of a leaf, by numbers, and of experts.
type notes struct {
	leaf    func(i int) error
	experts func(c *model.Call, operands []*tensor.Tensor) error
	behind  func() error // an exchange
}

// run makes the calls of a leaf of this rank, or for nil takes part with its experts alone, up to some exchange.
func (d *divided) run(p *pass, exchanges int, n *notes) error {
	for i := range exchanges {
		if p != nil {
			if err := p.segment(i, n); err != nil {
				return err
			}
			if err := d.t.queue.Wait(); err != nil {
				return err
			}
		}
		if err := d.exchange(i, p, n); err != nil {
			return err
		}
		if n != nil {
			if err := n.behind(); err != nil {
				return err
			}
		}
	}
	if p == nil {
		return nil
	}
	return p.segment(exchanges, n)
}

// exchange sends the rows of the own leaf to their experts, computes those that come for the own experts, and sends results back.
func (d *divided) exchange(i int, p *pass, n *notes) error {
	x := &d.division.Exchanges[i]
	if x.IsFirst {
		if err := d.count(i, p); err != nil {
			return err
		}
	}
	if err := d.experts.Prepare(x); err != nil {
		return err
	}
	for _, v := range x.Rows {
		if err := d.move(x, v, p, true); err != nil {
			return err
		}
	}
	sums := map[int]*tree{}
	g := model.Gradients{
		Target: func(name string, _ int) *tensor.Tensor {
			i := d.numbers[name]
			if sums[i] == nil {
				sums[i] = &tree{d.sums.leaves, slices.Clone(d.sums.nodes)}
			}
			return d.levels[len(sums[i].nodes)][i]
		},
		Added: func(name string, run int) error {
			i := d.numbers[name]
			return sums[i].push(node{0, d.leaves + run}, func(at int) error {
				to, from := d.levels[at][i], d.levels[at+1][i]
				return engine.Call(d.t.queue, model.Add, []*tensor.Tensor{to, from, to}, nil)
			})
		},
	}
	var note func(c *model.Call, operands []*tensor.Tensor) error
	if n != nil {
		note = n.experts
	}
	if err := d.experts.Run(x, g, note); err != nil {
		return err
	}
	if err := d.t.queue.Wait(); err != nil {
		return err
	}
	for _, v := range x.Results {
		if err := d.move(x, v, p, false); err != nil {
			return err
		}
	}
	return nil
}

// count tells all ranks how many rows the own leaf has for each expert.
func (d *divided) count(i int, p *pass) error {
	m, x := d.t.team, &d.division.Exchanges[i]
	n := d.bounds[m.Size()]
	own := make([]int32, n)
	if p != nil {
		offsets, err := p.leaf.Tensor(x.Offsets.Name).Int32s()
		if err != nil {
			return err
		}
		for e := range own {
			own[e] = offsets[e+1] - offsets[e]
		}
	}
	raw, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return err
	}
	for r := range d.receive {
		d.receive[r] = sized(d.receive[r], 4*n)
	}
	if err := m.gather("counts of rows", raw, d.receive); err != nil {
		return err
	}
	lists := make([][]int32, m.Size())
	for r := range lists {
		lists[r] = make([]int32, n)
		if _, err := binary.Decode(d.receive[r], binary.LittleEndian, lists[r]); err != nil {
			return err
		}
	}
	d.counts[x.Offsets] = lists
	from, to := d.own()
	var ours [][]int32
	for _, list := range lists[:d.runs] {
		ours = append(ours, list[from:to])
	}
	return d.experts.Begin(x, ours)
}

// move brings the rows of a value from the leaves to the experts, or back.
func (d *divided) move(x *model.Exchange, v *model.Value, p *pass, toExperts bool) error {
	m := d.t.team
	atLeaf, atExperts := d.send, d.receive
	if !toExperts {
		atLeaf, atExperts = d.receive, d.send
	}
	counts, cols := d.counts[x.Offsets], v.Shape[len(v.Shape)-1]
	sum := func(list []int32) (n int) {
		for _, k := range list {
			n += int(k)
		}
		return n
	}
	first := func(r int) int { return sum(counts[m.Rank()][:d.bounds[r]]) } // row of the own leaf for a rank
	for r := range m.Size() {
		if atLeaf[r] = sized(atLeaf[r], (first(r+1)-first(r))*cols*v.DType.Size()); toExperts && p != nil {
			if err := copyOut(p.leaf.Tensor(v.Name), first(r)*cols, first(r+1)*cols, atLeaf[r]); err != nil {
				return err
			}
		}
		atExperts[r] = sized(atExperts[r], 0)
		if r >= d.runs {
			continue
		}
		rows, err := d.experts.Rows(x, v, r)
		if err != nil {
			return err
		}
		atExperts[r] = sized(atExperts[r], rows.Len()*v.DType.Size())
		if !toExperts {
			if err := copyOut(rows, 0, rows.Len(), atExperts[r]); err != nil {
				return err
			}
		}
	}
	for r, b := range d.send {
		if r != m.Rank() {
			d.sent += int64(len(b))
		}
	}
	if err := m.exchangeSummed("rows of "+v.Name, d.send, d.receive); err != nil {
		return err
	}
	for r := range m.Size() {
		if !toExperts && p != nil {
			if err := copyIn(p.leaf.Tensor(v.Name), first(r)*cols, first(r+1)*cols, d.receive[r]); err != nil {
				return err
			}
		}
		if toExperts && r < d.runs {
			rows, err := d.experts.Rows(x, v, r)
			if err == nil {
				err = copyIn(rows, 0, rows.Len(), d.receive[r])
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// exchangeSummed is AllToAllV with a checksum for each message.
func (m *team) exchangeSummed(what string, send, receive [][]byte) error {
	const size = 4
	for r := range send {
		send[r] = binary.LittleEndian.AppendUint32(send[r], crc32.Checksum(send[r], castagnoli))
		receive[r] = sized(receive[r], len(receive[r])+size)
	}
	if err := m.AllToAllV(send, receive); err != nil {
		return err
	}
	for r, b := range receive {
		n := len(b) - size
		if receive[r] = b[:n]; crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
			return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has sent other %s than have arrived at rank %d", what, m.Rank())}
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pass is the calls of a leaf of this rank, cut where rows go to their experts.
type pass struct {
	*divided
	cut      *model.Division
	leaf     *model.Instance
	segments []*engine.Recording
	isAlone  bool // it has no gradients, and the other ranks have no leaf at the same time
}

// newPass records the calls of a leaf.
func (d *divided) newPass(cut *model.Division, leaf *model.Instance, v model.Variables) (*pass, error) {
	p := &pass{divided: d, cut: cut, leaf: leaf}
	for i := range len(cut.Exchanges) + 1 {
		from, to := p.calls(i)
		r, err := d.t.queue.Record(func(q *engine.Queue) error {
			for k := from; k < to; k++ {
				if err := leaf.RunCall(q, k, v); err != nil {
					return err
				}
			}
			return nil
		})
		if r, err = own(d.t, r, err); err != nil {
			return nil, err
		}
		p.segments = append(p.segments, r)
	}
	return p, nil
}

// newForward returns a program without gradients, of rank 0.
func (d *divided) newForward(whole *model.Program, given map[string]*tensor.Tensor, v model.Variables) (*model.Instance, runner, error) {
	cut, err := whole.Divide()
	if err != nil {
		return nil, nil, err
	}
	same := len(cut.Exchanges) == d.forwards
	for i := range min(d.forwards, len(cut.Exchanges)) { // the other ranks make the calls of their own division
		a, b := cut.Exchanges[i], d.division.Exchanges[i]
		same = same && slices.EqualFunc(cut.Experts.Calls[a.From:a.To], d.division.Experts.Calls[b.From:b.To], func(a, b *model.Call) bool { return a.Name == b.Name && a.Definition == b.Definition })
	}
	if !same {
		return nil, nil, fmt.Errorf("the experts of the program without gradients make other calls than those of the program with them")
	}
	in, err := model.NewInstance(d.t.queue, cut.Program, given)
	if in, err = own(d.t, in, err); err != nil {
		return nil, nil, err
	}
	p, err := d.newPass(cut, in, v)
	if err != nil {
		return nil, nil, err
	}
	p.isAlone = true
	return in, p, nil
}

// calls returns those of a segment, from and to.
func (p *pass) calls(i int) (from, to int) {
	if i > 0 {
		from = p.cut.Exchanges[i-1].At
	}
	if i == len(p.cut.Exchanges) {
		return from, len(p.cut.Program.Calls)
	}
	return from, p.cut.Exchanges[i].At
}

// segment makes the calls of a segment; if they are to be noted, one by one.
func (p *pass) segment(i int, n *notes) error {
	if n == nil {
		return p.segments[i].Run(p.t.queue)
	}
	from, to := p.calls(i)
	for k := from; k < to; k++ {
		if err := n.leaf(k); err != nil {
			return err
		}
	}
	return nil
}

// Run makes all calls, with the other ranks.
func (p *pass) Run(*engine.Queue) error {
	if !p.isAlone {
		return p.run(p, len(p.cut.Exchanges), nil)
	}
	if err := p.t.command(passCommand); err != nil {
		return err
	}
	return p.forward(p)
}

// vary gives the calls new variables.
func (p *pass) vary(v model.Variables) error {
	for i, r := range p.segments {
		from, to := p.calls(i)
		err := r.Update(func(q *engine.Queue) error {
			for k := from; k < to; k++ {
				if slices.ContainsFunc(p.cut.Program.Calls[k].Params, func(x model.Param) bool { return x.Variable != "" }) {
					if err := p.leaf.RunCall(q, k, v); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// notFinite computes all leaves again, one by one: rank 0 call by call, and all ranks the rows of their experts. It is the trainer's.
func (d *divided) notFinite(e *NotFiniteError) error {
	t := d.t
	const none, ofLeaf = math.MaxUint32, 0 // or 1 + the number of a call of experts
	found := [2]uint32{none}               // and the number of an operand
	look := func(key uint32, operands []*tensor.Tensor) error {
		if found[0] != none {
			return nil
		}
		if err := t.queue.Wait(); err != nil {
			return err
		}
		at, err := firstNotFinite(operands)
		if at >= 0 {
			found = [2]uint32{key, uint32(at)}
		}
		return err
	}
	// share tells all ranks the first that one has found.
	share := func() error {
		lists, err := t.team.gatherDigests([]checksum.Digest{{Word0: found[0], Word1: found[1]}})
		if err != nil {
			return err
		}
		for _, list := range lists {
			if x := list[0]; x.Word0 < found[0] || x.Word0 == found[0] && x.Word1 < found[1] {
				found = [2]uint32{x.Word0, x.Word1}
			}
		}
		return nil
	}
	for leaf := range t.config.Leaves {
		var p *pass
		if t.team.Rank() == 0 {
			p = t.levels[0].pass
			if err := t.load(e.Step, leaf); err != nil {
				return err
			}
		}
		inLeaf := -1 // the number of the call in which it is
		n := &notes{
			leaf: func(i int) error {
				err := p.leaf.RunCall(t.queue, i, t.variables(e.Step, leaf))
				if err == nil && found[0] == none {
					if err = look(ofLeaf, p.leaf.Operands(i)); found[0] == ofLeaf {
						inLeaf = i
					}
				}
				return err
			},
			experts: func(c *model.Call, operands []*tensor.Tensor) error {
				return look(uint32(1+slices.Index(d.division.Experts.Calls, c)), operands)
			},
			behind: share,
		}
		d.sums, d.leaves, d.runs = tree{leaves: t.config.Leaves}, 0, 1
		if err := d.run(p, len(d.division.Exchanges), n); err != nil {
			return err
		}
		if err := share(); err != nil {
			return err
		}
		if found[0] == none {
			continue
		}
		c := d.division.Experts.Calls[max(found[0], 1)-1]
		if inLeaf >= 0 {
			c = p.cut.Program.Calls[inLeaf]
		}
		e.Call, e.Tensor = c.Name, c.Operands[found[1]].Value().Name
		break
	}
	return e
}

// bytes returns the memory of the sums and the rows of experts.
func (d *divided) bytes() int64 {
	if d == nil {
		return 0
	}
	n := d.experts.Bytes()
	for _, list := range d.levels[1:] {
		for _, x := range list {
			if x != nil {
				n += 4 * int64(x.Len())
			}
		}
	}
	return n
}

// Size is what a rank holds, and what it has sent in the last step.
type Size struct {
	Memory int64 `json:"memory_bytes"`    // on its device
	Rows   int64 `json:"sent_rows_bytes"` // of experts, to other ranks
}

// Sizes returns the sizes of all ranks.
func (t *Trainer) Sizes() ([]Size, error) {
	own := Size{Memory: t.Bytes()}
	if t.divided != nil {
		own.Rows = t.divided.sent
	}
	if t.team == nil {
		return []Size{own}, nil
	}
	if err := t.command(sizeCommand); err != nil {
		return nil, err
	}
	raw, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return nil, err
	}
	list, all := make([]Size, t.team.Size()), make([][]byte, t.team.Size())
	for r := range all {
		all[r] = make([]byte, len(raw))
	}
	if err := t.team.gather("sizes", raw, all); err != nil {
		return nil, err
	}
	for r := range list {
		if _, err := binary.Decode(all[r], binary.LittleEndian, &list[r]); err != nil {
			return nil, err
		}
	}
	return list, nil
}
