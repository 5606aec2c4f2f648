package train

import (
	"encoding/binary"
	"fmt"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/op/checksum"
	"tokitai/op/norm"
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
	for _, list := range m.spans {
		longest = max(longest, lengthOf(list))
	}
	parts := make([][]span, m.Size())
	for at := 0; at < longest; at += roundElements {
		for r, list := range m.spans {
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
func (t *Trainer) reduce() (loss float32, err error) {
	if err := t.queue.Wait(); err != nil {
		return 0, err
	}
	m := t.team
	err = m.rounds(func(at int, parts [][]span) error {
		own := m.nodes[m.Rank()]
		for r, list := range parts {
			n := 4 * lengthOf(list)
			m.send[r] = sized(m.send[r], n*len(own))
			at := m.send[r]
			for i := range own {
				for _, s := range list {
					if err := copyOut(t.levels[i].grads[s.weight], s.lo, s.hi, at); err != nil {
						return err
					}
					at = at[4*s.len():]
				}
			}
			m.receive[r] = sized(m.receive[r], 4*lengthOf(parts[m.Rank()])*len(m.nodes[r]))
		}
		if err := t.noteSent(parts); err != nil {
			return err
		}
		if err := m.AllToAllV(m.send, m.receive); err != nil {
			return err
		}
		if err := t.addUp(at, parts[m.Rank()]); err != nil {
			return err
		}
		return t.auditMessages(parts)
	})
	if err != nil {
		return 0, err
	}
	if err := t.gatherRows(); err != nil {
		return 0, err
	}
	return t.gatherNotes()
}

// addUp adds the spans that every rank has sent for each of its sums, into the gradients from at on.
func (t *Trainer) addUp(at int, spans []span) error {
	n := lengthOf(spans)
	if n == 0 {
		return nil
	}
	m, sums := t.team, tree{leaves: t.config.Leaves}
	var waiting []*tensor.Tensor
	for i := range m.levels {
		level, lo := m.levels[i], 0
		if i == 0 {
			level, lo = m.sum, at
		}
		x, err := flat(level, lo, lo+n)
		if err != nil {
			return err
		}
		waiting = append(waiting, x)
	}
	for r, nodes := range m.nodes {
		for i, node := range nodes {
			x := waiting[len(sums.nodes)]
			if err := copyIn(x, 0, n, m.receive[r][4*n*i:]); err != nil {
				return err
			}
			if err := t.noteReceived(x, spans); err != nil {
				return err
			}
			err := sums.push(node, func(at int) error {
				return engine.Call(t.queue, model.Add, []*tensor.Tensor{waiting[at], waiting[at+1], waiting[at]}, nil)
			})
			if err != nil {
				return err
			}
		}
	}
	return t.queue.Wait()
}

// gatherRows computes the square sums of the flat rows of the own spans, and brings those of all ranks here.
func (t *Trainer) gatherRows() error {
	m := t.team
	if m.measure != nil {
		if err := m.measure.Run(t.queue); err != nil {
			return err
		}
		if err := t.queue.Wait(); err != nil {
			return err
		}
	}
	at := 0
	var from, to int // the own rows
	for r, list := range m.spans {
		n := 0
		for _, s := range list {
			n += norm.Rows(s.len())
		}
		if r == m.Rank() {
			from, to = at, at+n
		}
		m.receive[r] = sized(m.receive[r], 4*n)
		at += n
	}
	own := make([]byte, 4*(to-from))
	if err := copyOut(m.all, from, to, own); err != nil {
		return err
	}
	if err := m.AllGather(own, m.receive); err != nil {
		return err
	}
	at = 0
	for _, sums := range m.receive {
		if err := copyIn(m.all, at, at+len(sums)/4, sums); err != nil {
			return err
		}
		at += len(sums) / 4
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
		from, to := leavesOf(t.config.Leaves, m.Size(), r)
		l := &lists[r]
		l.losses = make([]float32, len(m.nodes[r]))
		l.counts, l.entropies = make([]int32, (to-from)*experts), make([]float32, (to-from)*routers)
		m.receive[r] = sized(m.receive[r], 4*(len(l.losses)+len(l.counts)+len(l.entropies)))
	}
	if err := m.AllGather(own, m.receive); err != nil {
		return 0, err
	}
	t.routed = routed{}
	sums, waiting := tree{leaves: t.config.Leaves}, []float32{}
	for r := range lists {
		l, at := &lists[r], m.receive[r]
		for _, list := range []any{l.losses, l.counts, l.entropies} {
			n, err := binary.Decode(at, binary.LittleEndian, list)
			if err != nil {
				return 0, err
			}
			at = at[n:]
		}
		t.routed.counts, t.routed.entropies = append(t.routed.counts, l.counts...), append(t.routed.entropies, l.entropies...)
		for i, node := range m.nodes[r] {
			waiting = append(waiting[:len(sums.nodes)], l.losses[i])
			sums.push(node, func(at int) error { waiting[at] += waiting[at+1]; return nil })
		}
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

// gatherDigests brings the digests of all ranks here.
func (m *team) gatherDigests(own []checksum.Digest) ([][]checksum.Digest, error) {
	raw, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return nil, err
	}
	for r := range m.receive {
		m.receive[r] = sized(m.receive[r], len(raw))
	}
	if err := m.AllGather(raw, m.receive); err != nil {
		return nil, err
	}
	lists := make([][]checksum.Digest, m.Size())
	for r := range lists {
		lists[r] = make([]checksum.Digest, len(own))
		if _, err := binary.Decode(m.receive[r], binary.LittleEndian, lists[r]); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// agree returns an error unless all ranks have the same entry of the chain, and the weights that were sent.
func (t *Trainer) agree() error {
	m := t.team
	digests, err := digestsOf(m.whole, len(t.working))
	if err != nil {
		return err
	}
	var entry [len(t.chain) / 8]checksum.Digest // as many words
	if _, err := binary.Decode(t.chain[:], binary.LittleEndian, &entry); err != nil {
		return err
	}
	lists, err := m.gatherDigests(append(entry[:], digests...))
	if err != nil {
		return err
	}
	for r, list := range lists {
		if theirs := [len(entry)]checksum.Digest(list); theirs != entry {
			return &ranks.PeerError{Rank: r, Problem: fmt.Sprintf("has another entry of the chain than rank %d", m.Rank())}
		}
		for i, d := range list[len(entry):] {
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
		whole = make([]byte, 4*t.working[p.weight].Len())
		for r := range receive {
			s := m.spans[r][p.weight]
			receive[r] = whole[4*s.lo : 4*s.hi]
		}
	}
	return whole, m.AllToAllV(send, receive)
}
