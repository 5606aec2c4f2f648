package train

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"math"
	"slices"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/op/checksum"
	"tokitai/ranks"
	"tokitai/tensor"
)

// sized returns b with a length; its bytes are not kept.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// rounds calls f for each round in which ranks exchange their spans, with what each rank has in it.
func (m *team) rounds(f func(at int, parts [][]span) error) error {
	longest := 0
	for _, list := range m.shared {
		longest = max(longest, lengthOf(list))
	}
	parts := make([][]span, m.Size())
	for at := 0; at < longest; at += roundElements {
		for r, list := range m.shared {
			parts[r] = cut(list, at, at+roundElements)
		}
		if err := f(at, parts); err != nil {
			return err
		}
	}
	return nil
}

// reduce brings the sums of all ranks to those that change the spans, and adds them up. It returns the loss of
// all leaves, and brings together how routers have worked.
func (t *Trainer) reduce(step int) (loss float32, err error) {
	if err := t.queue.Wait(); err != nil {
		return 0, err
	}
	m, isAudited := t.team, t.isAudited(step)
	m.audit.beginSums(len(m.nodes[m.Rank()]), len(t.names))
	err = m.rounds(func(at int, parts [][]span) error {
		for r, list := range parts {
			if m.send[r], err = t.sumsOf(m.send[r], list); err != nil {
				return err
			}
		}
		if err := t.noteSent(parts); err != nil {
			return err
		}
		if err := t.addShard(m.send, &t.shard, at, parts[m.Rank()]); err != nil {
			return err
		}
		if isAudited {
			toAuditors := make([][]byte, m.Size())
			for r, sums := range m.send {
				toAuditors[m.auditor(r)] = sums
			}
			if err := t.addShard(toAuditors, m.audit.other, at, parts[m.auditee()]); err != nil {
				return err
			}
		}
		return t.auditMessages(parts, isAudited)
	})
	if err == nil {
		err = t.auditSums(step)
	}
	if err == nil {
		err = t.gatherRows()
	}
	if err == nil {
		err = t.auditShards(step)
	}
	if err != nil {
		return 0, err
	}
	return t.gatherNotes()
}

// sumsOf reads spans of each sum of this rank, into the memory of b if there is enough.
func (t *Trainer) sumsOf(b []byte, spans []span) ([]byte, error) {
	own := t.team.nodes[t.team.Rank()]
	b = sized(b, 4*lengthOf(spans)*len(own))
	at := b
	for i := range own {
		for _, s := range spans {
			if err := copyOut(t.levels[i].grads[s.weight], s.lo, s.hi, at); err != nil {
				return nil, err
			}
			at = at[4*s.len():]
		}
	}
	return b, nil
}

// addShard sends sums to other ranks, and adds up what comes for spans of a shard, which are its elements from at on.
func (t *Trainer) addShard(send [][]byte, s *shard, at int, spans []span) error {
	m := t.team
	for r, nodes := range m.nodes {
		m.receive[r] = sized(m.receive[r], 4*lengthOf(spans)*len(nodes))
	}
	if err := m.AllToAllV(send, m.receive); err != nil {
		return err
	}
	return t.addUp(m.nodes, s, at, spans, m.receive)
}

// addUp adds the spans that every rank has sent for each of its sums, into the gradients of a shard from at on.
func (t *Trainer) addUp(nodes [][]node, s *shard, at int, spans []span, received [][]byte) error {
	n := lengthOf(spans)
	if n == 0 {
		return nil
	}
	sums := tree{leaves: t.config.Leaves}
	var waiting []*tensor.Tensor
	for i, x := range s.waiting {
		lo := 0
		if i == 0 {
			lo = at
		}
		part, err := flat(x, lo, lo+n)
		if err != nil {
			return err
		}
		waiting = append(waiting, part)
	}
	for _, one := range inOrder(nodes) {
		x := waiting[len(sums.nodes)]
		if err := copyIn(x, 0, n, received[one.rank][4*n*one.at:]); err != nil {
			return err
		}
		if err := t.noteReceived(x, spans); err != nil {
			return err
		}
		err := sums.push(one.node, func(at int) error {
			return engine.Call(t.queue, model.Add, []*tensor.Tensor{waiting[at], waiting[at+1], waiting[at]}, nil)
		})
		if err != nil {
			return err
		}
	}
	return t.queue.Wait()
}

