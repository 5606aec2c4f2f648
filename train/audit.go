package train

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/ranks"
	"tokitai/tensor"
)

// audit is what ranks do to find bits that one of them has got wrong. In every step, what ranks send is digested on both devices, and
// weights and moments are digested behind the step and before the next. In audited steps, each rank also computes what another one
// does: its leaves, their sums, the gradients of its shard and their update.
type audit struct {
	share float64       // of the steps
	judge *engine.Queue // for third opinions; nil for the queue of the trainer
	other *shard        // of the rank that this one audits, computed again

	sent   []checksum.Digest   // of the spans that this rank sends in a round, and then of those that it has got
	sums   [][]checksum.Digest // of each sum of this rank and each weight: those of its spans, as they were sent
	leaves []checksum.Digest   // of the leaves of this rank
	again  []checksum.Digest   // of the leaves and the sums of the other rank
	kept   [][]checksum.Digest // of each rank: what it had behind the last step
	before [][]byte            // of each round: the state of the other rank before the step
}

func (t *Trainer) isAuditing() bool { return t.team != nil && t.team.audit.share > 0 }

// isAudited reports whether a step is computed twice. Every rank draws the same ones.
func (t *Trainer) isAudited(step int) bool {
	return t.isAuditing() && isDrawn(t.team.audit.share, num.Philox(t.config.Seed, [4]uint32{uint32(step), 0, 'a', 'u'})[0])
}

// isDrawn reports whether a random word draws something of a share.
func isDrawn(share float64, word uint32) bool { return float64(word) < share*(1<<32) }

// auditor returns the rank that computes again what another one does, auditee the one whose work this rank computes, and judge the one
// that decides if both differ: a third one, or if there is none the first once more.
func (m *team) auditor(rank int) int { return (rank + 1) % m.Size() }
func (m *team) auditee() int         { return (m.Rank() + m.Size() - 1) % m.Size() }
func (m *team) judge(rank int) int {
	if m.Size() < 3 {
		return rank
	}
	return (rank + 2) % m.Size()
}

// numbered is a tensor whose elements are numbered from first on: digests of parts of a tensor add up to that of all of it.
type numbered struct {
	*tensor.Tensor
	first int
}

// digestsNow returns the digests of tensors; that of none is zero.
func (t *Trainer) digestsNow(list []numbered) ([]checksum.Digest, error) {
	if len(list) == 0 {
		return nil, nil
	}
	words, err := tensor.New(t.queue.Device(), num.I32, len(list), 2)
	if err != nil {
		return nil, err
	}
	defer words.Close()
	for i, x := range list {
		if x.Tensor == nil {
			continue
		}
		if err := digestInto(t.queue, words, i, x.Tensor, uint64(x.first)); err != nil {
			return nil, err
		}
	}
	if err := t.queue.Wait(); err != nil {
		return nil, err
	}
	return digestsOf(words, len(list))
}

// sumOwnLeaves computes the leaves of this rank, and in audited steps those of another one.
func (t *Trainer) sumOwnLeaves(step int) error {
	if t.divided != nil {
		return t.divided.sumLeaves(step)
	}
	if !t.isAudited(step) {
		_, err := t.sumLeaves(step, t.leaves, 0, nil)
		return err
	}
	m := t.team
	m.audit.leaves = nil
	_, err := t.sumLeaves(step, t.leaves, 0, func(l *level) error {
		list, err := t.digestLeaf(l)
		m.audit.leaves = append(m.audit.leaves, list...)
		return err
	})
	if err == nil {
		m.audit.again, err = t.sumAgain(step, m, m.auditee(), len(m.nodes[m.Rank()]))
	}
	return err
}

// digestLeaf returns the digests of what a leaf has given: its sums and how routers have worked.
func (t *Trainer) digestLeaf(l *level) ([]checksum.Digest, error) {
	list := l.sums()
	for _, r := range t.network.Routers {
		in := t.levels[0].leaf
		list = append(list, numbered{in.Tensor(r.Counts), 0}, numbered{in.Tensor(r.Entropy), 0})
	}
	return t.digestsNow(list)
}

// sums lists the gradients of a level and the loss.
func (l *level) sums() (list []numbered) {
	for _, g := range l.grads {
		list = append(list, numbered{g, 0})
	}
	return append(list, numbered{l.loss.Tensor, 0})
}

