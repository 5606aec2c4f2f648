package train

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"tokitai/op/checksum"
	"tokitai/ranks"
)

// compare compares digests that each rank has of its own work with those that its auditor has. size returns how many there are of
// a rank. If they differ, all ranks call third, which returns on the judge what it has, and the error names the rank that was wrong;
// name says what digest number at is of.
func (t *Trainer) compare(own, again []checksum.Digest, size func(rank int) int, third func(rank int) ([]checksum.Digest, error), name func(rank, at int, a, b []checksum.Digest) string) error {
	m := t.team
	counts := make([]int, m.Size())
	for r := range counts {
		counts[r] += size(r)
		counts[m.auditor(r)] += size(r)
	}
	lists, err := m.gatherLists(slices.Concat(own, again), counts)
	if err != nil {
		return err
	}
	for owner := range counts {
		auditor := m.auditor(owner)
		a, b := lists[owner][:size(owner)], lists[auditor][size(auditor):]
		at := 0
		for at < len(a) && a[at] == b[at] {
			at++
		}
		if at == len(a) {
			continue
		}
		judge := m.judge(owner)
		c, err := third(owner)
		if err != nil {
			return err
		}
		if c, err = m.broadcastDigests(judge, c, len(a)); err != nil {
			return err
		}
		wrong, right, where, doubt := owner, auditor, "", ""
		if q := m.audit.judge; q != nil {
			where = ", on " + q.Device().Kind()
		}
		switch c[at] {
		case a[at]:
			wrong, right = auditor, owner
		case b[at]:
		default:
			doubt = ", and has others again"
		}
		return &ranks.PeerError{Rank: wrong, Problem: fmt.Sprintf("computes other bits of %s than rank %d; rank %d was asked too%s%s", name(owner, at, a, b), right, judge, where, doubt)}
	}
	return nil
}

// broadcastDigests returns the digests that one rank has.
func (m *team) broadcastDigests(root int, list []checksum.Digest, n int) ([]checksum.Digest, error) {
	all := make([]checksum.Digest, n)
	copy(all, list)
	raw, err := binary.Append(nil, binary.LittleEndian, all)
	if err == nil {
		err = m.Broadcast(root, raw)
	}
	if err == nil {
		_, err = binary.Decode(raw, binary.LittleEndian, all)
	}
	return all, err
}

// alone returns a trainer that is alone, on the device for third opinions, with what programs read here.
func (t *Trainer) alone() (*Trainer, error) {
	o, err := prepare(cmp.Or(t.team.audit.judge, t.queue), Team{}, t.config, t.data)
	if err != nil {
		return nil, err
	}
	from, to := append(slices.Clone(t.working), t.biases.each...), append(slices.Clone(o.working), o.biases.each...)
	for i, x := range from {
		raw, err := x.Bytes()
		if err == nil {
			err = to[i].SetBytes(raw)
		}
		if err != nil {
			o.Close()
			return nil, err
		}
	}
	return o, nil
}

// judgeShard brings the sums for the shard of a rank to the judge, and with isUpdate the state before the step, as its auditor has
// got it. There it calls compute with a trainer that is alone, and a shard with these.
func (t *Trainer) judgeShard(rank int, isUpdate bool, compute func(o *Trainer, s *shard) ([]checksum.Digest, error)) ([]checksum.Digest, error) {
	m := t.team
	judge, auditor := m.judge(rank), m.auditor(rank)
	var o *Trainer
	var s *shard
	if m.Rank() == judge {
		var err error
		if o, err = t.alone(); err != nil {
			return nil, err
		}
		defer o.Close()
		if s, err = o.newShard(m, rank); err != nil {
			return nil, err
		}
	}
	round := 0
	err := m.rounds(func(at int, parts [][]span) error {
		spans := parts[rank]
		send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
		var err error
		if send[judge], err = t.sumsOf(nil, spans); err != nil {
			return err
		}
		if o != nil {
			for r, nodes := range m.nodes {
				receive[r] = make([]byte, 4*lengthOf(spans)*len(nodes))
			}
		}
		if err := m.AllToAllV(send, receive); err != nil {
			return err
		}
		if o != nil {
			if err := o.addUp(m.nodes, s, at, spans, receive); err != nil {
				return err
			}
		}
		if !isUpdate {
			return nil
		}
		send, receive = make([][]byte, m.Size()), make([][]byte, m.Size())
		if m.Rank() == auditor {
			send[judge] = m.audit.before[round]
		}
		round++
		if o != nil {
			n, _ := s.moveState(spans, nil, nil)
			receive[auditor] = make([]byte, n)
		}
		if err := m.AllToAllV(send, receive); err != nil || o == nil {
			return err
		}
		_, err = s.moveState(spans, receive[auditor], copyIn)
		return err
	})
	if err != nil || o == nil {
		return nil, err
	}
	return compute(o, s)
}
