package train

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/ranks"
	"tokitai/tensor"
)

// audit is what ranks do to find bits that one of them has got wrong. Gradients of leaves are computed on two ranks; what is sent
// is digested on both devices; weights and moments are digested behind a step and before the next.
type audit struct {
	share float64             // of the leaves
	first [][]checksum.Digest // of the audited leaves of this rank: the digests of their gradients, in order
	state []checksum.Digest   // of the own weights and moments behind the last step; nil before the first
	sent  []checksum.Digest   // of the spans that this rank sends in a round, and then of those that it has got
}

// isAudited reports whether a leaf of a step is computed twice: every rank draws the same ones.
func (t *Trainer) isAudited(step, leaf int) bool {
	if t.team == nil {
		return false
	}
	drawn := num.Philox(t.config.Seed, [4]uint32{uint32(step), uint32(leaf), 'a', 'u'})[0]
	return float64(drawn) < t.team.audit.share*(1<<32)
}

// digestsNow returns the digests of tensors; that of nil is zero.
func (t *Trainer) digestsNow(list []*tensor.Tensor) ([]checksum.Digest, error) {
	if len(list) == 0 {
		return nil, nil
	}
	words, err := tensor.New(t.queue.Device(), num.I32, len(list), 2)
	if err != nil {
		return nil, err
	}
	defer words.Close()
	for i, x := range list {
		if x == nil {
			continue
		}
		if err := digestInto(t.queue, words, i, x, 0); err != nil {
			return nil, err
		}
	}
	if err := t.queue.Wait(); err != nil {
		return nil, err
	}
	return digestsOf(words, len(list))
}

// auditor returns the rank that computes a leaf again, and judge the one that decides if both differ: a third one, or
// if there is none the owner once more.
func (m *team) auditor(owner int) int { return (owner + 1) % m.Size() }
func (m *team) judge(owner int) int {
	if m.Size() < 3 {
		return owner
	}
	return (owner + 2) % m.Size()
}

// ownerOf returns the rank that a leaf belongs to.
func (t *Trainer) ownerOf(leaf int) int {
	for r := range t.team.Size() {
		if _, to := leavesOf(t.config.Leaves, t.team.Size(), r); leaf < to {
			return r
		}
	}
	return -1
}

// computeAgain returns the digests of the gradients of a leaf, which nothing else gets.
func (t *Trainer) computeAgain(step, leaf int) ([]checksum.Digest, error) {
	before := t.routed
	last := len(t.levels) - 1
	if err := t.leaf(step, leaf, last); err != nil {
		return nil, err
	}
	t.routed = before
	return t.digestsNow(t.levels[last].grads)
}

// auditLeaves computes audited leaves of other ranks again, and compares.
func (t *Trainer) auditLeaves(step int) error {
	m := t.team
	if m.audit.share == 0 {
		return nil
	}
	own, counts := slices.Concat(m.audit.first...), make([]int, m.Size())
	var leaves []int
	for leaf := range t.config.Leaves {
		if !t.isAudited(step, leaf) {
			continue
		}
		leaves = append(leaves, leaf)
		owner := t.ownerOf(leaf)
		counts[owner] += len(t.names)
		counts[m.auditor(owner)] += len(t.names)
		if m.auditor(owner) == m.Rank() {
			again, err := t.computeAgain(step, leaf)
			if err != nil {
				return err
			}
			own = append(own, again...)
		}
	}
	lists, err := m.gatherLists(own, counts)
	if err != nil {
		return err
	}
	owned := make([]int, m.Size()) // leaves of each rank so far
	again := make([]int, m.Size()) // and of those that it has computed again
	for _, leaf := range leaves {
		owned[t.ownerOf(leaf)]++
	}
	copy(again, owned) // these come behind
	clear(owned)
	for _, leaf := range leaves {
		owner := t.ownerOf(leaf)
		auditor := m.auditor(owner)
		a := lists[owner][owned[owner]*len(t.names):][:len(t.names)]
		b := lists[auditor][again[auditor]*len(t.names):][:len(t.names)]
		owned[owner]++
		again[auditor]++
		if !slices.Equal(a, b) {
			return t.judgeLeaf(step, leaf, a, b)
		}
	}
	return nil
}

// judgeLeaf has a leaf computed once more, and names the rank that was wrong.
func (t *Trainer) judgeLeaf(step, leaf int, a, b []checksum.Digest) error {
	m := t.team
	owner := t.ownerOf(leaf)
	judge, auditor := m.judge(owner), m.auditor(owner)
	third := make([]checksum.Digest, len(t.names))
	if m.Rank() == judge {
		var err error
		if third, err = t.computeAgain(step, leaf); err != nil {
			return err
		}
	}
	raw, err := binary.Append(nil, binary.LittleEndian, third)
	if err == nil {
		err = m.Broadcast(judge, raw)
	}
	if err == nil {
		_, err = binary.Decode(raw, binary.LittleEndian, third)
	}
	if err != nil {
		return err
	}
	wrong, right := owner, auditor
	if slices.Equal(third, a) {
		wrong, right = auditor, owner
	}
	i := 0
	for a[i] == b[i] {
		i++
	}
	return &ranks.PeerError{Rank: wrong, Problem: fmt.Sprintf("computes other bits of the gradient of %s in leaf %d than rank %d; rank %d was asked too", t.names[i], leaf, right, judge)}
}

