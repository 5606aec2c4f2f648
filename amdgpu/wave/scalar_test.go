package wave

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
)

// outcome is what an instruction should leave: its result and, where it sets scc, scc.
type outcome struct {
	result uint64
	scc    bool
	keeps  bool // scc is not changed
}

// bitString returns the low n bits of x, the highest first.
func bitString(x uint64, n int) string { return fmt.Sprintf("%064b", x)[64-n:] }

func parseBits(s string) uint64 {
	x, ok := new(big.Int).SetString("0"+s, 2)
	if !ok {
		panic("not bits: " + s)
	}
	return x.Uint64()
}

func signedBig(x uint64, n int) *big.Int {
	v := new(big.Int).SetUint64(parseBits(bitString(x, n)))
	if bitString(x, n)[0] == '1' {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	return v
}

func unsignedBig(x uint64, n int) *big.Int { return new(big.Int).SetUint64(parseBits(bitString(x, n))) }

// low returns the low n bits of v in two's complement.
func low(v *big.Int, n int) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), uint(n))
	return new(big.Int).Mod(v, m).Uint64()
}

func isWithin(v *big.Int, n int) bool {
	limit := new(big.Int).Lsh(big.NewInt(1), uint(n-1))
	return v.Cmp(limit) < 0 && v.Cmp(new(big.Int).Neg(limit)) >= 0
}

