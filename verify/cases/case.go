package cases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
)

// Case is one call of a kernel. Its name determines everything but the seed:
//
//	spread/R=3,C=257
//	one-huge/R=1@4,C=1025/gap=3/offset=1/y=x
//	reverse-R:normal/R=8,C=65/gamma=f32/params=3
//
// First comes the check, if it is not the plain comparison; then the pattern of values and
// the sizes, where R=1@4 is one row with the values of row 4 of a larger tensor; then, in
// any order, the number of elements between rows, the number before the first, an output in the
// place of an input, operands whose format is not the target's, the number of a variation of the
// parameters, the memory around the operands, if it is not drawn, and indices=inside, if indices
// out of range are replaced by others in range.
type Case struct {
	Check   string // "" compares every output; otherwise the name of a relation or invariance
	Pattern string
	Sizes   []Size // in the order of Definition.Sizes
	Gap     int    // elements between rows
	Offset  int    // elements before the first: another alignment
	Uneven  int    // 0: gap and offset are every operand's; 1: the first's, third's, …; 2: the others'
	Far     int    // rows lie apart so far that the last one begins 2^Far elements behind the first; 0: no farther than Gap says
	InPlace string // "y=x", or ""
	Params  int    // 0: the pattern's own; otherwise a variation of them
	Guards  string // what lies around the operands: a name of trial.Guards, or "" for what name and seed draw
	Formats []num.DType

	IsInside bool // indices that the pattern has outside of their tables are brought inside

	IsAccuracy   bool // compared with the truth as well
	IsStatistics bool // and, of a bounded lowering, with what its errors should be
}

// Size is the length of one letter's axis, and the index at which it begins.
type Size struct {
	Letter  string
	N, From int
}

func (s Size) String() string {
	text := s.Letter + "=" + strconv.Itoa(s.N)
	if s.From != 0 {
		text += "@" + strconv.Itoa(s.From)
	}
	return text
}

// insideOption is IsInside in the name of a case.
const insideOption = "indices=inside"

// Name returns the case's name for a target.
func (c *Case) Name(t *Target) string {
	var b strings.Builder
	if c.Check != "" {
		b.WriteString(c.Check + ":")
	}
	b.WriteString(c.Pattern + "/")
	for i, s := range c.Sizes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.String())
	}
	option := func(name string, n int) {
		if n > 0 {
			b.WriteString("/" + name + "=" + strconv.Itoa(n))
		}
	}
	option("gap", c.Gap)
	option("offset", c.Offset)
	option("uneven", c.Uneven)
	option("far", c.Far)
	if c.InPlace != "" {
		b.WriteString("/" + c.InPlace)
	}
	usual := t.Formats[0]
	for i, f := range c.Formats {
		if f != usual[i] {
			b.WriteString("/" + t.Definition.Operands[i].Name + "=" + f.String())
		}
	}
	option("params", c.Params)
	if c.Guards != "" {
		b.WriteString("/guards=" + c.Guards)
	}
	if c.IsInside {
		b.WriteString("/" + insideOption)
	}
	return b.String()
}

// Size returns the length and the first index of a letter's axis.
func (c *Case) Size(letter string) (n, from int) {
	for _, s := range c.Sizes {
		if s.Letter == letter {
			return s.N, s.From
		}
	}
	return 1, 0
}

// Layout returns the layout of the operand at a position.
func (c *Case) Layout(operand int) trial.Layout {
	if c.Uneven > 0 && operand%2 != c.Uneven-1 {
		return trial.Layout{Far: c.Far}
	}
	return trial.Layout{Offset: c.Offset, Gap: c.Gap, Far: c.Far}
}

func (c *Case) Lengths() map[string]int {
	m := map[string]int{}
	for _, s := range c.Sizes {
		m[s.Letter] = s.N
	}
	return m
}

func (c *Case) Clone() *Case {
	d := *c
	d.Sizes = slices.Clone(c.Sizes)
	return &d
}

// Outputs returns the number of output elements of one run.
func (c *Case) Outputs(d *def.Definition) int64 {
	n, sizes := int64(0), c.Lengths()
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut {
			rows, cols := o.Matrix(sizes)
			n += int64(rows) * int64(cols)
		}
	}
	return n
}

// computed counts the elements on which a case computes: its outputs or, where these are fewer, the
// elements of the rows that they come from.
func (c *Case) computed(d *def.Definition) int64 {
	n := c.Outputs(d)
	if d.Expression() != nil {
		sizes := c.Lengths()
		n = max(n, int64(sizes["R"])*int64(sizes["C"]))
	}
	return n
}

// mostFar limits Case.Far: with more, an operand of a few rows would exceed the address space.
const mostFar = 36

// maxCaseElements limits the operands of a case that a user names.
const maxCaseElements = 1 << 33

