package prove

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"tokitai/def"
)

// ModelName returns the name of the Coq module of a definition's model: gelu_forward.
func ModelName(d *def.Definition) string { return strings.ReplaceAll(d.Name, ".", "_") }

// Model returns the model of a rowwise definition, as a Coq file: a Coq definition per node, as
// functions of the rounding, of the functions that the definition calls, of its reductions, its
// parameters and its operands. The output y is out_y; exact_y is the same over the real numbers,
// without any rounding. What depends on a node that Coq's real numbers have no word for, such as
// random words, is left out, and the file says so.
func Model(d *def.Definition) (string, error) {
	m, err := newModel(d)
	if err != nil {
		return "", fmt.Errorf("definition %s: %w", d.Name, err)
	}
	return m.file()
}

// Computed returns a Coq file with the outputs of definitions as they are computed: their models
// with rounding to binary32 and with the functions of package fn, whose proofs must exist.
func Computed(definitions []*def.Definition) (string, error) {
	var body strings.Builder
	var imports []string
	for _, d := range definitions {
		m, err := newModel(d)
		if err != nil {
			return "", fmt.Errorf("definition %s: %w", d.Name, err)
		}
		imports = append(imports, "operations."+ModelName(d))
		for _, o := range m.outputs() {
			words := []string{ModelName(d) + ".out_" + o.name, "round32"}
			for _, f := range m.functions {
				if !slices.Contains(o.uses, f.Name) {
					continue
				}
				if _, ok := StatusOf(f.Name); !ok {
					return "", fmt.Errorf("definition %s calls %s, about which nothing is proved", d.Name, f.Name)
				}
				words = append(words, f.Name+"."+f.Name+"_f32")
				if name := "functions." + f.Name; !slices.Contains(imports, name) {
					imports = append(imports, name)
				}
			}
			fmt.Fprintf(&body, "Definition %s_%s := %s.\n", ModelName(d), o.name, strings.Join(words, " "))
		}
	}
	slices.Sort(imports)
	return "(** * Models of definitions, as they are computed\n\n    With rounding to binary32 and with the functions of package fn. " + writtenBy + " *)\n\n" +
		"From Tokitai Require Import Binary32.\nFrom Tokitai Require " + strings.Join(imports, " ") + ".\n\n" + body.String(), nil
}

const writtenBy = "Written by go test ./docs -run ProveOperations -update; do not edit."

// model is a definition with a name for each node that Coq can compute.
type model struct {
	d         *def.Definition
	names     map[*def.Node]string
	known     map[*def.Node]bool
	functions []*def.Function
	row       *def.Node // the operand whose rows are reduced, or nil
	reduces   []string  // the reductions, in the order of reductions
}

// reductions are those that a model can have.
var reductions = []def.Op{def.OpRowMax, def.OpRowSum}

// taken are the words that the bodies of models use.
var taken = []string{"rnd", "row", "rowmax", "rowsum", "map", "fold_right", "Rplus", "Rinv", "Rmin", "Rmax", "Rabs", "Rlt_dec", "Rle_dec", "sqrt", "exp", "ln", "tanh", "sin", "cos", "PI", "R", "list"}

func newModel(d *def.Definition) (*model, error) {
	m := &model{d: d, names: map[*def.Node]string{}, known: map[*def.Node]bool{}}
	if d.Expression() == nil {
		return nil, fmt.Errorf("it is a %v, want a rowwise definition", d.Form)
	}
	used := slices.Clone(taken)
	for _, n := range d.Math().Nodes {
		if n.Name == "" {
			continue
		}
		if slices.Contains(used, n.Name) {
			return nil, fmt.Errorf("a model cannot have two values named %s", n.Name)
		}
		m.names[n] = n.Name
		used = append(used, n.Name)
	}
	unnamed := 0
	for _, n := range d.Math().Nodes {
		for n.Name == "" && len(n.Args) > 0 && m.names[n] == "" {
			unnamed++
			if name := fmt.Sprintf("t%d", unnamed); !slices.Contains(used, name) {
				m.names[n] = name
			}
		}
	}
	for _, n := range d.Math().Nodes {
		if n.Op == def.OpCall && !slices.Contains(m.functions, n.Func) {
			m.functions = append(m.functions, n.Func)
		}
		if slices.Contains(reductions, n.Op) {
			m.reduces = append(m.reduces, n.Op.String())
		}
		_, err := m.body(n)
		m.known[n] = err == nil && !slices.ContainsFunc(n.Args, func(a *def.Node) bool { return !m.known[a] })
	}
	slices.SortFunc(m.functions, func(f, g *def.Function) int { return strings.Compare(f.Name, g.Name) })
	slices.Sort(m.reduces)
	m.reduces = slices.Compact(m.reduces)
	if len(m.reduces) > 0 {
		for _, n := range d.Math().Nodes {
			switch {
			case n.Op != def.OpInput:
			case n.Extent == def.PerElement && m.row == nil:
				m.row = n
			default:
				return nil, fmt.Errorf("it reduces rows and has the operand %s besides %s, want one operand", n.Name, m.names[m.row])
			}
		}
		if m.row == nil {
			return nil, fmt.Errorf("it reduces no operand")
		}
	}
	return m, nil
}

