package wave

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
)

// TestAtomics holds each operation against big integers, in global memory and in LDS, with two
// lanes at the same address.
func TestAtomics(t *testing.T) {
	type operation struct {
		gfx9                string // of memory
		f                   func(old, data, compare *big.Int) *big.Int
		isSigned, isCompare bool
	}
	pickBig := func(isFirst bool, a, b *big.Int) *big.Int {
		if isFirst {
			return a
		}
		return b
	}
	one := big.NewInt(1)
	operations := map[string]operation{
		"add_u": {gfx9: "add", f: func(a, b, _ *big.Int) *big.Int { return new(big.Int).Add(a, b) }},
		"sub_u": {gfx9: "sub", f: func(a, b, _ *big.Int) *big.Int { return new(big.Int).Sub(a, b) }},
		"min_u": {gfx9: "umin", f: func(a, b, _ *big.Int) *big.Int { return pickBig(a.Cmp(b) < 0, a, b) }},
		"max_u": {gfx9: "umax", f: func(a, b, _ *big.Int) *big.Int { return pickBig(a.Cmp(b) > 0, a, b) }},
		"min_i": {gfx9: "smin", isSigned: true, f: func(a, b, _ *big.Int) *big.Int { return pickBig(a.Cmp(b) < 0, a, b) }},
		"max_i": {gfx9: "smax", isSigned: true, f: func(a, b, _ *big.Int) *big.Int { return pickBig(a.Cmp(b) > 0, a, b) }},
		"and_b": {gfx9: "and", f: func(a, b, _ *big.Int) *big.Int { return new(big.Int).And(a, b) }},
		"or_b":  {gfx9: "or", f: func(a, b, _ *big.Int) *big.Int { return new(big.Int).Or(a, b) }},
		"xor_b": {gfx9: "xor", f: func(a, b, _ *big.Int) *big.Int { return new(big.Int).Xor(a, b) }},
		"inc_u": {gfx9: "inc", f: func(a, b, _ *big.Int) *big.Int { return pickBig(a.Cmp(b) >= 0, new(big.Int), new(big.Int).Add(a, one)) }},
		"dec_u": {gfx9: "dec", f: func(a, b, _ *big.Int) *big.Int {
			return pickBig(a.Sign() == 0 || a.Cmp(b) > 0, b, new(big.Int).Sub(a, one))
		}},
		"swap_b":    {gfx9: "swap", f: func(a, b, _ *big.Int) *big.Int { return b }},
		"cmpswap_b": {gfx9: "cmpswap", isCompare: true, f: func(a, b, c *big.Int) *big.Int { return pickBig(a.Cmp(c) == 0, b, a) }},
	}
	r := rand.New(rand.NewPCG(13, 14))
	both(t, func(t *testing.T, family isa.Family) {
		for name, o := range operations {
			for _, bits := range []int{32, 64} {
				words := bits / 32
				for _, isShared := range []bool{false, true} {
					data := []isa.Operand{vgpr(4, words)}
					if o.isCompare {
						data = []isa.Operand{vgpr(4, 2*words)}
					}
					in := isa.Instruction{Encoding: isa.GLOBAL, Results: []isa.Operand{vgpr(8, words)}, Glc: true}
					in.Name = "global_atomic_" + name + fmt.Sprint(bits)
					if family == isa.GFX9 {
						in.Name = "global_atomic_" + o.gfx9 + map[int]string{32: "", 64: "_x2"}[bits]
					}
					in.Operands = append(append([]isa.Operand{vgpr(0, 1)}, data...), sgpr(2, 2))
					if isShared {
						in.Encoding = isa.DS
						verb, typ, _ := strings.Cut(name, "_")
						switch {
						case verb == "swap":
							verb = [2]string{"wrxchg", "storexchg"}[family]
						case verb == "cmpswap":
							verb = [2]string{"cmpst", "cmpstore"}[family]
							data = []isa.Operand{vgpr(4, words), vgpr(4+words, words)}
							if family == isa.GFX9 {
								data[0], data[1] = data[1], data[0]
							}
						}
						in.Name = fmt.Sprintf("ds_%s_rtn_%s%d", verb, typ, bits)
						in.Operands = append([]isa.Operand{vgpr(0, 1)}, data...)
					}
					code, err := Translate(family, []isa.Instruction{in})
					if err != nil {
						t.Fatalf("%s: %v", in.Name, err)
					}
					memory := make([]byte, 1024)
					g, err := (&Launch{Code: code, Memory: Blocks{{Address: globalBase, Bytes: memory}}, Threads: family.Lanes(), Registers: 12, LDS: 1024}).resetGroup()
					if err != nil {
						t.Fatal(err)
					}
					if isShared {
						memory = g.LDS
					}
					w := g.Waves[0]
					randomRegisters(r, w, 12)
					w.setPair(2, globalBase)
					list := values(r, 4)
					for lane := range w.Lanes {
						w.V[0][lane] = uint32(lane / 2 * 8) // two lanes at each address
						w.setLane(4, lane, true, list[r.IntN(len(list))])
						binary.LittleEndian.PutUint64(memory[lane/2*8:], list[r.IntN(len(list))])
						if o.isCompare {
							w.setLane(4+words, lane, true, list[r.IntN(len(list))])
							if r.IntN(2) == 0 {
								w.setLane(4+words, lane, true, binary.LittleEndian.Uint64(memory[lane/2*8:]))
							}
						}
					}
					exec := r.Uint64() & w.All
					w.SetExec(exec)
					before := append([]byte{}, memory...)
					code.Steps[0](w)
					if w.fault != nil {
						t.Fatal(w.fault)
					}
					number := unsignedBig
					if o.isSigned {
						number = signedBig
					}
					for first := 0; first < w.Lanes; first += 2 {
						value := binary.LittleEndian.Uint64(before[first/2*8:])
						for lane := first; lane < first+2; lane++ {
							if exec>>lane&1 == 0 {
								continue
							}
							if got, want := low(unsignedBig(w.lane(8, lane, bits == 64), bits), bits), low(unsignedBig(value, bits), bits); got != want {
								t.Fatalf("%s lane %d: returned %#x, want %#x", in.Name, lane, got, want)
							}
							d := o.f(number(value, bits), number(w.lane(4, lane, bits == 64), bits), number(w.lane(4+words, lane, bits == 64), bits))
							if bits == 64 {
								value = low(d, 64)
							} else {
								value = value>>32<<32 | low(d, 32)
							}
						}
						if got := binary.LittleEndian.Uint64(memory[first/2*8:]); got != value {
							t.Fatalf("%s lanes %d and %d: got %#x, want %#x", in.Name, first, first+1, got, value)
						}
					}
				}
			}
		}
	})
}