// sumAgain computes the leaves of a rank and their sums, into levels from at on, and returns the digests of all.
func (t *Trainer) sumAgain(step int, m *team, rank, at int) (list []checksum.Digest, err error) {
	before := t.tally.leaves
	defer func() { t.tally.leaves = before }()
	nodes, err := t.sumLeaves(step, m.leaves[rank], at, func(l *level) error {
		digests, err := t.digestLeaf(l)
		list = append(list, digests...)
		return err
	})
	for i := range nodes {
		digests, err := t.digestsNow(t.levels[at+i].sums())
		if err != nil {
			return nil, err
		}
		list = append(list, digests...)
	}
	return list, err
}

// auditSums compares the leaves of ranks and their sums, as they were sent, with what the auditors have.
func (t *Trainer) auditSums(step int) error {
	if !t.isAudited(step) {
		return nil
	}
	m := t.team
	own := m.audit.leaves
	for i, sums := range m.audit.sums {
		loss, err := t.digestsNow([]numbered{{t.levels[i].loss.Tensor, 0}})
		if err != nil {
			return err
		}
		own = slices.Concat(own, sums, loss)
	}
	return t.compare(own, m.audit.again, func(rank int) int { return len(t.namesOfSums(rank)) },
		func(rank int) ([]checksum.Digest, error) {
			if m.Rank() != m.judge(rank) {
				return nil, nil
			}
			other, err := t.alone()
			if err != nil {
				return nil, err
			}
			defer other.Close()
			return other.sumAgain(step, m, rank, 0)
		},
		func(rank, at int, _, _ []checksum.Digest) string { return t.namesOfSums(rank)[at] })
}

// namesOfSums names the leaves of a rank and their sums, in the order of sumAgain.
func (t *Trainer) namesOfSums(rank int) (list []string) {
	var sums, routers []string
	for _, name := range t.names {
		sums = append(sums, "the gradient of "+name)
	}
	sums = append(sums, "the loss")
	for _, r := range t.network.Routers {
		routers = append(routers, r.Counts, r.Entropy)
	}
	for _, leaf := range t.team.leaves[rank] {
		for _, name := range slices.Concat(sums, routers) {
			list = append(list, fmt.Sprintf("%s in leaf %d", name, leaf))
		}
	}
	for _, n := range t.team.nodes[rank] {
		first := n.place << n.height
		for _, name := range sums {
			list = append(list, fmt.Sprintf("%s in the sum of leaves %d to %d", name, first, min(first+1<<n.height, t.config.Leaves)-1))
		}
	}
	return list
}

// beginSums begins a round of digests of sums.
func (a *audit) beginSums(sums, weights int) {
	a.sums = nil
	for range sums {
		a.sums = append(a.sums, make([]checksum.Digest, weights))
	}
}

// noteSent digests the spans that this rank sends in a round.
func (t *Trainer) noteSent(parts [][]span) error {
	if !t.isAuditing() {
		return nil
	}
	a := &t.team.audit
	var list []numbered
	var sums []*checksum.Digest
	for _, spans := range parts {
		for i := range a.sums {
			for _, s := range spans {
				x, err := flat(t.levels[i].grads[s.weight], s.lo, s.hi)
				if err != nil {
					return err
				}
				list, sums = append(list, numbered{x, s.lo}), append(sums, &a.sums[i][s.weight])
			}
		}
	}
	var err error
	a.sent, err = t.digestsNow(list)
	for k, d := range a.sent {
		*sums[k] = sums[k].Plus(d)
	}
	return err
}

// noteReceived digests spans that have arrived one behind the other.
func (t *Trainer) noteReceived(x *tensor.Tensor, spans []span) error {
	if !t.isAuditing() {
		return nil
	}
	var list []numbered
	at := 0
	for _, s := range spans {
		part, err := flat(x, at, at+s.len())
		if err != nil {
			return err
		}
		list = append(list, numbered{part, s.lo})
		at += s.len()
	}
	digests, err := t.digestsNow(list)
	t.team.audit.sent = append(t.team.audit.sent, digests...)
	return err
}

