package cases_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
	"tokitai/verify/cases"
)

// TestCaseNames checks that every case of every target has a unique name, and that parsing the name
// gives the case.
func TestCaseNames(t *testing.T) {
	t.Parallel()
	levels := testlevel.Pick([]cases.Level{cases.Smoke, cases.Quick}, []cases.Level{cases.Smoke, cases.Quick, cases.Full})
	for _, x := range someOf(cpuTargets()) {
		for _, level := range levels {
			seen := map[string]bool{}
			for _, c := range x.Cases().List(&cases.Request{Level: level}) {
				name := c.Name(x.Cases())
				if seen[name] {
					t.Errorf("%s %s %s: two cases are named %s", x.ID(), x.DType, level, name)
				}
				seen[name] = true
				if strings.ContainsAny(name, " \t\n'") {
					t.Errorf("%s: the name %q cannot be given on a command line", x.ID(), name)
				}
				parsed, err := x.Cases().Parse(name)
				if err != nil {
					t.Fatalf("%s %s: %v", x.ID(), x.DType, err)
				}
				if again := parsed.Name(x.Cases()); again != name {
					t.Errorf("%s %s: %s reads back as %s", x.ID(), x.DType, name, again)
				}
				if parsed.Check != c.Check || parsed.Pattern != c.Pattern || parsed.Gap != c.Gap || parsed.Offset != c.Offset || parsed.InPlace != c.InPlace ||
					!slices.Equal(parsed.Sizes, c.Sizes) || !slices.Equal(parsed.Formats, c.Formats) {
					t.Errorf("%s %s: %s is\n%+v\nwant\n%+v", x.ID(), x.DType, name, parsed, c)
				}
			}
		}
	}
}

func TestParseCaseRefuses(t *testing.T) {
	t.Parallel()
	x := target(softmax.ForwardDefinition, num.F16, kernel(promise.Bits))
	y := target(layernorm.ForwardDefinition, num.F16, kernel(promise.Bits))
	wider := def.Must(def.Rowwise("copy", func(b *def.Builder) { b.Out("y", b.In("x"), def.Like("x").Or(num.F32)) }))
	z := &verify.Target{Definition: wider, DType: num.F16, Lowering: kernel(promise.Bits)}
	for _, test := range []struct {
		x          *verify.Target
		name, text string
	}{
		{x, "", "want pattern/sizes, such as normal/R=5,C=33"},
		{x, "normal", "want pattern/sizes"},
		{x, "nothing/R=1,C=1", `there is no pattern "nothing"`},
		{x, "what:normal/R=1,C=1", `there is no check "what"`},
		{x, "normal/R=1", "size C is missing"},
		{x, "normal/R=1,C=1,M=1", `"M=1" is no size of softmax.forward, which has R, C`},
		{x, "normal/R=0,C=1", `"R=0" is no size`},
		{x, "normal/R=-1,C=1", `"R=-1" is no size`},
		{x, "normal/R=1@-1,C=1", `"R=1@-1" is no size`},
		{x, "normal/R=x,C=1", `"R=x" is no size`},
		{x, "normal/R,C=1", `"R" is no size`},
		{x, "normal/R=100000,C=100000", "x would have 100000×100000 elements"},
		{x, "normal/R=8589934593,C=1", `is no size`},
		{x, "normal/R=8000000000,C=1/gap=1000000", "x would have 8000000000×1000001 elements"},
		{x, "normal/R=1,C=1/gap", `"gap" is no option`},
		{x, "normal/R=1,C=1/gap=-1", `gap is "-1", want 0 to 1048576`},
		{x, "normal/R=1,C=1/offset=x", `offset is "x"`},
		{x, "normal/R=1,C=1/z=x", `"z" is neither an operand nor gap, offset, uneven, far, params, guards or indices`},
		{x, "normal/R=3,C=1/far=37", "far is 37, want 0 to 36"},
		{x, "repeat:normal/R=3,C=1/far=24", "rows lie far apart in plain comparisons only"},
		{x, "normal/R=1,C=1/guards=iron", `guards are "iron", want byte, nan, number or hidden`},
		{x, "normal/R=1,C=1/y=q", `y is "q", want a format or an operand`},
		{x, "normal/R=1,C=1/x=y", "x may not be y"},
		{x, "normal/R=1,C=1/y=y", "y may not be y"},
		{x, "normal/R=1,C=1/y=bf16", "softmax.forward has no such formats"},
		{z, "normal/R=1,C=1/y=x/y=f32", "y may not be x, which is stored in another format"},
		{y, "normal/R=1,C=1/gamma=bf16", "layernorm.forward has no such formats"},
	} {
		_, err := test.x.Cases().Parse(test.name)
		unknown, ok := err.(*cases.UnknownError)
		if !ok || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: got %v, want an UnknownError with %q", test.name, err, test.text)
			continue
		}
		if unknown.What != "case" || len(unknown.Known) == 0 {
			t.Errorf("%s: %+v, want the cases that there are", test.name, unknown)
		}
	}
}

