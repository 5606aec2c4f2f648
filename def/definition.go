package def

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"tokitai/num"
)

// Definition is the definition of an operation. It is immutable and safe for
// concurrent use: its fields are exported to be read, and the engine refuses a definition
// that was changed ([Definition.CheckUnchanged]). Its address identifies it within a process,
// its Hash everywhere.
type Definition struct {
	Name     string
	Form     Form
	Operands []Operand
	Params   []Param

	forms   []*Definition // usual ones
	flat    bool
	isStep  bool // of a larger definition
	axes    []Axis
	sums    []Sum
	formula []string
	clauses []string
	built   uint64 // digest when it was built

	// identity returns the text and its hash. They are made when they are first asked for: a program
	// starts with more definitions than it runs.
	identity func() (string, [sha256.Size]byte)
}

// indexDType is how indices and labels are stored.
const indexDType = num.I32

// MaxOperands is the maximum number of operands of a definition.
const MaxOperands = 16

// Operand is a tensor that a definition reads, writes or both.
type Operand struct {
	Name   string
	Dims   []string // sizes by letter; the same letter is the same size
	Extent Extent   // of a rowwise definition, and of vectors of products that end in an expression
	DTypes Rule
	IsIn   bool
	IsOut  bool

	IsIndex   bool   // int32, each below Bound unless it equals the parameter Except; or the offsets of groups, or lengths
	IsOffsets bool   // of groups: they ascend from 0 to Bound
	IsLengths bool   // of groups: each is from 0 to Bound, included
	Bound     string // the letter of the size that limits an index, or that offsets divide; of lengths a product of two
	Except    string // parameter naming one more index that is allowed, or ""
	Lengths   string // operand whose rows say how much of a row is in use, Each for an index; "" if everything is
	Each      string
}

// IsInt reports whether the operand holds integers of one format. All others hold floats, or
// are stored like another operand.
func (o *Operand) IsInt() bool {
	return o.DTypes.Like == "" && len(o.DTypes.Allowed) == 1 && o.DTypes.Allowed[0].IsInteger()
}

// holdsInt32 reports whether the operand is stored as int32.
func (o *Operand) holdsInt32() bool {
	return o.DTypes.Like == "" && slices.Equal(o.DTypes.Allowed, []num.DType{num.I32})
}

// Rule says in which formats an operand may be stored: in that of operand Like, or in one
// of Allowed.
type Rule struct {
	Like    string
	Allowed []num.DType
}

// AnyFloat allows every floating-point format.
var AnyFloat = Rule{Allowed: num.FloatDTypes}

// Only allows the given formats.
func Only(d ...num.DType) Rule { return Rule{Allowed: d} }

// Like requires the format of another operand.
func Like(operand string) Rule { return Rule{Like: operand} }

// Or allows further formats.
func (r Rule) Or(d ...num.DType) Rule {
	return Rule{Like: r.Like, Allowed: append(r.Allowed[:len(r.Allowed):len(r.Allowed)], d...)}
}

func (r Rule) String() string {
	s := ""
	for _, d := range r.Allowed {
		if s != "" {
			s += " "
		}
		s += d.String()
	}
	switch {
	case r.Like == "":
		return s
	case s == "":
		return "as " + r.Like
	}
	return "as " + r.Like + ", or " + s
}

// Text returns the definition in a stable, readable form, which [Parse] reads back. It
// determines every bit of the result: each rounding, the order of each sum, and how
// operands may be stored. (The rounding of a contraction's steps is the [Model] of the
// lowering.)
func (d *Definition) Text() string {
	if d.identity == nil { // it was not built
		return ""
	}
	text, _ := d.identity()
	return text
}

// Source returns the text with the lines for readers: the formula, the clauses of the
// contract, and the results of functions outside their domain.
func (d *Definition) Source() string { return d.print(true) }

// Hash returns the definition's identity: the SHA-256 of its text, in hexadecimal.
func (d *Definition) Hash() string {
	if d.identity == nil {
		return ""
	}
	_, hash := d.identity()
	return hex.EncodeToString(hash[:])
}

func (d *Definition) String() string { return d.Name }

// UsualForms returns the other forms in which people usually compute the definition
// (Builder.Usually).
func (d *Definition) UsualForms() []*Definition { return d.forms }

// Operand returns the position of the named operand, or -1.
func (d *Definition) Operand(name string) int {
	for i := range d.Operands {
		if d.Operands[i].Name == name {
			return i
		}
	}
	return -1
}

// Param returns the position of the named parameter, or -1.
func (d *Definition) Param(name string) int {
	for i := range d.Params {
		if d.Params[i].Name == name {
			return i
		}
	}
	return -1
}

// IsFlat reports whether the division into rows does not matter: a rowwise definition
// that computes each element from that element alone, and at most a sum of all.
func (d *Definition) IsFlat() bool { return d.flat }

