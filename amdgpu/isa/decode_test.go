package isa

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// decode decodes words as the code of an architecture.
func decode(t testing.TB, arch string, words ...uint32) []Instruction {
	t.Helper()
	a, err := Lookup(arch)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Decode(a, example{words: words}.bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// operandText describes an operand's fields.
func operandText(o Operand) string {
	text := fmt.Sprintf("%d:%d+%d %s", o.Kind, o.Index, o.Words, o.Type)
	if o.Kind == Constant {
		text = fmt.Sprintf("%#x %s", o.Value, o.Type)
	}
	if o.Half != Whole {
		text += []string{"", ".l", ".h"}[o.Half]
	}
	for _, m := range []struct {
		is   bool
		name string
	}{{o.Neg, "neg"}, {o.Abs, "abs"}, {o.Sext, "sext"}} {
		if m.is {
			text += " " + m.name
		}
	}
	return text
}

func operandTexts(list []Operand) []string {
	texts := []string{}
	for _, o := range list {
		texts = append(texts, operandText(o))
	}
	return texts
}

// TestOperands holds the fields of instructions to AMD's documents.
func TestOperands(t *testing.T) {
	s := func(index, words int, typ string) string { return fmt.Sprintf("%d:%d+%d %s", SGPR, index, words, typ) }
	v := func(index, words int, typ string) string { return fmt.Sprintf("%d:%d+%d %s", VGPR, index, words, typ) }
	k := func(kind Kind, words int, typ string) string { return fmt.Sprintf("%d:0+%d %s", kind, words, typ) }
	for _, test := range []struct {
		arch     string
		words    []uint32
		text     string
		results  []string
		operands []string
	}{
		{"gfx1100", []uint32{0x84948b02}, "s_lshl_b64 s[20:21], s[2:3], 11", []string{s(20, 2, "b64")}, []string{s(2, 2, "b64"), "0xb u32"}},
		{"gfx1100", []uint32{0xbe8001f2}, "s_mov_b64 s[0:1], 1.0", []string{s(0, 2, "b64")}, []string{"0x3ff0000000000000 b64"}},
		{"gfx1100", []uint32{0xbe8001c1}, "s_mov_b64 s[0:1], -1", []string{s(0, 2, "b64")}, []string{"0xffffffffffffffff b64"}},
		{"gfx1100", []uint32{0xbe8001ff, 0x80000000}, "s_mov_b64 s[0:1], 0x80000000", []string{s(0, 2, "b64")}, []string{"0x80000000 b64"}},
		{"gfx1100", []uint32{0xf4040100, 0xf8000040}, "s_load_b64 s[4:5], s[0:1], 0x40", []string{s(4, 2, "b64")}, []string{s(0, 2, "b64"), k(Off, 0, "untyped")}},
		{"gfx1100", []uint32{0xd4560004, 0x00001414}, "v_cmp_ge_i64_e64 s4, s[20:21], s[10:11]", []string{s(4, 1, "mask")}, []string{s(20, 2, "i64"), s(10, 2, "i64")}},
		{"gfx942", []uint32{0xd0e60004, 0x00001414}, "v_cmp_ge_i64_e64 s[4:5], s[20:21], s[10:11]", []string{s(4, 2, "mask")}, []string{s(20, 2, "i64"), s(10, 2, "i64")}},
		{"gfx1100", []uint32{0x02000080}, "v_cndmask_b32_e32 v0, 0, v0, vcc_lo", []string{v(0, 1, "b32")}, []string{"0x0 f32", v(0, 1, "f32"), k(VCC, 1, "mask")}},
		{"gfx942", []uint32{0x38000601}, "v_addc_co_u32_e32 v0, vcc, s1, v3, vcc", []string{v(0, 1, "u32"), k(VCC, 2, "mask")}, []string{s(1, 1, "u32"), v(3, 1, "u32"), k(VCC, 2, "mask")}},
		{"gfx1100", []uint32{0xd6fe0004, 0x04120702}, "v_mad_u64_u32 v[4:5], s0, v2, v3, v[4:5]", []string{v(4, 2, "u64"), s(0, 1, "mask")}, []string{v(2, 1, "u32"), v(3, 1, "u32"), v(4, 2, "u64")}},
		{"gfx1100", []uint32{0xd73c0004, 0x00020482}, "v_lshlrev_b64 v[4:5], 2, v[2:3]", []string{v(4, 2, "b64")}, []string{"0x2 u32", v(2, 2, "b64")}},
		{"gfx1100", []uint32{0x640204ff, 0x00003c01}, "v_add_f16_e32 v1.l, 0x3c01, v2.l", []string{v(1, 1, "f16") + ".l"}, []string{"0x3c01 f16", v(2, 1, "f16") + ".l"}},
		{"gfx1100", []uint32{0x650305f2}, "v_add_f16_e32 v1.h, v114.h, v2.h", []string{v(1, 1, "f16") + ".h"}, []string{v(114, 1, "f16") + ".h", v(2, 1, "f16") + ".h"}},
		{"gfx1100", []uint32{0xd58b0806, 0x000001f2}, "v_cvt_f32_f16_e64 v6, v242.h op_sel:[1,0]", []string{v(6, 1, "f32")}, []string{v(242, 1, "f16") + ".h"}},
		{"gfx942", []uint32{0x7e0216f9, 0x00050600}, "v_cvt_f32_f16_sdwa v1, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", []string{v(1, 1, "f32")}, []string{v(0, 1, "f16")}},
		{"gfx1100", []uint32{0xcc200001, 0x040804f2}, "v_fma_mix_f32 v1, 1.0, s2, v2", []string{v(1, 1, "f32")}, []string{"0x3f800000 mix", s(2, 1, "mix"), v(2, 1, "mix")}},
		{"gfx1100", []uint32{0xcc200101, 0x2c0804f2}, "v_fma_mix_f32 v1, -|1.0|, s2, v2 op_sel_hi:[1,0,0]", []string{v(1, 1, "f32")}, []string{"0x3c00 f16 neg abs", s(2, 1, "mix"), v(2, 1, "mix")}},
		{"gfx1100", []uint32{0xdc520000, 0x01000002}, "global_load_b32 v1, v2, s[0:1]", []string{v(1, 1, "b32")}, []string{v(2, 1, "b32"), s(0, 2, "b64")}},
		{"gfx1100", []uint32{0xdc521ff0, 0x017c0002}, "global_load_b32 v1, v[2:3], off offset:-16", []string{v(1, 1, "b32")}, []string{v(2, 2, "b64"), k(Off, 0, "untyped")}},
		{"gfx1100", []uint32{0xdc6a0000, 0x007c0402}, "global_store_b32 v[2:3], v4, off", []string{}, []string{v(2, 2, "b64"), v(4, 1, "b32"), k(Off, 0, "untyped")}},
		{"gfx1100", []uint32{0xdcd60000, 0x007c0402}, "global_atomic_add_u32 v[2:3], v4, off", []string{}, []string{v(2, 2, "b64"), v(4, 1, "b32"), k(Off, 0, "untyped")}},
		{"gfx1100", []uint32{0xdcd64000, 0x017c0402}, "global_atomic_add_u32 v1, v[2:3], v4, off glc", []string{v(1, 1, "b32")}, []string{v(2, 2, "b64"), v(4, 1, "b32"), k(Off, 0, "untyped")}},
		{"gfx1100", []uint32{0xd8380201, 0x00030200}, "ds_store_2addr_b32 v0, v2, v3 offset0:1 offset1:2", []string{}, []string{v(0, 1, "b32"), v(2, 1, "b32"), v(3, 1, "b32")}},
		{"gfx942", []uint32{0xdbfe0010, 0x04000002}, "ds_read_b128 a[4:7], v2 offset:16", []string{fmt.Sprintf("%d:4+4 b128", AGPR)}, []string{v(2, 1, "b32")}},
	} {
		list := decode(t, test.arch, test.words...)
		in := list[0]
		if len(list) != 1 || in.String() != test.text {
			t.Errorf("%s %08x: got %q, want %q", test.arch, test.words, list, test.text)
			continue
		}
		if got := operandTexts(in.Results); !reflect.DeepEqual(got, test.results) {
			t.Errorf("%s: results %q, want %q", test.text, got, test.results)
		}
		if got := operandTexts(in.Operands); !reflect.DeepEqual(got, test.operands) {
			t.Errorf("%s: operands %q, want %q", test.text, got, test.operands)
		}
	}
}

// TestImmediate tests constants in the instruction.
func TestImmediate(t *testing.T) {
	for _, test := range []struct {
		arch       string
		words      []uint32
		text       string
		immediate  int64
		immediate2 int64
	}{
		{"gfx1100", []uint32{0xbfa408a3}, "s_cbranch_vccnz 2211", 2211 * 4, 0},
		{"gfx1100", []uint32{0xbfa0fffe}, "s_branch 65534", -8, 0},
		{"gfx942", []uint32{0xbf82ffff}, "s_branch 65535", -4, 0},
		{"gfx1100", []uint32{0xb0048000}, "s_movk_i32 s4, 0x8000", -32768, 0},
		{"gfx1100", []uint32{0xb4848000}, "s_cmpk_eq_u32 s4, 0x8000", 32768, 0},
		{"gfx1100", []uint32{0xba04fffc}, "s_call_b64 s[4:5], 65532", -16, 0},
		{"gfx1100", []uint32{0xbf89fc07}, "s_waitcnt lgkmcnt(0)", 0xfc07, 0},
		{"gfx1100", []uint32{0xbe844c83}, "s_sendmsg_rtn_b32 s4, sendmsg(MSG_RTN_GET_REALTIME)", 131, 0},
		{"gfx1100", []uint32{0xf4040100, 0xf81ffffc}, "s_load_b64 s[4:5], s[0:1], -0x4", -4, 0},
		{"gfx942", []uint32{0xc0060100, 0x00000040}, "s_load_dwordx2 s[4:5], s[0:1], 0x40", 64, 0},
		{"gfx1100", []uint32{0xdc521ff0, 0x017c0002}, "global_load_b32 v1, v[2:3], off offset:-16", -16, 0},
		{"gfx1100", []uint32{0xd8380201, 0x00030200}, "ds_store_2addr_b32 v0, v2, v3 offset0:1 offset1:2", 1, 2},
		{"gfx1100", []uint32{0xd8d80201, 0x03000000}, "ds_load_b32 v3, v0 offset:513", 513, 0},
	} {
		in := decode(t, test.arch, test.words...)[0]
		if in.String() != test.text || in.Immediate != test.immediate || in.Immediate2 != test.immediate2 {
			t.Errorf("%s %08x: got %q with %d and %d; want %q with %d and %d", test.arch, test.words,
				in, in.Immediate, in.Immediate2, test.text, test.immediate, test.immediate2)
		}
	}
}

// TestPair tests the halves of a pair, their shared literal and vcc, which the text implies.
func TestPair(t *testing.T) {
	in := decode(t, "gfx1100", 0xc85432ba, 0x8c2b38ff, 0x3b)[0]
	if in.Name != "v_fmaak_f32" || in.Second == nil || in.Second.Name != "v_max_f32" || in.Size != 12 {
		t.Fatalf("got %s of %d bytes, then %v", in.Name, in.Size, in.Second)
	}
	first, second := operandTexts(in.Operands), operandTexts(in.Second.Operands)
	v := func(index int) string { return fmt.Sprintf("%d:%d+1 f32", VGPR, index) }
	if want := []string{"0x3a f32", v(25), "0x3b f32"}; !reflect.DeepEqual(first, want) {
		t.Errorf("first: got %q, want %q", first, want)
	}
	if want := []string{"0x3b f32", v(156)}; !reflect.DeepEqual(second, want) {
		t.Errorf("second: got %q, want %q", second, want)
	}
	in = decode(t, "gfx1100", 0xca520000|1<<9, 0x02020300)[0]
	if o := in.Operands; len(o) != 3 || o[2].Kind != VCC {
		t.Errorf("%s: operands %q: want vcc as the third", in, operandTexts(o))
	}
}

// TestLanes tests DPP and SDWA.
func TestLanes(t *testing.T) {
	for _, test := range []struct {
		arch  string
		words []uint32
		text  string
		dpp   *DPP
		sdwa  *SDWA
	}{
		{"gfx1100", []uint32{0x060204fa, 0x5a0c1b03}, "v_add_f32_dpp v1, v3, v2 quad_perm:[3,2,1,0] row_mask:0x5 bank_mask:0xa bound_ctrl:1 fi:1",
			&DPP{Control: 0x1b, RowMask: 5, BankMask: 10, BoundControl: true, FetchInvalid: true}, nil},
		{"gfx1100", []uint32{0x060204e9, 0x05397703}, "v_add_f32_dpp v1, v3, v2 dpp8:[7,6,5,4,3,2,1,0]",
			&DPP{IsDPP8: true, Lanes: [8]uint8{7, 6, 5, 4, 3, 2, 1, 0}, RowMask: 15, BankMask: 15}, nil},
		{"gfx942", []uint32{0x260204f9, 0x06051403}, "v_and_b32_sdwa v1, v3, v2 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:DWORD",
			nil, &SDWA{Result: 4, Src0: 5, Src1: 6, Unused: 2}},
	} {
		in := decode(t, test.arch, test.words...)[0]
		if in.String() != test.text || !reflect.DeepEqual(in.DPP, test.dpp) || !reflect.DeepEqual(in.SDWA, test.sdwa) {
			t.Errorf("%s %08x: got %q with %+v and %+v; want %q with %+v and %+v", test.arch, test.words,
				in, in.DPP, in.SDWA, test.text, test.dpp, test.sdwa)
		}
	}
}

// TestOffsets tests that instructions follow each other without a gap.
func TestOffsets(t *testing.T) {
	a, _ := Lookup("gfx1100")
	var code []byte
	list := examples(t, "gfx1100")
	for _, e := range list {
		code = append(code, e.bytes()...)
	}
	got, err := Decode(a, code, 0x1d00)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(0x1d00)
	for i, in := range got {
		if in.Offset != at || in.Size != 4*len(list[i].words) {
			t.Fatalf("%s: %d bytes at %#x: want %d at %#x", in, in.Size, in.Offset, 4*len(list[i].words), at)
		}
		at += uint64(in.Size)
	}
}

func TestErrors(t *testing.T) {
	if _, err := Lookup("gfx803"); err == nil || !strings.Contains(err.Error(), `architecture "gfx803": not decoded; want one of gfx90a, gfx942, gfx1100`) {
		t.Errorf("Lookup of gfx803: got %v", err)
	}
	if a, err := Lookup("gfx90a:sramecc+:xnack-"); err != nil || a.Name != "gfx90a" {
		t.Errorf("Lookup of gfx90a with features: got %v, %v", a, err)
	}
	if _, err := Decode(Architecture{Name: "gfx803"}, nil, 0); err == nil {
		t.Error("Decode for gfx803: no error")
	}
	for _, test := range []struct {
		arch  string
		words []uint32
		want  string
	}{
		{"gfx1100", []uint32{0xbe800600}, "gfx1100: offset 0x4: encoding SOP1: opcode 6: unknown: words be800600"},
		{"gfx1100", []uint32{0xd6fe0004}, "gfx1100: offset 0x4: instruction is cut off by the end of the code: words d6fe0004"},
		{"gfx1100", []uint32{0xbe8000ff}, "gfx1100: offset 0x4: instruction is cut off by the end of the code: words be8000ff"},
		{"gfx1100", []uint32{0xf0000000, 0}, "gfx1100: offset 0x4: encoding MIMG: not decoded: words f0000000 00000000"},
		{"gfx1100", []uint32{0xffffffff, 1}, "gfx1100: offset 0x4: encoding: unknown: words ffffffff 00000001"},
		{"gfx1100", []uint32{0x7e0002e5}, "gfx1100: offset 0x4: encoding VOP1: v_mov_b32: source 229: unknown: words 7e0002e5"},
		{"gfx942", []uint32{0xd1cb0000, 0x000200ff, 1}, "gfx942: offset 0x4: encoding VOP3: v_fma_f32: takes no literal: words d1cb0000 000200ff 00000001"},
		{"gfx942", []uint32{0xbe8001e5}, "gfx942: offset 0x4: encoding SOP1: s_mov_b64: source 229: unknown: words be8001e5"},
		{"gfx1100", []uint32{0xdc560000, 0x017c00ff}, "gfx1100: offset 0x4: encoding GLOBAL: global_load_b64: v[255:256]: no such registers: words dc560000 017c00ff"},
		{"gfx1100", []uint32{0xbeeb0100}, "gfx1100: offset 0x4: encoding SOP1: s_mov_b64: vcc_hi: no such registers: words beeb0100"},
	} {
		a, err := Lookup(test.arch)
		if err != nil {
			t.Fatal(err)
		}
		code := binary.LittleEndian.AppendUint32(nil, 0xbf800000) // s_nop 0
		_, err = Decode(a, append(code, example{words: test.words}.bytes()...), 0)
		if err == nil || err.Error() != test.want {
			t.Errorf("%08x: got %v, want %s", test.words, err, test.want)
		}
	}
	a, _ := Lookup("gfx1100")
	if _, err := Decode(a, []byte{1, 2, 3}, 0); err == nil || !strings.Contains(err.Error(), "cut off by the end of the code: words and bytes 01 02 03") {
		t.Errorf("three bytes: got %v", err)
	}
}

// FuzzDecode decodes anything: Decode ends, and what it decodes covers the code and has text.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"gfx1100", "gfx942"} {
		for i, e := range examples(f, name) {
			if i%20 == 0 {
				f.Add(name == "gfx942", e.bytes())
			}
		}
	}
	f.Fuzz(func(t *testing.T, isGFX9 bool, code []byte) {
		name := "gfx1100"
		if isGFX9 {
			name = "gfx942"
		}
		a, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Decode(a, code, 0)
		if err != nil {
			return
		}
		size := 0
		for _, in := range list {
			if in.Size < 4 || in.String() == "" {
				t.Fatalf("%q: %d bytes", in, in.Size)
			}
			size += in.Size
		}
		if size != len(code) {
			t.Fatalf("instructions of %d bytes: want %d", size, len(code))
		}
	})
}