// isElement reports whether n has a value for each element of the row that is reduced.
func (m *model) isElement(n *def.Node) bool { return m.row != nil && n.Extent == def.PerElement }

// term returns the Coq term of a node's value as an argument.
func (m *model) term(n *def.Node) (string, error) {
	switch {
	case n.Op == def.OpConst && isSpecial(n):
		return "", fmt.Errorf("%v is no number", n.Real)
	case n.Op == def.OpConst && n.Real.IsExact():
		return realText(n.Real.F32()), nil
	case n.Op == def.OpConst:
		text, err := coqReal(strings.Trim(n.Real.String(), "{}"))
		return "rnd (" + text + ")", err
	case n.Type == def.Int || m.names[n] == "":
		return "", fmt.Errorf("%s is no real number", n.Op)
	case m.isElement(n) && n != m.row:
		return "(" + m.names[n] + " " + m.names[m.row] + ")", nil
	}
	return m.names[n], nil
}

// body returns the Coq term that computes a node from its arguments.
func (m *model) body(n *def.Node) (string, error) {
	a := make([]string, len(n.Args))
	for i, arg := range n.Args {
		var err error
		if a[i], err = m.term(arg); err != nil {
			return "", err
		}
		if arg.Op == def.OpConst && !arg.Real.IsExact() {
			a[i] = "(" + a[i] + ")"
		}
	}
	switch n.Op {
	case def.OpInput, def.OpParam, def.OpConst:
		return m.term(n)
	case def.OpAdd:
		return fmt.Sprintf("rnd (%s + %s)", a[0], a[1]), nil
	case def.OpSub:
		return fmt.Sprintf("rnd (%s - %s)", a[0], a[1]), nil
	case def.OpMul:
		return fmt.Sprintf("rnd (%s * %s)", a[0], a[1]), nil
	case def.OpDiv:
		return fmt.Sprintf("rnd (%s / %s)", a[0], a[1]), nil
	case def.OpSqrt:
		return fmt.Sprintf("rnd (sqrt %s)", a[0]), nil
	case def.OpFMA:
		return fmt.Sprintf("rnd (%s * %s + %s)", a[0], a[1], a[2]), nil
	case def.OpNeg:
		return "- " + a[0], nil
	case def.OpAbs:
		return "Rabs " + a[0], nil
	case def.OpMin:
		return fmt.Sprintf("Rmin %s %s", a[0], a[1]), nil
	case def.OpMax:
		return fmt.Sprintf("Rmax %s %s", a[0], a[1]), nil
	case def.OpLess:
		return fmt.Sprintf("Rlt_dec %s %s", a[0], a[1]), nil
	case def.OpLessEqual:
		return fmt.Sprintf("Rle_dec %s %s", a[0], a[1]), nil
	case def.OpSelect:
		return fmt.Sprintf("if %s then %s else %s", a[0], a[1], a[2]), nil
	case def.OpCall:
		return n.Func.Name + " " + a[0], nil
	case def.OpRowMax, def.OpRowSum:
		if n.Args[0] == m.row {
			return n.Op.String() + " row", nil
		}
		return fmt.Sprintf("%s (map %s row)", n.Op, m.names[n.Args[0]]), nil
	}
	return "", fmt.Errorf("%s is not a node of models", n.Op)
}

// modelOutput is an output of a definition, with the names of what it is a function of.
type modelOutput struct {
	name  string
	value *def.Node
	uses  []string
}

// outputs returns the outputs that the model has.
func (m *model) outputs() (list []modelOutput) {
	for _, o := range m.d.Math().Outputs {
		if m.known[o.Value] {
			list = append(list, modelOutput{m.d.Operands[o.Operand].Name, o.Value, m.uses(o.Value)})
		}
	}
	return list
}

// uses returns the functions and reductions that a node's value depends on.
func (m *model) uses(n *def.Node) (list []string) {
	seen := map[*def.Node]bool{}
	var walk func(n *def.Node)
	walk = func(n *def.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch {
		case n.Op == def.OpCall:
			list = append(list, n.Func.Name)
		case slices.Contains(reductions, n.Op):
			list = append(list, n.Op.String())
		}
		for _, a := range n.Args {
			walk(a)
		}
	}
	walk(n)
	return list
}

// exactFunctions are functions over the real numbers in Coq.
var exactFunctions = map[def.Math]string{def.MathExp: "exp", def.MathLog: "ln", def.MathRecip: "Rinv", def.MathSqrt: "sqrt", def.MathTanh: "tanh", def.MathSin: "sin", def.MathCos: "cos"}