// Parse returns the case with the given name.
func (t *Target) Parse(name string) (*Case, error) {
	c := &Case{Formats: slices.Clone(t.Formats[0])}
	refuse := func(format string, args ...any) (*Case, error) {
		return nil, &UnknownError{What: "case", Name: name, Reason: fmt.Sprintf(format, args...), Known: t.caseNames()}
	}
	parts := strings.Split(name, "/")
	if len(parts) < 2 {
		return refuse("want pattern/sizes, such as %s", t.exampleCase())
	}
	c.Pattern = parts[0]
	if check, pattern, ok := strings.Cut(parts[0], ":"); ok {
		c.Check, c.Pattern = check, pattern
		if t.checkNamed(check) == nil {
			return refuse("there is no check %q", check)
		}
	}
	if t.Pattern(c.Pattern) == nil {
		return refuse("there is no pattern %q", c.Pattern)
	}
	given := map[string]Size{}
	for _, text := range strings.Split(parts[1], ",") {
		s, ok := parseSize(text)
		if !ok || !slices.Contains(t.Definition.Sizes(), s.Letter) {
			return refuse("%q is no size of %s, which has %s", text, t.Definition.Name, strings.Join(t.Definition.Sizes(), ", "))
		}
		if _, isTwice := given[s.Letter]; isTwice {
			return refuse("size %s is given twice", s.Letter)
		}
		given[s.Letter] = s
	}
	for _, letter := range t.Definition.Sizes() {
		s, ok := given[letter]
		if !ok {
			return refuse("size %s is missing", letter)
		}
		c.Sizes = append(c.Sizes, s)
	}
	for _, option := range parts[2:] {
		if err := t.parseOption(c, option); err != "" {
			return refuse("%s", err)
		}
	}
	for _, o := range t.Definition.Operands {
		rows, cols := o.Matrix(c.Lengths())
		if stride := cols + c.Gap; int64(rows) > maxCaseElements/int64(stride) {
			return refuse("%s would have %d×%d elements", o.Name, rows, stride)
		}
	}
	if out, in, ok := strings.Cut(c.InPlace, "="); ok && c.Formats[t.Definition.Operand(out)] != c.Formats[t.Definition.Operand(in)] {
		return refuse("%s may not be %s, which is stored in another format", out, in)
	}
	if !slices.ContainsFunc(t.Formats, func(f []num.DType) bool { return slices.Equal(f, c.Formats) }) {
		return refuse("%s has no such formats", t.Definition.Name)
	}
	c.IsAccuracy = c.Check == ""
	c.IsStatistics = c.IsAccuracy && slices.ContainsFunc(t.Data(), func(d op.Data) bool { return Slug(d.Name) == c.Pattern })
	return c, nil
}

// Has reports whether there is a case of a name.
func (t *Target) Has(name string) bool {
	_, err := t.Parse(name)
	return err == nil
}

func parseSize(text string) (Size, bool) {
	letter, value, ok := strings.Cut(text, "=")
	number, from, hasFrom := strings.Cut(value, "@")
	s := Size{Letter: letter}
	var err error
	if s.N, err = strconv.Atoi(number); err != nil || !ok || s.N < 1 || s.N > maxCaseElements {
		return s, false
	}
	if hasFrom {
		if s.From, err = strconv.Atoi(from); err != nil || s.From < 0 || s.From > maxCaseElements {
			return s, false
		}
	}
	return s, true
}

// parseOption parses gap=, offset=, y=x or gamma=f32. It returns what is wrong with it, or "".
func (t *Target) parseOption(c *Case, option string) string {
	const most = 1 << 20
	left, right, ok := strings.Cut(option, "=")
	if !ok {
		return fmt.Sprintf("%q is no option", option)
	}
	if number := map[string]*int{"gap": &c.Gap, "offset": &c.Offset, "uneven": &c.Uneven, "params": &c.Params, "far": &c.Far}[left]; number != nil {
		n, err := strconv.Atoi(right)
		switch {
		case err != nil || n < 0 || n > most:
			return fmt.Sprintf("%s is %q, want 0 to %d", left, right, most)
		case *number != 0:
			return fmt.Sprintf("%s is given twice", left)
		case left == "far" && n > mostFar:
			return fmt.Sprintf("far is %d, want 0 to %d", n, mostFar)
		case left == "far" && c.Check != "":
			return "rows lie far apart in plain comparisons only"
		case left == "uneven" && n > 2:
			return fmt.Sprintf("uneven is %d, want 1 or 2", n)
		case left == "params" && len(t.Definition.Params) == 0:
			return t.Definition.Name + " has no parameters"
		}
		*number = n
		return ""
	}
	if option == insideOption {
		c.IsInside = true
		return ""
	}
	if left == "guards" {
		if _, err := trial.ParseGuards(right); err != nil {
			return err.Error()
		}
		c.Guards = right
		return ""
	}
	d := t.Definition
	i := d.Operand(left)
	if i < 0 {
		return fmt.Sprintf("%q is neither an operand nor gap, offset, uneven, far, params, guards or indices", left)
	}
	if k := d.Operand(right); k >= 0 {
		if !d.MayReplace(&d.Operands[i], &d.Operands[k]) {
			return fmt.Sprintf("%s may not be %s", left, right)
		}
		c.InPlace = option
		return ""
	}
	f, err := num.ParseDType(right)
	if err != nil {
		return fmt.Sprintf("%s is %q, want a format or an operand", left, right)
	}
	c.Formats[i] = f
	return ""
}

// Largest returns the number of elements of the largest operand.
func (c *Case) Largest(d *def.Definition) int64 {
	n, sizes := int64(0), c.Lengths()
	for i := range d.Operands {
		rows, cols := d.Operands[i].Matrix(sizes)
		n = max(n, int64(rows)*int64(cols))
	}
	return n
}

// Elements counts the elements of all operands.
func (c *Case) Elements(d *def.Definition) (n int64) {
	sizes := c.Lengths()
	for i := range d.Operands {
		rows, cols := d.Operands[i].Matrix(sizes)
		n += int64(rows) * int64(cols)
	}
	return n
}

// SizesText returns the sizes of a case as its name has them.
func (c *Case) SizesText() string {
	var parts []string
	for _, s := range c.Sizes {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ",")
}