// gatherRows computes the square sums of the flat rows that begin in the own spans, and brings those of all ranks here.
func (t *Trainer) gatherRows() error {
	m := t.team
	if err := t.divided.wholeRows(); err != nil {
		return err
	}
	if m.measure != nil {
		if err := m.measure.Run(t.queue); err != nil {
			return err
		}
		if err := t.queue.Wait(); err != nil {
			return err
		}
	}
	ranges := make([][][2]int, m.Size()) // of each rank, in m.all
	for r, list := range m.spans {
		at, n := 0, 0
		for i, s := range list {
			from, to := s.rows()
			if last := len(ranges[r]) - 1; last >= 0 && ranges[r][last][1] == at+from && from < to {
				ranges[r][last][1] = at + to
			} else if from < to {
				ranges[r] = append(ranges[r], [2]int{at + from, at + to})
			}
			n += to - from
			at += m.rows[i].Len()
		}
		m.receive[r] = sized(m.receive[r], 4*n)
	}
	own := make([]byte, len(m.receive[m.Rank()]))
	rest := own
	for _, x := range ranges[m.Rank()] {
		if err := copyOut(m.all, x[0], x[1], rest); err != nil {
			return err
		}
		rest = rest[4*(x[1]-x[0]):]
	}
	if err := m.gather("square sums", own, m.receive); err != nil {
		return err
	}
	for r, sums := range m.receive {
		for _, x := range ranges[r] {
			if err := copyIn(m.all, x[0], x[1], sums); err != nil {
				return err
			}
			sums = sums[4*(x[1]-x[0]):]
		}
	}
	return nil
}

// gatherNotes brings the losses of all sums here, which it adds up as the gradients are, and how the routers have
// worked.
func (t *Trainer) gatherNotes() (loss float32, err error) {
	m := t.team
	var losses []float32
	for i := range m.nodes[m.Rank()] {
		v, err := t.levels[i].loss.read()
		if err != nil {
			return 0, err
		}
		losses = append(losses, v)
	}
	own, err := binary.Append(nil, binary.LittleEndian, losses)
	if err == nil {
		own, err = binary.Append(own, binary.LittleEndian, t.routed.counts)
	}
	if err == nil {
		own, err = binary.Append(own, binary.LittleEndian, t.routed.entropies)
	}
	if err != nil {
		return 0, err
	}
	routers, experts := len(t.network.Routers), 0
	for _, r := range t.network.Routers {
		experts += r.Experts
	}
	lists := make([]struct {
		losses []float32
		routed
	}, m.Size())
	for r := range lists {
		n, l := len(m.leaves[r]), &lists[r]
		l.losses = make([]float32, len(m.nodes[r]))
		l.counts, l.entropies = make([]int32, n*experts), make([]float32, n*routers)
		m.receive[r] = sized(m.receive[r], 4*(len(l.losses)+len(l.counts)+len(l.entropies)))
	}
	if err := m.gather("losses and counts of tokens", own, m.receive); err != nil {
		return 0, err
	}
	t.routed = routed{make([]int32, t.config.Leaves*experts), make([]float32, t.config.Leaves*routers)}
	for r := range lists {
		l, at := &lists[r], m.receive[r]
		for _, list := range []any{l.losses, l.counts, l.entropies} {
			n, err := binary.Decode(at, binary.LittleEndian, list)
			if err != nil {
				return 0, err
			}
			at = at[n:]
		}
		for i, leaf := range m.leaves[r] {
			copy(t.routed.counts[leaf*experts:], l.counts[i*experts:][:experts])
			copy(t.routed.entropies[leaf*routers:], l.entropies[i*routers:][:routers])
		}
	}
	sums, waiting := tree{leaves: t.config.Leaves}, []float32{}
	for _, x := range inOrder(m.nodes) {
		waiting = append(waiting[:len(sums.nodes)], lists[x.rank].losses[x.at])
		sums.push(x.node, func(at int) error { waiting[at] += waiting[at+1]; return nil })
	}
	return waiting[0], nil
}