// auditMessages compares what ranks have sent in a round with what has arrived: at the ranks that change the spans, and in audited
// steps at their auditors.
func (t *Trainer) auditMessages(parts [][]span, isAudited bool) error {
	if !t.isAuditing() {
		return nil
	}
	m := t.team
	spans, nodes := 0, 0
	for r := range parts {
		spans += len(parts[r])
		nodes += len(m.nodes[r])
	}
	counts := make([]int, m.Size())
	for r := range counts {
		counts[r] += len(m.nodes[r])*spans + nodes*len(parts[r])
		if isAudited {
			counts[m.auditor(r)] += nodes * len(parts[r])
		}
	}
	lists, err := m.gatherLists(m.audit.sent, counts)
	if err != nil {
		return err
	}
	got := make([][]checksum.Digest, m.Size())
	for r, list := range lists {
		got[r] = list[len(m.nodes[r])*spans:]
	}
	check := func(of, at int) error {
		for from := range parts {
			sent := lists[from]
			for _, before := range parts[:of] {
				sent = sent[len(m.nodes[from])*len(before):]
			}
			n := len(m.nodes[from]) * len(parts[of])
			for k := range n {
				if sent[k] != got[at][k] {
					return &ranks.PeerError{Rank: from, Problem: fmt.Sprintf("has sent other bits of the gradient of %s than have arrived at rank %d", t.names[parts[of][k%len(parts[of])].weight], at)}
				}
			}
			got[at] = got[at][n:]
		}
		return nil
	}
	for r := range parts {
		if err := check(r, r); err != nil {
			return err
		}
	}
	for r := range parts {
		if !isAudited {
			break
		}
		if err := check(r, m.auditor(r)); err != nil {
			return err
		}
	}
	return nil
}

// auditShards compares the gradients of shards and their square sums with what the auditors have.
func (t *Trainer) auditShards(step int) error {
	if !t.isAudited(step) {
		return nil
	}
	m := t.team
	other := m.audit.other
	if err := other.measureRows(t.queue); err != nil {
		return err
	}
	own, err := t.digestsNow(t.shard.gradients())
	if err != nil {
		return err
	}
	again, err := t.digestsNow(other.gradients())
	if err != nil {
		return err
	}
	return t.compare(own, again, func(int) int { return len(own) },
		func(rank int) ([]checksum.Digest, error) {
			return t.judgeShard(rank, false, func(o *Trainer, s *shard) ([]checksum.Digest, error) {
				if err := s.measureRows(o.queue); err != nil {
					return nil, err
				}
				return o.digestsNow(s.gradients())
			})
		},
		func(_, at int, _, _ []checksum.Digest) string {
			return [...]string{"the sum of the gradient of ", "the square sums of the gradient of "}[at%2] + t.names[at/2]
		})
}

// gradients lists the gradients of a shard and the square sums of their rows.
func (s *shard) gradients() (list []numbered) {
	for i, x := range s.sums {
		list = append(list, numbered{x, 0}, numbered{s.rows[i], 0})
	}
	return list
}

// lendState brings the state of each shard to its auditor, in audited steps before the update.
func (t *Trainer) lendState(step int) error {
	if !t.isAudited(step) {
		return nil
	}
	m := t.team
	a, of := &m.audit, m.auditee()
	a.before = nil
	err := m.rounds(func(_ int, parts [][]span) error {
		send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
		own, theirs := parts[m.Rank()], parts[of]
		n, _ := t.moveState(own, nil, nil)
		raw := make([]byte, n)
		if _, err := t.moveState(own, raw, copyOut); err != nil {
			return err
		}
		n, _ = a.other.moveState(theirs, nil, nil)
		send[m.auditor(m.Rank())], receive[of] = raw, make([]byte, n)
		if err := m.AllToAllV(send, receive); err != nil {
			return err
		}
		a.before = append(a.before, receive[of])
		_, err := a.other.moveState(theirs, receive[of], copyIn)
		return err
	})
	if err != nil {
		return err
	}
	digests, err := t.digestsNow(t.stateOf(a.other))
	if err != nil {
		return err
	}
	lists, err := m.gatherDigests(digests)
	if err != nil {
		return err
	}
	names := t.namesOfState()
	for r, want := range a.kept {
		at := m.auditor(r)
		for k, d := range lists[at] {
			if isCopy := t.hasCopies() && k%(len(names)/len(t.names)) == len(names)/len(t.names)-1; !isCopy && d != want[k] {
				return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("had other bits of %s behind the step before than have arrived at rank %d", names[k], at)}
			}
		}
	}
	return nil
}

// stateOf lists the state of a shard: of each weight itself, the moments, and behind them the copy, if there is one.
func (t *Trainer) stateOf(s *shard) (list []numbered) {
	for i := range t.names {
		for _, x := range s.state(i) {
			list = append(list, numbered{x, 0})
		}
		if t.hasCopies() {
			list = append(list, numbered{s.copies[i], 0})
		}
	}
	return list
}

