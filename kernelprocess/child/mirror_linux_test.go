package child

import (
	"bytes"
	"slices"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op/all"
)

// A device that cannot address arenas gives the same bits as one that can, and leaves the
// gaps between rows alone.
func TestMirrors(t *testing.T) {
	if dev, err := backends.Open("sim"); err != nil {
		t.Skip(err)
	} else {
		_, err := dev.Compiler()
		dev.Close()
		if err != nil {
			t.Skip(err)
		}
	}
	c := connect(t, Options{Device: "sim", Open: backends.Open})
	memory := c.newArena(1, 8<<20)
	handle := c.newHandle(8 << 20)
	for _, name := range []string{"softmax.forward", "embedding.backward"} {
		d := all.Find(name).Definitions[0]
		for i, test := range engine.SelfTestCases(d, d.Formats()[0]) {
			if i%3 != 1 {
				continue
			}
			want := directly(t, cpu.Queue(), d, test)
			for _, place := range places {
				got := c.remotely(d, test, place, memory, handle)
				for i := range d.Operands {
					if d.Operands[i].IsOut && !bytes.Equal(got[i], want[i]) {
						t.Errorf("%s %s: %s in %s has other bits", d.Name, test.Name, d.Operands[i].Name, place)
					}
				}
			}
		}
	}
	// One call reads what another wrote, in place.
	x := bytesOf(2 * 3 * 5)
	clear(memory)
	copy(memory, x)
	c.must(protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, 3, 5, 1, 0), inArena(num.F16, 3, 5, 1, 1024)}))
	once, _ := protocol.ParseResults(c.must(protocol.KindCall, softmax(num.F16, 3, 5, x)))
	twice, _ := protocol.ParseResults(c.must(protocol.KindCall, softmax(num.F16, 3, 5, once.Data)))
	if !bytes.Equal(memory[:30], once.Data) || !bytes.Equal(memory[1024:1024+30], twice.Data) {
		t.Errorf("got %x and %x, want %x and %x", memory[:30], memory[1024:1024+30], once.Data, twice.Data)
	}
	if slices.ContainsFunc(memory[30:1024], func(b byte) bool { return b != 0 }) {
		t.Error("something was written between operands")
	}
	c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, 3, 5, 1, 2)}))
	beyond := inArena(num.F16, 3, 5, 1, 8<<20-10)
	c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{beyond}))
	if m := c.stats(); m.HeldBytes != 16<<20+handleBytes {
		t.Errorf("%d bytes are held, want those of the arena and the handle", m.HeldBytes)
	}
}