// bitwise applies f to each pair of bits.
func bitwise(a, b uint64, n int, f func(a, b byte) bool) outcome {
	x, y := bitString(a, n), bitString(b, n)
	var s strings.Builder
	for i := range x {
		if f(x[i]-'0', y[i]-'0') {
			s.WriteByte('1')
		} else {
			s.WriteByte('0')
		}
	}
	r := parseBits(s.String())
	return outcome{result: r, scc: r != 0}
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func index(s, of string) outcome {
	return outcome{result: uint64(uint32(strings.Index(s, of))), keeps: true}
}

// field extracts bits by their position in text.
func extract(a, b uint64, n int, isSigned bool) outcome {
	offset, width := int(b%uint64(n)), int(b>>16%128)
	fill := "0"
	if isSigned {
		fill = bitString(a, n)[:1]
	}
	s := strings.Repeat(fill, 256) + bitString(a, n)
	s = s[:len(s)-offset]
	s = s[len(s)-width:]
	if len(s) > n {
		s = s[len(s)-n:]
	}
	if width > 0 {
		fill = "0"
		if isSigned {
			fill = s[:1]
		}
		s = strings.Repeat(fill, n-len(s)) + s
	}
	r := parseBits(s)
	return outcome{result: r, scc: r != 0}
}

func shifted(a, b uint64, n int, kind string) outcome {
	by := int(b % uint64(n))
	s := bitString(a, n)
	switch kind {
	case "left":
		s = s[by:] + strings.Repeat("0", by)
	case "right":
		s = strings.Repeat("0", by) + s[:n-by]
	case "signed":
		s = strings.Repeat(s[:1], by) + s[:n-by]
	}
	r := parseBits(s)
	return outcome{result: r, scc: r != 0}
}

func quads(a uint64, n int, isWhole bool) outcome {
	s := bitString(a, n)
	var out strings.Builder
	for i := 0; i < n; i += 4 {
		bit := "0"
		if strings.Contains(s[i:i+4], "1") {
			bit = "1"
		}
		if isWhole {
			bit = strings.Repeat(bit, 4)
		}
		out.WriteString(bit)
	}
	r := parseBits(out.String())
	return outcome{result: r, scc: r != 0}
}

type scalarCase struct {
	result, a, b int // widths in bits; b is 0 for an instruction with one operand
	readsResult  bool
	want         func(a, b uint64, scc bool) outcome
}

func scalarCases() map[string]scalarCase {
	cases := map[string]scalarCase{}
	for _, n := range []int{32, 64} {
		bits := fmt.Sprintf("_b%d", n)
		for name, f := range map[string]func(a, b byte) bool{
			"and": func(a, b byte) bool { return a+b == 2 }, "or": func(a, b byte) bool { return a+b > 0 },
			"xor": func(a, b byte) bool { return a != b }, "nand": func(a, b byte) bool { return a+b < 2 },
			"nor": func(a, b byte) bool { return a+b == 0 }, "xnor": func(a, b byte) bool { return a == b },
			"andn2": func(a, b byte) bool { return a > b }, "and_not1": func(a, b byte) bool { return a > b },
			"orn2": func(a, b byte) bool { return a == 1 || b == 0 }, "or_not1": func(a, b byte) bool { return a == 1 || b == 0 },
		} {
			cases["s_"+name+bits] = scalarCase{n, n, n, false, func(a, b uint64, _ bool) outcome { return bitwise(a, b, n, f) }}
		}
		cases["s_not"+bits] = scalarCase{n, n, 0, false, func(a, _ uint64, _ bool) outcome {
			return bitwise(a, a, n, func(a, b byte) bool { return a == 0 })
		}}
		cases["s_mov"+bits] = scalarCase{n, n, 0, false, func(a, _ uint64, _ bool) outcome { return outcome{result: low(unsignedBig(a, n), n), keeps: true} }}
		choice := func(a, b uint64, scc bool) outcome {
			if scc {
				b = a
			}
			return outcome{result: low(unsignedBig(b, n), n), keeps: true}
		}
		cases["s_cselect"+bits] = scalarCase{n, n, n, false, choice}
		cases["s_cmov"+bits] = scalarCase{n, n, 0, true, choice}
		cases["s_brev"+bits] = scalarCase{n, n, 0, false, func(a, _ uint64, _ bool) outcome {
			return outcome{result: parseBits(reversed(bitString(a, n))), keeps: true}
		}}
		for i, bit := range []string{"0", "1"} {
			cases[fmt.Sprintf("s_bcnt%d_i32_b%d", i, n)] = scalarCase{32, n, 0, false, func(a, _ uint64, _ bool) outcome {
				r := uint64(strings.Count(bitString(a, n), bit))
				return outcome{result: r, scc: r != 0}
			}}
			first := func(a, _ uint64, _ bool) outcome { return index(reversed(bitString(a, n)), bit) }
			cases[fmt.Sprintf("s_ff%d_i32_b%d", i, n)] = scalarCase{32, n, 0, false, first}
			if i == 1 {
				cases[fmt.Sprintf("s_ctz_i32_b%d", n)] = scalarCase{32, n, 0, false, first}
			}
			cases[fmt.Sprintf("s_bitset%d_b%d", i, n)] = scalarCase{n, 32, 0, true, func(a, old uint64, _ bool) outcome {
				s := []byte(reversed(bitString(old, n)))
				s[int(a%uint64(n))] = bit[0]
				return outcome{result: parseBits(reversed(string(s))), keeps: true}
			}}
		}
		leading := func(a, _ uint64, _ bool) outcome { return index(bitString(a, n), "1") }
		cases[fmt.Sprintf("s_flbit_i32_b%d", n)] = scalarCase{32, n, 0, false, leading}
		cases[fmt.Sprintf("s_clz_i32_u%d", n)] = scalarCase{32, n, 0, false, leading}
		sign := func(a, _ uint64, _ bool) outcome {
			s := bitString(a, n)
			return index(s, string('0'+'1'-s[0]))
		}
		if n == 32 {
			cases["s_flbit_i32"], cases["s_cls_i32"] = scalarCase{32, 32, 0, false, sign}, scalarCase{32, 32, 0, false, sign}
		} else {
			cases["s_flbit_i32_i64"], cases["s_cls_i32_i64"] = scalarCase{32, 64, 0, false, sign}, scalarCase{32, 64, 0, false, sign}
		}
		cases["s_lshl"+bits] = scalarCase{n, n, 32, false, func(a, b uint64, _ bool) outcome { return shifted(a, b, n, "left") }}
		cases["s_lshr"+bits] = scalarCase{n, n, 32, false, func(a, b uint64, _ bool) outcome { return shifted(a, b, n, "right") }}
		cases[fmt.Sprintf("s_ashr_i%d", n)] = scalarCase{n, n, 32, false, func(a, b uint64, _ bool) outcome { return shifted(a, b, n, "signed") }}
		cases["s_bfm"+bits] = scalarCase{n, 32, 32, false, func(a, b uint64, _ bool) outcome {
			ones := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(int(a%uint64(n)))), big.NewInt(1))
			return outcome{result: low(ones.Lsh(ones, uint(int(b%uint64(n)))), n), keeps: true}
		}}
		cases[fmt.Sprintf("s_bfe_u%d", n)] = scalarCase{n, n, 32, false, func(a, b uint64, _ bool) outcome { return extract(a, b, n, false) }}
		cases[fmt.Sprintf("s_bfe_i%d", n)] = scalarCase{n, n, 32, false, func(a, b uint64, _ bool) outcome { return extract(a, b, n, true) }}
		cases["s_quadmask"+bits] = scalarCase{n, n, 0, false, func(a, _ uint64, _ bool) outcome { return quads(a, n, false) }}
		cases["s_wqm"+bits] = scalarCase{n, n, 0, false, func(a, _ uint64, _ bool) outcome { return quads(a, n, true) }}
	}
	cases["s_bitreplicate_b64_b32"] = scalarCase{64, 32, 0, false, func(a, _ uint64, _ bool) outcome {
		return outcome{result: parseBits(strings.NewReplacer("0", "00", "1", "11").Replace(bitString(a, 32))), keeps: true}
	}}
	arithmetic := func(name string, isSigned bool, f func(a, b *big.Int, scc int64) *big.Int) {
		cases[name] = scalarCase{32, 32, 32, false, func(a, b uint64, scc bool) outcome {
			x, y := unsignedBig(a, 32), unsignedBig(b, 32)
			if isSigned {
				x, y = signedBig(a, 32), signedBig(b, 32)
			}
			carry := int64(0)
			if scc {
				carry = 1
			}
			d := f(x, y, carry)
			out := d.Sign() < 0 || d.BitLen() > 32
			if isSigned {
				out = !isWithin(d, 32)
			}
			return outcome{result: low(d, 32), scc: out}
		}}
	}
	add := func(a, b *big.Int, _ int64) *big.Int { return new(big.Int).Add(a, b) }
	sub := func(a, b *big.Int, _ int64) *big.Int { return new(big.Int).Sub(a, b) }
	arithmetic("s_add_u32", false, add)
	arithmetic("s_add_i32", true, add)
	arithmetic("s_sub_u32", false, sub)
	arithmetic("s_sub_i32", true, sub)
	arithmetic("s_addc_u32", false, func(a, b *big.Int, c int64) *big.Int { return add(add(a, b, 0), big.NewInt(c), 0) })
	arithmetic("s_subb_u32", false, func(a, b *big.Int, c int64) *big.Int { return sub(sub(a, b, 0), big.NewInt(c), 0) })
	for k := 1; k <= 4; k++ {
		arithmetic(fmt.Sprintf("s_lshl%d_add_u32", k), false, func(a, b *big.Int, _ int64) *big.Int {
			return add(new(big.Int).Mul(a, big.NewInt(1<<k)), b, 0)
		})
	}
	product := func(isSigned bool, shift uint) func(a, b uint64, _ bool) outcome {
		return func(a, b uint64, _ bool) outcome {
			x, y := unsignedBig(a, 32), unsignedBig(b, 32)
			if isSigned {
				x, y = signedBig(a, 32), signedBig(b, 32)
			}
			p := x.Mul(x, y)
			return outcome{result: low(p.Rsh(p, shift), 32), keeps: true}
		}
	}
	cases["s_mul_i32"] = scalarCase{32, 32, 32, false, product(true, 0)}
	cases["s_mul_hi_u32"] = scalarCase{32, 32, 32, false, product(false, 32)}
	cases["s_mul_hi_i32"] = scalarCase{32, 32, 32, false, product(true, 32)}
	cases["s_absdiff_i32"] = scalarCase{32, 32, 32, false, func(a, b uint64, _ bool) outcome {
		difference := low(sub(signedBig(a, 32), signedBig(b, 32), 0), 32)
		r := low(new(big.Int).Abs(signedBig(difference, 32)), 32)
		return outcome{result: r, scc: r != 0}
	}}
	cases["s_abs_i32"] = scalarCase{32, 32, 0, false, func(a, _ uint64, _ bool) outcome {
		r := low(new(big.Int).Abs(signedBig(a, 32)), 32)
		return outcome{result: r, scc: r != 0}
	}}
	for _, typ := range []string{"i32", "u32"} {
		number := unsignedBig
		if typ == "i32" {
			number = signedBig
		}
		extreme := func(sign int) func(a, b uint64, _ bool) outcome {
			return func(a, b uint64, _ bool) outcome {
				order := number(a, 32).Cmp(number(b, 32))
				isFirst := order == sign || sign > 0 && order == 0
				if isFirst {
					b = a
				}
				return outcome{result: low(number(b, 32), 32), scc: isFirst}
			}
		}
		cases["s_min_"+typ] = scalarCase{32, 32, 32, false, extreme(-1)}
		cases["s_max_"+typ] = scalarCase{32, 32, 32, false, extreme(1)}
	}
	for k, n := range map[string]int{"i8": 8, "i16": 16} {
		cases["s_sext_i32_"+k] = scalarCase{32, 32, 0, false, func(a, _ uint64, _ bool) outcome {
			return outcome{result: low(signedBig(a, n), 32), keeps: true}
		}}
	}
	for i, ab := range []string{"ll", "lh", "hl", "hh"} {
		cases["s_pack_"+ab+"_b32_b16"] = scalarCase{32, 32, 32, false, func(a, b uint64, _ bool) outcome {
			x, y := bitString(a, 32), bitString(b, 32)
			x, y = x[16-i/2*16:32-i/2*16], y[16-i%2*16:32-i%2*16]
			return outcome{result: parseBits(y + x), keeps: true}
		}}
	}
	return cases
}