// gatherWeights brings what programs read of the weights from the ranks that have changed it.
func (t *Trainer) gatherWeights() error {
	m := t.team
	return m.rounds(func(_ int, parts [][]span) error {
		var own []byte
		for r, list := range parts {
			n := 0
			for _, s := range list {
				n += s.len() * t.working[s.weight].DType().Size()
			}
			if m.receive[r] = sized(m.receive[r], n); r == m.Rank() {
				m.send[r] = sized(m.send[r], n)
				own = m.send[r]
			}
		}
		at := own
		for _, s := range parts[m.Rank()] {
			if err := copyOut(t.working[s.weight], s.lo, s.hi, at); err != nil {
				return err
			}
			at = at[s.len()*t.working[s.weight].DType().Size():]
		}
		if err := m.AllGather(own, m.receive); err != nil {
			return err
		}
		for r, list := range parts {
			if r == m.Rank() {
				continue
			}
			at := m.receive[r]
			for _, s := range list {
				if err := copyIn(t.working[s.weight], s.lo, s.hi, at); err != nil {
					return err
				}
				at = at[s.len()*t.working[s.weight].DType().Size():]
			}
		}
		return nil
	})
}

// exchangeWeights gathers the weights behind the update, and returns the digests of all of them: the sums of those of the
// spans.
func (t *Trainer) exchangeWeights(own []checksum.Digest) ([]checksum.Digest, error) {
	m := t.team
	copies, err := digestsOf(m.own, len(t.working))
	if err != nil {
		return nil, err
	}
	lists, err := m.gatherDigests(append(own, copies...))
	if err != nil {
		return nil, err
	}
	all := make([]checksum.Digest, len(lists[0]))
	for _, list := range lists {
		for i, d := range list {
			all[i] = all[i].Plus(d)
		}
	}
	if err := t.gatherWeights(); err != nil {
		return nil, err
	}
	if err := m.copied.Run(t.queue); err != nil {
		return nil, err
	}
	m.sent = all[len(own):]
	return all[:len(own):len(own)], t.queue.Wait()
}

// gatherDigests returns the digests of all ranks. Every rank has the same number of them.
func (m *team) gatherDigests(own []checksum.Digest) ([][]checksum.Digest, error) {
	counts := make([]int, m.Size())
	for r := range counts {
		counts[r] = len(own)
	}
	return m.gatherLists(own, counts)
}