// FuzzParseCase looks for names that make parsing panic, and for cases that do not parse back.
func FuzzParseCase(f *testing.F) {
	targets := []*verify.Target{
		target(softmax.BackwardDefinition, num.F16, kernel(promise.Bits)), target(gemm.ForwardDefinition, num.BF16, kernel(promise.Bits)),
		target(embedding.BackwardDefinition, num.F16, kernel(promise.Bits)), target(layernorm.ForwardDefinition, num.F16, kernel(promise.Bits)),
	}
	for _, x := range targets {
		for i, c := range x.Cases().List(&cases.Request{Level: cases.Smoke}) {
			if i%9 == 0 {
				f.Add(c.Name(x.Cases()))
			}
		}
	}
	for _, s := range []string{"/", "normal/", ":/R=1", "normal/R=1,C=1/", "normal/R=1@4,C=1025/gap=3/offset=1/dx=dy", "normal/R=01,C=+1/gap=007", "normal/R=1,R=2,C=3/dx=y/dx=dy"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, x := range targets {
			c, err := x.Cases().Parse(name)
			if err != nil {
				continue
			}
			printed := c.Name(x.Cases())
			again, err := x.Cases().Parse(printed)
			if err != nil {
				t.Fatalf("%q is %s, which is refused: %v", name, printed, err)
			}
			if !reflect.DeepEqual(c, again) {
				t.Errorf("%q is %s\n%+v\nand that is\n%+v", name, printed, c, again)
			}
		}
	})
}

// TestLevelsGrow checks that each level has a minimum number of cases of every target, and more
// than the level below.
func TestLevelsGrow(t *testing.T) {
	t.Parallel()
	least := map[cases.Level]int{cases.Smoke: 100, cases.Quick: 330, cases.Full: 1900}
	for _, x := range someOf(cpuTargets()) {
		before := 0
		for _, level := range slices.Sorted(maps.Keys(least)) {
			n := len(x.Cases().List(&cases.Request{Level: level}))
			if n < least[level] || n <= before {
				t.Errorf("%s %s %s: %d cases after %d, want at least %d", x.ID(), x.DType, level, n, before, least[level])
			}
			before = n
		}
	}
}

// lengths collects how long an axis is in the cases of a level, without checks.
func lengths(list []*cases.Case, letter string) map[int]bool {
	found := map[int]bool{}
	for _, c := range list {
		for _, s := range c.Sizes {
			if s.Letter == letter && c.Check == "" {
				found[s.N] = true
			}
		}
	}
	return found
}