// lockedMemory is a Memory that checks that atomics hold the launch's lock while they use it.
type lockedMemory struct {
	Blocks
	t      *testing.T
	launch *Launch
	found  int
}

func (m *lockedMemory) Find(address uint64) (Block, bool) {
	if m.launch.atomics.TryLock() {
		m.launch.atomics.Unlock()
		m.t.Error("an atomic uses memory without the lock")
	}
	m.found++
	return m.Blocks.Find(address)
}

// TestAtomicsExclude checks that an atomic of one group excludes those of others.
func TestAtomicsExclude(t *testing.T) {
	memory := make([]byte, 4)
	locked := &lockedMemory{Blocks: Blocks{{Address: globalBase, Bytes: memory}}, t: t}
	l := &Launch{Memory: locked}
	locked.launch = l
	_, err := execute(t, isa.GFX11, l, func(w *Wave) {
		w.setPair(2, globalBase)
		clear(w.V[0][:])
		for lane := range w.V[1] {
			w.V[1][lane] = 1
		}
	}, isa.Instruction{Encoding: isa.GLOBAL, Name: "global_atomic_add_u32", Operands: []isa.Operand{vgpr(0, 1), vgpr(1, 1), sgpr(2, 2)}})
	if got := binary.LittleEndian.Uint32(memory); err != nil || got != 32 || locked.found == 0 {
		t.Errorf("got %d after %d calls of Find, %v, want 32", got, locked.found, err)
	}
	if !l.atomics.TryLock() {
		t.Error("the lock is held after the launch")
	}
}
