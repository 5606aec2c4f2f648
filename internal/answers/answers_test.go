package answers

import (
	"crypto/sha256"
	"os"
	"strings"
	"testing"

	"tokitai/num"
)

// sealed appends the last line.
func sealed(text string) string { return text + "sha256 " + hashOf(text).String() + "\n" }

var (
	one = strings.Repeat("1a", 32)
	two = strings.Repeat("2b", 32)
)

func TestPrintAndParse(t *testing.T) {
	text := preamble + "\ndefinition a.b " + one + " f16 i32\nC=1 " + one + " " + two + "\nlong " + two + " " + one +
		"\n\ndefinition a.b " + one + " f32 i32\nC=1 " + two + " " + two + "\n\n"
	sections, err := Parse(sealed(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := Print(sections); got != sealed(text) {
		t.Errorf("got:\n%s\nwant:\n%s", got, sealed(text))
	}
	if Print(nil) != sealed(preamble+"\n") {
		t.Error("an empty table is not empty")
	}
}

func TestFind(t *testing.T) {
	text, err := os.ReadFile("answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	sections, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		for _, c := range s.Cases {
			if got, isKnown, err := Find(s.Definition, s.Formats, c.Name); got != c.Answer || !isKnown || err != nil {
				t.Errorf("%s %v %s: got %v, %v, %v; want %v", s.Name, s.Formats, c.Name, got, isKnown, err, c.Answer)
			}
		}
	}
	if len(sections) == 0 {
		t.Fatal("no answers are committed")
	}
	s := sections[0]
	for _, miss := range []struct {
		definition string
		formats    []num.DType
		test       string
	}{
		{one, s.Formats, s.Cases[0].Name},
		{s.Definition, s.Formats[1:], s.Cases[0].Name},
		{s.Definition, s.Formats, "C=0"},
	} {
		if got, isKnown, err := Find(miss.definition, miss.formats, miss.test); isKnown || err != nil || got != (Answer{}) {
			t.Errorf("%v: got %v, %v, %v; want none", miss, got, isKnown, err)
		}
	}
}

func TestDamagedTables(t *testing.T) {
	head := "definition a.b " + one + " f16\n"
	line := "C=1 " + one + " " + two + "\n"
	good := sealed(head + line)
	if _, err := indexOf(good); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "known answers: no sha256 line at the end"},
		{"cut off", good[:len(good)-80], "known answers: no sha256 line at the end"},
		{"one digit changed", strings.Replace(good, "C=1 1", "C=1 2", 1), "known answers: got last line "},
		{"something after the end", good + "#\n", "known answers: got last line "},
		{"no section", sealed(line), `known answers: line 1: got "C=1 ` + one + ` ` + two + `", want a definition first`},
		{"no formats", sealed("definition a.b " + one + "\n" + line), "want definition NAME SHA256 DTYPE..."},
		{"an unknown format", sealed("definition a.b " + one + " f8\n" + line), "want definition NAME SHA256 DTYPE..."},
		{"a short definition", sealed("definition a.b 12 f16\n" + line), "want definition NAME SHA256 DTYPE..."},
		{"a missing hash", sealed(head + "C=1 " + one + "\n"), "line 2: got \"C=1 " + one + "\", want TEST SHA256 SHA256"},
		{"a short hash", sealed(head + "C=1 " + one[2:] + " " + two + "\n"), "want TEST SHA256 SHA256"},
		{"a hash that is none", sealed(head + "C=1 " + one + " g" + two[1:] + "\n"), "want TEST SHA256 SHA256"},
		{"a hash in capitals", sealed(head + "C=1 " + strings.ToUpper(one) + " " + two + "\n"), "want TEST SHA256 SHA256"},
		{"a case twice", sealed(head + line + line), "line 3: got \"C=1 " + one + " " + two + "\", want each self-test once"},
		{"a case twice, in two sections", sealed(head + line + head + line), "want each self-test once"},
	} {
		table, err := indexOf(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) || table != nil {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// TestDigest hashes bytes that are written out here.
func TestDigest(t *testing.T) {
	x := num.Array{DType: num.F16, Rows: 2, Cols: 2, Stride: 3, Data: []byte{
		0x00, 0x3c, 0x01, 0xfe, 0xa5, 0xa5, // 1, a NaN, a gap
		0x01, 0x7c, 0x00, 0xfc, 0xa5, 0xa5, // a signalling NaN, -Inf, a gap
	}}
	f := num.ArrayOf(num.BF16, 1, 1, 0)
	f.SetBits(0, 0, 0xffff)
	w := num.ArrayOf(num.F32, 1, 1, 0)
	w.SetBits(0, 0, 0xff800001)

	d := NewDigest()
	d.Param("eps", 0.5)
	d.Patterns("x", x)
	d.Patterns("labels", num.IndexArray(-1, 258))
	want := "param eps 3fe0000000000000\n" +
		"x f16 2 2\n\x00\x3c\x01\xfe\x01\x7c\x00\xfc" +
		"labels i32 2 1\n\xff\xff\xff\xff\x02\x01\x00\x00"
	if d.Sum() != sha256.Sum256([]byte(want)) {
		t.Error("patterns are not hashed as documented")
	}

	d = NewDigest()
	d.Values("x", x)
	d.Values("f", f)
	d.Values("w", w)
	want = "x f16 2 2\n\x00\x3c\x00\x7e\x00\x7e\x00\xfc" + "f bf16 1 1\n\xc0\x7f" + "w f32 1 1\n\x00\x00\xc0\x7f"
	if d.Sum() != sha256.Sum256([]byte(want)) {
		t.Error("values are not hashed as documented")
	}
}
