package op

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/bound"
	"tokitai/def"
)

// Clause is a numbered clause of a definition's contract, as verification uses it.
type Clause struct {
	Definition *def.Definition
	Number     string // as in the contract: C5
	Kind       ClauseKind

	// Covers returns which output elements of a call the clause speaks about, by operand, row
	// and column. The call's operands are as they are before it. Elements are asked for row by
	// row. It is nil for a clause that cannot be waived.
	Covers func(c *bound.Call) func(operand, row, col int) bool

	// OthersGiveNaN returns at which of these places the definition is written so that it avoids
	// 0 times an infinity, or the like, and other forms of it do not. NaN is then admissible
	// under promise stable. It is nil if there are none.
	OthersGiveNaN func(c *bound.Call) func(operand, row, col int) bool

	// OrNaN says that the clause leaves open whether a result is infinite or NaN: a kernel may
	// give NaN where the definition gives an infinity.
	OrNaN bool
}

// ClauseKind says what a clause is about, and so whether it can be waived.
type ClauseKind uint8

const (
	// Interface clauses say what may be called: shapes, formats, parameters, overlap. They can
	// not be waived: verification calls within them, and what is refused is refused before any
	// kernel runs.
	Interface ClauseKind = iota
	// Arithmetic clauses say what is computed on numbers: orders, roundings, ranges. They
	// cannot be waived: they are what a promise is about.
	Arithmetic
	// Special clauses say how special and boundary values are handled: NaN, infinities, zeros,
	// subnormals, overflow, indices out of range. A kernel may differ there and be right elsewhere.
	Special
)

func (k ClauseKind) String() string { return [...]string{"interface", "arithmetic", "special"}[k] }

// Name returns the clause's name among all: crossentropy.C5.
func (c *Clause) Name() string { return c.Definition.Name + "." + c.Number }

// Text returns the clause as the contract states it.
func (c *Clause) Text() string {
	for _, line := range c.Definition.Contract().Clauses {
		if line.ID == c.Number {
			return line.Text
		}
	}
	return ""
}

// Range is an interval in which every output of an honest kernel lies, however it is
// written: one that no rounding leaves.
type Range struct {
	Definition *def.Definition
	Output     string
	Clause     string // the number of the clause that states it, or "" if the formula implies it

	// Assumes lists functions whose error is taken to be at most 16 units in the last place. A
	// kernel that declares more is not held to the range.
	Assumes []string

	// Between returns the interval of each element of a call. An element for which the range
	// says nothing has -Inf and +Inf.
	Between func(c *bound.Call) func(r, c int) (lo, hi float64)
}

// Allowance is an error beyond a promise that a profile's kernels are known to have. It is
// added to the admissible set, and shown where it is used.
type Allowance struct {
	Profile    string
	Definition *def.Definition
	Output     string
	Text       string // the error: gelu: absolute error u*|x|

	// At returns the absolute error allowed at each element of a call.
	At func(c *bound.Call) func(r, c int) float64
}

// Formula is another form in which people compute a definition.
type Formula struct {
	Name string // lower case and hyphens
	Text string
	Of   *def.Definition

	// Definition states the form: the same operands with other mathematics or other
	// intermediate results. It is nil if the form differs in nothing that a promise depends on.
	Definition *def.Definition

	// Refused is why the form is not accepted; "" if it is.
	Refused string
}

// IsUsual reports whether the form is one that any honest kernel may have (def.Builder.Usually).
// Promise stable admits what the definition or a usual form admits, whether the form is declared
// or not.
func (f *Formula) IsUsual() bool {
	return f.Definition != nil && slices.Contains(f.Of.UsualForms(), f.Definition)
}

// ClauseOf returns the clause of a full name such as crossentropy.C5. It returns an error,
// with what it could be, for a name that is none and for a clause that cannot be waived.
func (o *Operation) ClauseOf(name string) (*Clause, error) {
	var waivable []string
	for i := range o.Clauses {
		c := &o.Clauses[i]
		switch {
		case c.Name() != name:
			if c.Covers != nil {
				waivable = append(waivable, c.Name())
			}
		case c.Covers == nil:
			return nil, fmt.Errorf("clause %s cannot be waived: it is about %s (%s)", name, kindText[c.Kind], c.Text())
		default:
			return c, nil
		}
	}
	return nil, fmt.Errorf("clause %q: %s has none to waive of that name, want %s", name, o.Name, listOr(waivable, "none"))
}

var kindText = map[ClauseKind]string{
	Interface: "the interface", Arithmetic: "arithmetic, which is what the kernel promises", Special: "special values of another definition",
}

// FormulaOf returns the form of a definition by name. It returns an error, with what it
// could be, for a name that is none and for a form that is refused.
func (o *Operation) FormulaOf(d *def.Definition, name string) (*Formula, error) {
	for i := range o.Formulas {
		f := &o.Formulas[i]
		switch {
		case f.Of != d || f.Name != name:
		case f.Refused != "":
			return nil, fmt.Errorf("formula %q of %s is refused: %s", name, d.Name, f.Refused)
		default:
			return f, nil
		}
	}
	return nil, fmt.Errorf("formula %q is unknown: %s has %s", name, d.Name, listOr(o.FormulasOf(d), "no other form"))
}

// FormulasOf lists the names of the forms of a definition that are not refused.
func (o *Operation) FormulasOf(d *def.Definition) []string {
	var names []string
	for _, f := range o.Formulas {
		if f.Of == d && f.Refused == "" {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