// namesOfState names what stateOf lists.
func (t *Trainer) namesOfState() (list []string) {
	for i, name := range t.names {
		for _, p := range t.parts(i) {
			list = append(list, p.name)
		}
		if t.hasCopies() {
			list = append(list, readName(name))
		}
	}
	return list
}

// readName names what programs read of a weight.
func readName(weight string) string { return "what programs read of " + weight }

// auditUpdate compares the state of shards behind a step with what the auditors have.
func (t *Trainer) auditUpdate(step int, factor float32) error {
	if !t.isAudited(step) {
		return nil
	}
	m := t.team
	if err := t.update(t.queue, m.audit.other, step, factor); err != nil {
		return err
	}
	again, err := t.digestsNow(t.stateOf(m.audit.other))
	if err != nil {
		return err
	}
	names := t.namesOfState()
	return t.compare(m.audit.kept[m.Rank()][:len(names)], again, func(int) int { return len(names) },
		func(rank int) ([]checksum.Digest, error) {
			return t.judgeShard(rank, true, func(o *Trainer, s *shard) ([]checksum.Digest, error) {
				if err := o.update(o.queue, s, step, factor); err != nil {
					return nil, err
				}
				return o.digestsNow(o.stateOf(s))
			})
		},
		func(_, at int, a, b []checksum.Digest) string {
			each := len(names) / len(t.names)
			var differ []string
			for k := at - at%each; k < at-at%each+each; k++ {
				if a[k] != b[k] {
					differ = append(differ, names[k])
				}
			}
			return "the update of " + strings.Join(differ, ", ")
		})
}

// keeps lists what this rank keeps from a step to the next: the state of its shard, biases, and what programs read.
func (t *Trainer) keeps() (names []string, list []numbered) {
	names, list = t.namesOfState(), t.stateOf(&t.shard)
	for _, p := range t.biases.state() {
		names, list = append(names, p.name), append(list, numbered{p.tensor, 0})
	}
	for i, x := range t.working {
		names, list = append(names, readName(t.names[i])), append(list, numbered{x, 0})
	}
	return names, list
}

// gatherKept returns the digests of what each rank keeps.
func (t *Trainer) gatherKept() ([][]checksum.Digest, error) {
	_, list := t.keeps()
	own, err := t.digestsNow(list)
	if err != nil {
		return nil, err
	}
	return t.team.gatherDigests(own)
}

// noteState digests what ranks keep behind a step.
func (t *Trainer) noteState() (err error) {
	if t.isAuditing() {
		t.team.audit.kept, err = t.gatherKept()
	}
	return err
}

// auditState compares what ranks keep with what it was behind the step before.
func (t *Trainer) auditState() error {
	if !t.isAuditing() {
		return nil
	}
	now, err := t.gatherKept()
	if err != nil {
		return err
	}
	names, _ := t.keeps()
	for r, list := range now {
		for i, d := range list {
			if d != t.team.audit.kept[r][i] {
				return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has other bits of %s than behind the step before", names[i])}
			}
		}
	}
	return nil
}

// partOf is a part of the state as it is outside of the ranks, by the digests of what each rank has of it.
type partOf struct {
	part
	digests []checksum.Digest
}

// digestPart digests a part of the state that goes into a checkpoint, or comes from one.
func (t *Trainer) digestPart(p part, whole []byte) (partOf, error) {
	of := partOf{part: p}
	if !t.isAuditing() {
		return of, nil
	}
	x, err := tensor.New(t.queue.Device(), num.F32, len(whole)/4)
	if err != nil {
		return of, err
	}
	defer x.Close()
	if err := x.SetBytes(whole); err != nil {
		return of, err
	}
	var list []numbered
	for _, spans := range t.team.spans {
		s := span{hi: x.Len()}
		if p.weight >= 0 {
			s = spans[p.weight]
		}
		part, err := s.of(x)
		if err != nil {
			return of, err
		}
		list = append(list, numbered{part, 0})
	}
	of.digests, err = t.digestsNow(list)
	return of, err
}

// auditParts compares parts of the state with what ranks have had of them behind the step.
func (t *Trainer) auditParts(list []partOf) error {
	if !t.isAuditing() {
		return nil
	}
	names, _ := t.keeps()
	for _, p := range list {
		at := slices.Index(names, p.name)
		for r, kept := range t.team.audit.kept {
			if p.digests[r] != kept[at] {
				return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has other bits of %s than behind step %d, or has sent or got them wrongly", p.name, t.step)}
			}
		}
	}
	return nil
}