// gatherLists is gatherDigests for ranks with different numbers of digests.
func (m *team) gatherLists(own []checksum.Digest, counts []int) ([][]checksum.Digest, error) {
	raw, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return nil, err
	}
	lists := make([][]checksum.Digest, m.Size())
	for r, n := range counts {
		m.receive[r], lists[r] = sized(m.receive[r], 8*n), make([]checksum.Digest, n)
	}
	if err := m.gather("digests", raw, m.receive); err != nil {
		return nil, err
	}
	for r, list := range lists {
		if _, err := binary.Decode(m.receive[r], binary.LittleEndian, list); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// gather is AllGather for what is no tensor, and so is not digested on devices: a checksum goes with it.
func (m *team) gather(what string, own []byte, receive [][]byte) error {
	const size = 8
	sum := func(b []byte) uint64 { return crc64.Checksum(b, crcTable) }
	own = binary.LittleEndian.AppendUint64(slices.Clip(own), sum(own))
	for r, b := range receive {
		receive[r] = sized(b, len(b)+size)
	}
	if err := m.AllGather(own, receive); err != nil {
		return err
	}
	for r, b := range receive {
		n := len(b) - size
		if receive[r] = b[:n]; sum(b[:n]) != binary.LittleEndian.Uint64(b[n:]) {
			return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has sent other %s than have arrived at rank %d", what, m.Rank())}
		}
	}
	return nil
}

var crcTable = crc64.MakeTable(crc64.ECMA)

// agreeOn returns an error unless all ranks have the same words. What most ranks have is taken to be right; of as many on both
// sides, what the first has. name says what a word is of.
func (m *team) agreeOn(own []checksum.Digest, name func(at int) string) error {
	lists, err := m.gatherDigests(own)
	if err != nil {
		return err
	}
	right, most := 0, 0
	for r, list := range lists {
		votes := 0
		for _, other := range lists {
			if slices.Equal(list, other) {
				votes++
			}
		}
		if votes > most {
			right, most = r, votes
		}
	}
	for r, list := range lists {
		for i, d := range list {
			if d != lists[right][i] {
				return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has another %s than rank %d, as %d of %d ranks have it", name(i), right, most, m.Size())}
			}
		}
	}
	return nil
}

// agreeOnScalars returns an error unless all ranks have the same loss, norm and factor of the gradients.
func (t *Trainer) agreeOnScalars(loss, norm, factor float32) error {
	if t.team == nil {
		return nil
	}
	names := []string{"loss", "norm of the gradients", "factor of the gradients"}
	var words []checksum.Digest
	for _, v := range []float32{loss, norm, factor} {
		words = append(words, checksum.Digest{Word0: math.Float32bits(v)})
	}
	return t.team.agreeOn(words, func(i int) string { return names[i] })
}

// agree returns an error unless all ranks have the same entry of the chain, and the weights that were sent.
func (t *Trainer) agree() error {
	m := t.team
	var entry [len(t.chain) / 8]checksum.Digest // as many words
	if _, err := binary.Decode(t.chain[:], binary.LittleEndian, &entry); err != nil {
		return err
	}
	if err := m.agreeOn(entry[:], func(int) string { return "entry of the chain" }); err != nil {
		return err
	}
	digests, err := digestsOf(m.whole, len(t.working))
	if err != nil {
		return err
	}
	lists, err := m.gatherDigests(digests)
	if err != nil {
		return err
	}
	for r, list := range lists {
		for i, d := range list {
			if d != m.sent[i] {
				return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has other bits of %s than the ranks that sent it", t.names[i])}
			}
		}
	}
	return nil
}

// place sets a part of the state, on all ranks; rank 0 has its values.
func (t *Trainer) place(p part, whole []byte) error {
	m := t.team
	if m == nil {
		return p.tensor.SetBytes(whole)
	}
	if p.weight < 0 {
		raw := make([]byte, 4*p.tensor.Len())
		copy(raw, whole)
		if err := m.Broadcast(0, raw); err != nil {
			return err
		}
		return p.tensor.SetBytes(raw)
	}
	send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
	if m.Rank() == 0 {
		for r := range send {
			s := m.spans[r][p.weight]
			send[r] = whole[4*s.lo : 4*s.hi]
		}
	}
	receive[0] = make([]byte, 4*t.spans[p.weight].len())
	if err := m.AllToAllV(send, receive); err != nil || p.tensor == nil {
		return err
	}
	return p.tensor.SetBytes(receive[0])
}

// collect returns a part of the state, on rank 0; the others send theirs.
func (t *Trainer) collect(p part) ([]byte, error) {
	m := t.team
	if m == nil || p.weight < 0 {
		return p.tensor.Bytes()
	}
	send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
	if p.tensor != nil {
		own, err := p.tensor.Bytes()
		if err != nil {
			return nil, err
		}
		send[0] = own
	}
	var whole []byte
	if m.Rank() == 0 {
		whole = make([]byte, 4*t.network.Program.Value(t.names[p.weight]).Len())
		for r := range receive {
			s := m.spans[r][p.weight]
			receive[r] = whole[4*s.lo : 4*s.hi]
		}
	}
	return whole, m.AllToAllV(send, receive)
}