// Must returns d, and panics if err is not nil. It is for definitions in package
// variables.
func Must(d *Definition, err error) *Definition {
	if err != nil {
		panic(err)
	}
	return d
}

var definitionNameForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)

// seal checks what all kinds of definitions have in common, and sets what it is known by.
func (d *Definition) seal() (*Definition, error) {
	if !definitionNameForm.MatchString(d.Name) {
		return nil, fmt.Errorf("definition %q: want a name like softmax.forward", d.Name)
	}
	for i, o := range d.Operands {
		if !nameForm.MatchString(o.Name) {
			return nil, fmt.Errorf("%s: operand %q: want a name like x or dgamma", d.Name, o.Name)
		}
		if d.Operand(o.Name) != i {
			return nil, fmt.Errorf("%s: operand %s is declared twice", d.Name, o.Name)
		}
		if err := d.checkRule(o); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if len(d.Operands) > MaxOperands && !d.isStep {
		return nil, fmt.Errorf("%s: it has %d operands, want at most %d", d.Name, len(d.Operands), MaxOperands)
	}
	for i := range d.Params {
		if err := d.Params[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	for _, line := range append(d.formula[:len(d.formula):len(d.formula)], d.clauses...) {
		if strings.TrimSpace(line) == "" || strings.ContainsFunc(line, unicode.IsControl) {
			return nil, fmt.Errorf("%s: a formula or clause %q, want one line of text", d.Name, line)
		}
	}
	if f := d.Expression(); f != nil {
		d.flat = f.isFlat(d)
	}
	d.axes, d.sums = d.Form.axes(d), d.Form.sums(d)
	d.identify()
	return d, nil
}

// identify has the text and the hash made from what is built.
func (d *Definition) identify() {
	d.identity = sync.OnceValues(func() (string, [sha256.Size]byte) {
		text := d.print(false)
		return text, sha256.Sum256([]byte(text))
	})
	d.built = d.digest()
}

// checkRule returns an error for a rule that allows no format, a format that cannot store
// the operand's values, or a cycle of operands stored like each other.
func (d *Definition) checkRule(o Operand) error {
	switch isInt := d.storesInt(o); {
	case o.IsIndex || (isInt || o.IsIn) && o.holdsInt32():
		return nil
	case d.Ring().IsExact(): // rules has made the formats
		return nil
	case isInt:
		return fmt.Errorf("output %s holds int32, which are stored in %s alone, got rule %q", o.Name, num.I32, o.DTypes)
	}
	for _, f := range o.DTypes.Allowed {
		if !f.IsFloat() {
			return fmt.Errorf("operand %s: %s does not store real values", o.Name, f)
		}
		if f.IsFP8() && !d.Form.mayBeFP8(d, o) {
			return fmt.Errorf("operand %s: %w", o.Name, errFP8(f))
		}
	}
	if o.DTypes.Like == "" && len(o.DTypes.Allowed) == 0 {
		return fmt.Errorf("operand %s may be stored in no format", o.Name)
	}
	at := o
	for range d.Operands {
		if at.DTypes.Like == "" {
			return nil
		}
		i := d.Operand(at.DTypes.Like)
		if i < 0 {
			return fmt.Errorf("operand %s is stored like %s, which is not an operand", at.Name, at.DTypes.Like)
		}
		if at = d.Operands[i]; at.IsInt() {
			return fmt.Errorf("operand %s is stored like %s, which does not store real values", o.Name, at.Name)
		}
		if f := slices.IndexFunc(at.DTypes.Allowed, num.DType.IsFP8); f >= 0 && !d.Form.mayBeFP8(d, o) {
			return fmt.Errorf("operand %s is stored like %s: %w", o.Name, at.Name, errFP8(at.DTypes.Allowed[f]))
		}
	}
	return fmt.Errorf("operand %s is stored like %s, which is stored like %s in turn", o.Name, o.DTypes.Like, o.Name)
}

// inFP8 returns the first format of FP8 in which an operand may be stored, or NoDType.
func (d *Definition) inFP8(operand int) num.DType {
	rule := d.Operands[operand].DTypes
	for range d.Operands {
		if i := slices.IndexFunc(rule.Allowed, num.DType.IsFP8); i >= 0 {
			return rule.Allowed[i]
		}
		if operand = d.Operand(rule.Like); operand < 0 {
			break
		}
		rule = d.Operands[operand].DTypes
	}
	return num.NoDType
}

// errFP8 says what may be stored in FP8.
func errFP8(f num.DType) error {
	return fmt.Errorf("%s stores factors of matrix products and outputs of rowwise definitions alone", f)
}

// storesInt reports whether the value that an output stores is an int32.
func (d *Definition) storesInt(o Operand) bool {
	if d.Expression() == nil {
		return o.IsInt()
	}
	for _, out := range d.Math().Outputs {
		if d.Operands[out.Operand].Name == o.Name {
			return out.Value.Type == Int
		}
	}
	return false
}
