package kernelprocess

import (
	"context"
	"sync"

	"tokitai/def"
	"tokitai/kernelprocess/protocol"
	"tokitai/op/all"
)

// announcement is an arena or a definition that has been sent to the process, or is being
// sent.
type announcement struct {
	done chan struct{}
	err  error

	// Under the connection's mutex.
	request   *request // once it is sent
	isGivenUp bool     // by a call that needs it
}

// sendOnce makes sure that the process knows the arena or definition of a key. For one that
// it does not know, it calls begin, send, and in the end end.
func (k *core) sendOnce(ctx context.Context, c *child, key any, begin func(), send func(*announcement) error, end func()) error {
	c.conn.mu.Lock()
	n, isKnown := c.conn.announced[key]
	if !isKnown {
		n = &announcement{done: make(chan struct{})}
		c.conn.announced[key] = n
	}
	c.conn.mu.Unlock()
	if !isKnown {
		begin()
		go func() {
			defer end()
			defer close(n.done)
			if n.err = send(n); n.err != nil {
				c.conn.mu.Lock()
				delete(c.conn.announced, key) // so that the next call tries again
				c.conn.mu.Unlock()
			}
		}()
	}
	select {
	case <-n.done:
		return n.err
	default:
	}
	select {
	case <-n.done:
		return n.err
	case <-ctx.Done():
		c.conn.mu.Lock()
		n.isGivenUp = true
		k.limitGivenUp(c, n)
		c.conn.mu.Unlock()
		return ctx.Err()
	}
}

// limitGivenUp ends a process that does not answer an announcement after the call that
// needs it has been given up. The caller holds the connection's mutex.
func (k *core) limitGivenUp(c *child, n *announcement) {
	if r := n.request; r != nil && n.isGivenUp && c.conn.pending[r.id] == r && r.hang == nil {
		c.conn.watch(r, k.options.HangAfter)
	}
}

// await sends the request of an announcement, and waits for its answer.
func (k *core) await(c *child, n *announcement, r *request, fd int) error {
	if err := c.conn.send(r, fd); err != nil {
		return err
	}
	c.conn.mu.Lock()
	n.request = r
	k.limitGivenUp(c, n)
	c.conn.mu.Unlock()
	<-r.done
	return r.err
}

// announce makes sure that the process knows an arena.
func (k *core) announce(ctx context.Context, c *child, a *arena) error {
	return k.sendOnce(ctx, c, a.id, func() { k.memory.hold(a) }, func(n *announcement) error {
		r := newRequest(protocol.KindArena)
		r.frame = (&protocol.ArenaBody{Arena: a.id, Bytes: int64(len(a.bytes))}).Append(r.frame)
		return k.await(c, n, r, a.region.FD())
	}, func() { k.memory.letGo(a) })
}

// dropArena tells the process that an arena is gone, if it knows it.
func (k *core) dropArena(id uint32) {
	k.mu.Lock()
	c := k.child
	k.mu.Unlock()
	if c == nil {
		return
	}
	c.conn.mu.Lock()
	_, isKnown := c.conn.announced[id]
	delete(c.conn.announced, id)
	c.conn.mu.Unlock()
	if isKnown {
		r := newRequest(protocol.KindDrop)
		r.frame = protocol.AppendDrop(r.frame, id)
		c.conn.post(r)
	}
}

// shipped has the identities of the definitions that every kernel process knows.
var shipped = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			known[d.Hash()] = true
		}
	}
	return known
})

// define makes sure that the process knows a definition, and returns what a call names it
// by: its identity, since another definition may have the same name.
func (k *core) define(ctx context.Context, c *child, d *def.Definition) (string, error) {
	hash := d.Hash()
	identity := protocol.IdentityPrefix + hash
	if shipped()[hash] {
		return identity, nil
	}
	return identity, k.sendOnce(ctx, c, identity, func() {}, func(n *announcement) error {
		r := newRequest(protocol.KindDefine)
		r.frame = append(r.frame, d.Text()...)
		r.identity = identity
		if err := k.checkFrame(c, r); err != nil {
			return err
		}
		return k.await(c, n, r, -1)
	}, func() {})
}
