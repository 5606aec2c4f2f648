package stdio

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"tokitai/num"
)

// What C's printf writes for %.9g.
func TestF32AsC(t *testing.T) {
	for x, want := range map[float32]string{
		0: "0", 1: "1", -1: "-1", 0.1: "0.100000001", 100000: "100000", 1e8: "100000000", 1e9: "1e+09", 123456789: "123456792",
		1e-4: "9.99999975e-05", 0.00012: "0.000119999997", 1.0 / 3: "0.333333343", 1e10: "1e+10",
		math.MaxFloat32: "3.40282347e+38", math.SmallestNonzeroFloat32: "1.40129846e-45", 0x1p-126: "1.17549435e-38", 16777216: "16777216",
		0.5: "0.5", 2.5e-5: "2.49999994e-05", 12345.678: "12345.6777",
	} {
		if got := string(appendF32(nil, math.Float32bits(x))); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	for bits, want := range map[uint32]string{0x80000000: "-0", 0x7f800000: "inf", 0xff800000: "-inf", 0x7fc00000: "nan", 0xffc00000: "-nan", 0x7f800001: "nan"} {
		if got := string(appendF32(nil, bits)); got != want {
			t.Errorf("%#x: %s, want %s", bits, got, want)
		}
	}
}

// Every pattern of 32 bits but NaN's payloads survives being printed and read.
func TestF32RoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300000 {
		bits := r.Uint32()
		if i%3 == 0 {
			bits &= 0x807fffff // subnormal
		}
		text := appendF32(nil, bits)
		got, err := f32Bits(text)
		if x := math.Float32frombits(bits); x != x {
			bits = bits&0x80000000 | positiveNaN
		}
		if err != nil || got != bits {
			t.Fatalf("%#x is printed as %s and read as %#x, %v", bits, text, got, err)
		}
	}
}

// Decimals between two floats go to the nearer one, halfway to even, subnormals too.
func TestReadingRounds(t *testing.T) {
	for text, want := range map[string]uint32{
		"1.00000005960464477539062500000": 0x3f800000, "1.00000005960464477539062500001": 0x3f800001, "1.00000017881393432617187500000": 0x3f800002,
		"0.7006492321624085354618e-45": 0, "0.7006492321624085354619e-45": 1, "-0.7e-45": 0x80000000, "1e-1000000": 0, "-1e-99999999999": 0x80000000,
		"1.1754942e-38": 0x007fffff, "1.17549435e-38": 0x00800000, "3.4028235677973362e38": 0x7f7fffff,
		"0e99999": 0, "-.0": 0x80000000, "1.": 0x3f800000, ".5": 0x3f000000, "5E-1": 0x3f000000, "0.05e+1": 0x3f000000, "00001": 0x3f800000,
	} {
		if got, err := f32Bits([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %#x, %v, want %#x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "+1", "e5", ".", "-.", ".e1", "1e", "1e+", "1e1.5", "1f", "0x1p1", "1_000", "Inf", "NAN", "+inf", "infinity", "1e39", "-1e39", "١"} {
		if got, err := f32Bits([]byte(text)); err == nil {
			t.Errorf("%q was read as %#x", text, got)
		}
	}
}

// Lists read the same whatever the pieces they arrive in, at every alignment to the buffer.
func TestListsInPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for shift := range 40 {
		const n = 3 * scanBytes / 5
		b := []byte(strings.Repeat(" ", shift))
		want := make([]byte, 0, 2*n)
		for range n {
			v := uint16(r.Uint32() >> r.IntN(32))
			want = binary.LittleEndian.AppendUint16(want, v)
			b = append(strconv.AppendUint(b, uint64(v), 10), ' ')
		}
		source := strings.NewReader(string(b))
		s := newScanner(source)
		if shift%2 == 1 {
			s = newScanner(iotest.HalfReader(source))
		}
		got, err := s.list(num.F16, n, math.MaxUint16)
		if err != nil || string(got) != string(want) || s.more() {
			t.Fatalf("shift %d: %v, or other numbers", shift, err)
		}
	}
}

// A reader that never gives anything is no endless loop.
func TestReaderWithoutProgress(t *testing.T) {
	_, err := ParseRequest("gelu", idle{}, 1<<20)
	if codeOf(err) != CodeInternal {
		t.Errorf("got %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestU16AsStrconv(t *testing.T) {
	for v := range 1 << 16 {
		if got, want := string(appendU16(nil, uint16(v))), strconv.Itoa(v); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// Whatever bytes surround digits, what is quick agrees with what looks at every byte.
func TestQuickAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const alphabet = "0123456789 \n\t\v\x00/:-+.\x80\xb0\xff"
	numbers := 0
	s, slow := newScanner(nil), newScanner(nil)
	for range 200000 {
		text := []byte(strconv.Itoa(int(r.Uint32()>>(r.IntN(33)))) + " 12345678")
		if r.IntN(2) == 0 {
			text[r.IntN(len(text))] = alphabet[r.IntN(len(alphabet))]
		}
		limit := r.Uint32() >> r.IntN(32)
		s.reset(nil)
		s.end, s.err = copy(s.buf, text), io.EOF
		got := s.quick(nil, 4, 4, limit)
		slow.reset(strings.NewReader(string(text)))
		want, err := slow.unsigned(limit)
		if len(got) == 0 {
			continue
		}
		if numbers++; err != nil || binary.LittleEndian.Uint32(got) != want || s.pos != slow.pos+1 {
			t.Fatalf("%q up to %d: % x, want %d, %v", text, limit, got, want, err)
		}
	}
	if numbers < 50000 {
		t.Errorf("%d numbers were quick", numbers)
	}
}

func BenchmarkScan(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 1 << 20
	var u16s, f32s []byte
	for range n {
		u16s = append(strconv.AppendUint(u16s, uint64(r.Uint32()>>16), 10), ' ')
		f32s = append(appendF32(f32s, math.Float32bits(float32(r.NormFloat64()))), ' ')
	}
	for _, row := range []struct {
		dtype num.DType
		text  []byte
	}{{num.F16, u16s}, {num.F32, f32s}} {
		text := string(row.text)
		b.Run(fmt.Sprintf("read/dtype=%v", row.dtype), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := newScanner(strings.NewReader(text)).list(row.dtype, n, math.MaxUint16); err != nil {
					b.Fatal(err)
				}
			}
		})
		values, _ := newScanner(strings.NewReader(text)).list(row.dtype, n, math.MaxUint16)
		b.Run(fmt.Sprintf("write/dtype=%v", row.dtype), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var out []byte
			for b.Loop() {
				out = appendValues(out[:0], row.dtype, values, ' ')
			}
		})
	}
}