// gatherLists brings the digests of all ranks here, of which each has its own number.
func (m *team) gatherLists(own []checksum.Digest, counts []int) ([][]checksum.Digest, error) {
	raw, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return nil, err
	}
	lists := make([][]checksum.Digest, m.Size())
	for r, n := range counts {
		m.receive[r], lists[r] = sized(m.receive[r], 8*n), make([]checksum.Digest, n)
	}
	if err := m.AllGather(raw, m.receive); err != nil {
		return nil, err
	}
	for r, list := range lists {
		if _, err := binary.Decode(m.receive[r], binary.LittleEndian, list); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// noteSent digests the spans that this rank sends in a round.
func (t *Trainer) noteSent(parts [][]span) error {
	m := t.team
	if m.audit.share == 0 {
		return nil
	}
	var list []*tensor.Tensor
	for _, spans := range parts {
		for i := range m.nodes[m.Rank()] {
			for _, s := range spans {
				x, err := flat(t.levels[i].grads[s.weight], s.lo, s.hi)
				if err != nil {
					return err
				}
				list = append(list, x)
			}
		}
	}
	var err error
	m.audit.sent, err = t.digestsNow(list)
	return err
}

// noteReceived digests spans that have arrived one behind the other.
func (t *Trainer) noteReceived(x *tensor.Tensor, spans []span) error {
	m := t.team
	if m.audit.share == 0 {
		return nil
	}
	var list []*tensor.Tensor
	at := 0
	for _, s := range spans {
		part, err := flat(x, at, at+s.len())
		if err != nil {
			return err
		}
		list = append(list, part)
		at += s.len()
	}
	digests, err := t.digestsNow(list)
	m.audit.sent = append(m.audit.sent, digests...)
	return err
}

// auditMessages compares what ranks have sent in a round with what has arrived.
func (t *Trainer) auditMessages(parts [][]span) error {
	m := t.team
	if m.audit.share == 0 {
		return nil
	}
	spans, nodes := 0, 0
	for r := range parts {
		spans += len(parts[r])
		nodes += len(m.nodes[r])
	}
	counts := make([]int, m.Size())
	for r := range counts {
		counts[r] = len(m.nodes[r])*spans + nodes*len(parts[r])
	}
	lists, err := m.gatherLists(m.audit.sent, counts)
	if err != nil {
		return err
	}
	for to := range parts {
		got := lists[to][len(m.nodes[to])*spans:]
		for from := range parts {
			sent := lists[from]
			for _, before := range parts[:to] {
				sent = sent[len(m.nodes[from])*len(before):]
			}
			for k := range len(m.nodes[from]) * len(parts[to]) {
				if sent[k] != got[k] {
					return &ranks.PeerError{Rank: from, Problem: fmt.Sprintf("has sent other bits of the gradient of %s than have arrived at rank %d", t.names[parts[to][k%len(parts[to])].weight], to)}
				}
			}
			got = got[len(m.nodes[from])*len(parts[to]):]
		}
	}
	return nil
}

// keeps lists what this rank keeps from a step to the next.
func (t *Trainer) keeps() []part {
	list := t.state()
	for i, x := range t.working {
		list = append(list, part{name: "what programs read of " + t.names[i], tensor: x})
	}
	return list
}

// digestKept returns the digests of what this rank keeps.
func (t *Trainer) digestKept() ([]checksum.Digest, error) {
	var list []*tensor.Tensor
	for _, p := range t.keeps() {
		list = append(list, p.tensor)
	}
	return t.digestsNow(list)
}

// noteState digests the weights and moments behind a step.
func (t *Trainer) noteState() (err error) {
	if a := &t.team.audit; a.share > 0 {
		a.state, err = t.digestKept()
	}
	return err
}

// auditState compares weights and moments with what they were behind the step before.
func (t *Trainer) auditState() error {
	m := t.team
	if m.audit.share == 0 || m.audit.state == nil {
		return nil
	}
	now, err := t.digestKept()
	if err != nil {
		return err
	}
	changed := checksum.Digest{} // the place of the first change, counted from 1
	for i := range now {
		if now[i] != m.audit.state[i] {
			changed.Word0 = uint32(i + 1)
			break
		}
	}
	lists, err := m.gatherDigests([]checksum.Digest{changed})
	if err != nil {
		return err
	}
	for r, list := range lists {
		if at := int(list[0].Word0); at > 0 {
			return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has other bits of %s than behind the step before", t.keeps()[at-1].name)}
		}
	}
	return nil
}