// file returns the Coq file.
func (m *model) file() (string, error) {
	var s, left strings.Builder
	fmt.Fprintf(&s, "(** * The model of %s\n\n    From the nodes of the definition. %s *)\n\nFrom Coq Require Import Reals List.\nLocal Open Scope R_scope.\n\n", m.d.Name, writtenBy)
	text, _, _ := strings.Cut(m.d.Text(), "function ")
	fmt.Fprintf(&s, "(* %s\n   sha256 %s *)\n", strings.TrimSpace(text), m.d.Hash())
	s.WriteString("Section Nodes.\nVariable rnd : R -> R. (* the rounding after each step *)\n")
	for _, f := range m.functions {
		fmt.Fprintf(&s, "Variable %s : R -> R.\n", f.Name)
	}
	for _, name := range m.reduces {
		fmt.Fprintf(&s, "Variable %s : list R -> R.\n", name)
	}
	for _, p := range m.d.Params { // in the order of the definition, whatever order the nodes have
		if !p.IsInt {
			fmt.Fprintf(&s, "Variable %s : R.\n", p.Name)
		}
	}
	for _, o := range m.d.Operands {
		if o.IsIn && !o.IsInt() && (m.row == nil || m.row.Name != o.Name) {
			fmt.Fprintf(&s, "Variable %s : R.\n", o.Name)
		}
	}
	if m.row != nil {
		fmt.Fprintf(&s, "Variable row : list R. (* of %s *)\n", m.row.Name)
	}
	for _, n := range m.d.Math().Nodes {
		if len(n.Args) == 0 && m.known[n] {
			continue
		}
		body, err := m.body(n)
		argument := ""
		if m.isElement(n) {
			argument = " (" + m.names[m.row] + " : R)"
		}
		switch {
		case !m.known[n] && len(n.Args) > 0:
			fmt.Fprintf(&left, " %s", m.names[n])
		case m.known[n] && err == nil:
			fmt.Fprintf(&s, "Definition %s%s := %s.\n", m.names[n], argument, body)
		}
	}
	outputs := m.outputs()
	for _, o := range outputs {
		fmt.Fprintf(&s, "Definition out_%s := %s.\n", o.name, m.names[o.value])
	}
	s.WriteString("End Nodes.\n")
	if left.Len() > 0 {
		fmt.Fprintf(&s, "(* Left out:%s, and what is stored from them. *)\n", left.String())
	}
	s.WriteString("\n(* Over the real numbers. *)\n")
	for _, o := range outputs {
		words := []string{"out_" + o.name, "(fun z => z)"}
		for _, f := range m.functions {
			if !slices.Contains(o.uses, f.Name) {
				continue
			}
			exact, ok := exactFunctions[f.Math]
			if !ok {
				return "", fmt.Errorf("definition %s: Coq has no %v", m.d.Name, f.Math)
			}
			words = append(words, exact)
		}
		parameters := ""
		for _, name := range m.reduces {
			switch {
			case !slices.Contains(o.uses, name):
			case name == def.OpRowSum.String():
				words = append(words, "(fold_right Rplus 0)")
			default:
				parameters = " (" + name + " : list R -> R)"
				words = append(words, name)
			}
		}
		fmt.Fprintf(&s, "Definition exact_%s%s := %s.\n", o.name, parameters, strings.Join(words, " "))
	}
	return s.String(), nil
}

var realToken = regexp.MustCompile(`^(?:0x[0-9a-f.]+p[+-]?[0-9]+|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|[a-z]+|[-+*/()])`)

// coqReal returns the Coq term of an expression of [def.ParseReal].
func coqReal(text string) (string, error) {
	var words []string
	for rest := text; rest != ""; {
		token := realToken.FindString(rest)
		if token == "" {
			return "", fmt.Errorf("%s has no Coq term", text)
		}
		rest = strings.TrimLeft(rest[len(token):], " ")
		switch {
		case token == "pi":
			token = "PI"
		case token == "log":
			token = "ln"
		case token == "sqrt" || token == "exp" || !('0' <= token[0] && token[0] <= '9' || 'a' <= token[0] && token[0] <= 'z'):
		default:
			r, ok := new(big.Rat).SetString(token)
			if !ok {
				return "", fmt.Errorf("%s has no Coq term for %s", text, token)
			}
			if whole, digits, isDecimal := strings.Cut(token, "."); isDecimal && !strings.ContainsAny(token, "xe") { // 0.044715 is 44715 / 1000000
				token = fmt.Sprintf("(%s / 1%s)", cmp.Or(strings.TrimLeft(whole+digits, "0"), "0"), strings.Repeat("0", len(digits)))
			} else if token = r.Num().String(); !r.IsInt() {
				token = "(" + token + " / " + r.Denom().String() + ")"
			}
		}
		words = append(words, token)
	}
	return strings.NewReplacer("( ", "(", " )", ")").Replace(strings.Join(words, " ")), nil
}