func TestScalarArithmetic(t *testing.T) {
	cases := scalarCases()
	for name := range words {
		if _, ok := cases[name]; !ok && !strings.HasPrefix(name, "s_movk") && !strings.HasPrefix(name, "s_cmovk") &&
			name != "s_addk_i32" && name != "s_mulk_i32" {
			t.Errorf("%s: has no case", name)
		}
	}
	for name := range longs {
		if _, ok := cases[name]; !ok {
			t.Errorf("%s: has no case", name)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	both(t, func(t *testing.T, family isa.Family) {
		for name, c := range cases {
			in := isa.Instruction{Encoding: isa.SOP2, Name: name, Results: []isa.Operand{sgpr(8, c.result/32)}}
			in.Operands = append(in.Operands, sgpr(2, c.a/32))
			if c.b > 0 {
				in.Operands = append(in.Operands, sgpr(4, c.b/32))
			} else {
				in.Encoding = isa.SOP1
			}
			code, err := Translate(family, []isa.Instruction{in})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			g, err := (&Launch{Code: code, Memory: Blocks{}, Threads: 1}).resetGroup()
			if err != nil {
				t.Fatal(err)
			}
			w := g.Waves[0]
			list := values(r, 12)
			for i := range len(list) * len(list) {
				a, b := list[i/len(list)], list[i%len(list)]
				scc := r.IntN(2) == 0
				w.setPair(2, a)
				w.setPair(4, b)
				w.setPair(8, b)
				w.S[10] = 0xdeadbeef
				w.SCC = scc
				code.Steps[0](w)
				got := outcome{result: w.pair(8), scc: w.SCC}
				if c.result == 32 {
					if w.S[9] != uint32(b>>32) {
						t.Fatalf("%s %#x, %#x: wrote to the next register", name, a, b)
					}
					got.result = uint64(w.S[8])
				}
				want := c.want(a, b, scc)
				if want.keeps {
					want.scc, want.keeps = scc, false
				}
				if got != want || w.S[10] != 0xdeadbeef {
					t.Fatalf("%s %#x, %#x with scc %v: got %+v, want %+v", name, a, b, scc, got, want)
				}
			}
		}
	})
}

func TestScalarComparisons(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	list := values(r, 2)
	relations := map[string]func(order int) bool{
		"eq": func(o int) bool { return o == 0 }, "lg": func(o int) bool { return o != 0 }, "gt": func(o int) bool { return o > 0 },
		"ge": func(o int) bool { return o >= 0 }, "lt": func(o int) bool { return o < 0 }, "le": func(o int) bool { return o <= 0 },
	}
	seen := 0
	for name := range compares {
		parts := strings.Split(name, "_")
		for _, a := range list {
			for _, b := range list {
				n := 32
				if strings.HasSuffix(name, "64") {
					n = 64
				}
				in := isa.Instruction{Encoding: isa.SOPC, Name: name, Operands: []isa.Operand{sgpr(0, n/32), sgpr(2, n/32)}}
				var want bool
				switch {
				case strings.HasPrefix(name, "s_bitcmp"):
					in.Operands[1].Words = 1
					want = bitString(a, n)[n-1-int(b%uint64(n))] == name[len("s_bitcmp")]
				default:
					if parts[1] == "cmpk" {
						in.Encoding = isa.SOPK
						in.Operands = in.Operands[:1]
						in.Immediate = int64(uint16(b))
						if parts[3] == "i32" {
							in.Immediate = int64(int16(b))
						}
						b = uint64(in.Immediate)
					}
					number := unsignedBig
					if parts[3] == "i32" {
						number = signedBig
					}
					want = relations[parts[2]](number(a, n).Cmp(number(b, n)))
				}
				w, err := execute(t, isa.GFX11, nil, func(w *Wave) { w.setPair(0, a); w.setPair(2, b); w.SCC = !want }, in)
				if err != nil {
					t.Fatal(err)
				}
				if w.SCC != want {
					t.Fatalf("%s %#x, %#x: got %v, want %v", name, a, b, w.SCC, want)
				}
				seen++
			}
		}
	}
	if seen == 0 {
		t.Fatal("no comparison was tested")
	}
}

func TestScalarConstants(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, old := range values(r, 20) {
		for _, k := range []int64{0, 1, -1, 5, 32767, -32768} {
			for name, want := range map[string]func() (uint64, bool){
				"s_movk_i32":  func() (uint64, bool) { return low(big.NewInt(k), 32), true },
				"s_cmovk_i32": func() (uint64, bool) { return low(big.NewInt(k), 32), true },
				"s_addk_i32": func() (uint64, bool) {
					d := new(big.Int).Add(signedBig(old, 32), big.NewInt(k))
					return low(d, 32), !isWithin(d, 32)
				},
				"s_mulk_i32": func() (uint64, bool) { return low(new(big.Int).Mul(signedBig(old, 32), big.NewInt(k)), 32), true },
			} {
				in := isa.Instruction{Encoding: isa.SOPK, Name: name, Immediate: k, Results: []isa.Operand{sgpr(7, 1)}}
				w, err := execute(t, isa.GFX9, nil, func(w *Wave) { w.S[7] = uint32(old); w.SCC = true }, in)
				if err != nil {
					t.Fatal(err)
				}
				if d, scc := want(); uint64(w.S[7]) != d || w.SCC != scc {
					t.Fatalf("%s %#x, %d: got %#x, %v, want %#x, %v", name, old, k, w.S[7], w.SCC, d, scc)
				}
			}
		}
	}
}