// upTo lists 1 to n.
func upTo(n int) []int {
	var list []int
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// around lists each size with its neighbours.
func around(sizes ...int) []int {
	var list []int
	for _, n := range sizes {
		list = append(list, n-1, n, n+1)
	}
	return list
}

// TestSuiteReaches lists the sizes, patterns and checks that level quick must have, so that none is
// removed by mistake.
func TestSuiteReaches(t *testing.T) {
	t.Parallel()
	rowwise := map[string][]int{
		"C": slices.Concat(upTo(40), around(64, 128, 256, 512, 1024, 2048, 8192)), // lanes of 256, 1024, 8192; chunks of 512
		"R": slices.Concat(upTo(9), around(64, 256, 1024)),
	}
	product := map[string][]int{"M": around(64, 128, 256), "N": around(64, 128, 256), "K": around(64, 128, 256)}
	table := map[string][]int{"Q": slices.Concat(upTo(40), around(64, 128, 1024)), "V": upTo(40), "D": slices.Concat(upTo(40), around(64, 256))}
	for _, x := range cpuTargets() {
		reach := map[def.Access]map[string][]int{def.AlongRows: rowwise, def.OfProducts: product, def.FromIndex: table, def.ToIndex: table}[x.Definition.Access()]
		for _, letter := range x.Definition.Sizes() {
			found := lengths(quick(x, 0), letter)
			for _, n := range reach[letter] {
				if !found[n] {
					t.Errorf("%s %s: no case with %s=%d", x.ID(), x.DType, letter, n)
				}
			}
		}
		gaps, offsets, inPlace, formats, accuracy := 0, map[int]bool{}, map[string]bool{}, map[string]bool{}, 0
		patterns, checks, formatPatterns := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, c := range quick(x, 0) {
			if c.Gap > 0 {
				gaps++
			}
			offsets[c.Offset] = true
			inPlace[c.InPlace] = true
			formats[fmt.Sprint(c.Formats)] = true
			if c.Check == "" {
				formatPatterns[fmt.Sprint(c.Formats, " ", c.Pattern)] = true
			}
			patterns[c.Pattern] = true
			checks[c.Check] = true
			if c.IsAccuracy {
				accuracy++
			}
		}
		if gaps < 20 || len(offsets) < 10 {
			t.Errorf("%s %s: %d cases with gaps, %d offsets; want at least 20, 10", x.ID(), x.DType, gaps, len(offsets))
		}
		want := 0
		for _, f := range x.Definition.Formats() {
			if x.Definition.Format(f) == x.DType {
				want++
				if !formats[fmt.Sprint(f)] {
					t.Errorf("%s %s: no case with formats %v", x.ID(), x.DType, f)
				}
			}
		}
		if len(formats) != want {
			t.Errorf("%s %s: %d choices of formats, want %d", x.ID(), x.DType, len(formats), want)
		}
		usual, _ := x.Cases().Parse(x.Cases().List(&cases.Request{Level: cases.Smoke})[0].Name(x.Cases()))
		for i := range x.Definition.Operands {
			for _, partner := range x.Definition.InPlacePartners(&x.Definition.Operands[i]) {
				name := x.Definition.Operands[i].Name + "=" + partner
				if isSame := usual.Formats[i] == usual.Formats[x.Definition.Operand(partner)]; isSame != inPlace[name] {
					t.Errorf("%s %s: in place %s: %t, want %t", x.ID(), x.DType, name, inPlace[name], isSame)
				}
			}
		}
		for _, k := range x.Cases().Checks() {
			if !k.IsAsked && !checks[k.Name] {
				t.Errorf("%s %s: check %s is never made", x.ID(), x.DType, k.Name)
			}
		}
		names, _ := patternNames(x)
		for _, pattern := range []string{"normal", "special", "rarely-special"} {
			for f := range formats {
				if slices.Contains(names, pattern) && !formatPatterns[f+" "+pattern] {
					t.Errorf("%s %s: no case with formats %s and pattern %s", x.ID(), x.DType, f, pattern)
				}
			}
		}
		for _, name := range names {
			if !patterns[name] && !strings.HasPrefix(name, "every") {
				t.Errorf("%s %s: pattern %s is never used", x.ID(), x.DType, name)
			}
		}
		kinds := 0
		for _, data := range x.Operation.Data {
			if data.Definition == x.Definition {
				kinds++
			}
		}
		if accuracy < kinds {
			t.Errorf("%s %s: %d cases are compared with the truth, want at least the %d kinds of data", x.ID(), x.DType, accuracy, kinds)
		}
	}
}

// TestEveryPattern checks that level quick runs through all 16-bit values for definitions without
// sums.
func TestEveryPattern(t *testing.T) {
	t.Parallel()
	for _, x := range cpuTargets() {
		list := quick(x, 0)
		has := slices.ContainsFunc(list, func(c *cases.Case) bool { return c.Pattern == "every" })
		if want := x.Definition.IsFlat() && list[0].Formats[0].Size() == 2; want && !has {
			t.Errorf("%s %s: not every pattern is tried", x.ID(), x.DType)
		}
	}
}

// TestDuplicates checks that some index occurs at least three times and others never, and that some
// cases have more than two chunks of one index.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	for _, d := range []*def.Definition{embedding.ForwardDefinition, embedding.BackwardDefinition, embedding.AccumulateDefinition} {
		x := target(d, num.F16, kernel(promise.Bits))
		for _, level := range []cases.Level{cases.Smoke, cases.Quick} {
			thrice, most, outside := 0, 0, 0
			for _, c := range x.Cases().List(&cases.Request{Level: level}) {
				count, rows := map[int32]int{}, int32(0)
				for _, s := range c.Sizes {
					if s.Letter == "V" {
						rows = int32(s.N)
					}
				}
				worst := 0
				for _, i := range indices(x, c, "index") {
					if i < 0 || i >= rows {
						outside++
						continue
					}
					count[i]++
					worst = max(worst, count[i])
				}
				if worst >= 3 {
					thrice++
				}
				most = max(most, worst)
			}
			if thrice < 20 || most < 129 || outside == 0 {
				t.Errorf("%s %s: %d cases with three of an index, at most %d, %d outside; want 20, 129, some", d.Name, level, thrice, most, outside)
			}
		}
	}
}
