// Package folds searches the code of AMD kernels for instructions that give other results
// than the source: a compiler may fold operations into one instruction that rounds once
// instead of twice, loses the sign of a zero or drops a NaN, and may approximate what the
// source computes exactly.
//
// What it reports is never right in code that was compiled from lower/gpu's dialect of C++.
// Fused multiply-adds, reciprocals and square roots can be right or wrong there: the tests of
// lower/gpu/compiletest mark those of the source and search for others.
//
// Start with Check, for code objects, or with Find, for assembly as text, from clang -S or
// from a disassembler.
package folds

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync"
)

// Fold is an instruction that gives another result than the source, or a directive that
// makes all of a kernel's instructions do so.
type Fold struct {
	Kernel string // the function's label, if one precedes it
	Line   int    // of the text, from 1 on
	Text   string
	Why    string
}

func (f Fold) String() string {
	return fmt.Sprintf("%s, line %d: %s: %s", f.Kernel, f.Line, f.Text, f.Why)
}

// Find returns the folds in the assembly of kernels.
func Find(assembly string) []Fold {
	var found []Fold
	for i := range Instructions(assembly) {
		if why := i.Why(); why != "" {
			found = append(found, Fold{Kernel: i.Kernel, Line: i.Line, Text: i.Text, Why: why})
		}
	}
	for number, line := range numbered(assembly) {
		if m := modeDirective.FindStringSubmatch(line); m != nil && m[2] != modes[m[1]].want {
			found = append(found, Fold{Line: number, Text: strings.TrimSpace(line), Why: modes[m[1]].why})
		}
	}
	return found
}

var modeDirective = regexp.MustCompile(`^\s*\.amdhsa_float_(\w+) (\d+)`)

// modes lists the modes that a kernel's descriptor sets.
var modes = map[string]struct{ want, why string }{
	"round_mode_32":     {"0", "results are not rounded to nearest"},
	"round_mode_16_64":  {"0", "results are not rounded to nearest"},
	"denorm_mode_32":    {"3", "subnormal numbers are flushed to zero"},
	"denorm_mode_16_64": {"3", "subnormal numbers of binary16 and binary64 are flushed to zero"},
}

// Instruction is one instruction of the text, or one half of a pair of them.
type Instruction struct {
	Kernel   string
	Line     int
	Text     string
	Name     string   // without the suffix of an encoding and without "dual_"
	Operands []string // the result first
	Options  string   // after the operands: "op_sel_hi:[0,0,0] clamp"
	IsAsm    bool     // from an asm statement of the source
}

// numbered returns the lines of a text with their numbers.
func numbered(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.SplitSeq(text, "\n") {
			if number++; !yield(number, line) {
				return
			}
		}
	}
}

var (
	label       = regexp.MustCompile(`^(?:[0-9a-f]+ )?<?([A-Za-z_]\w*)>?:`)
	instruction = regexp.MustCompile(`^\s+([vs]_[a-z0-9_]+)(?:\s+(.*))?$`)
	suffix      = regexp.MustCompile(`_(e32|e64|dpp|sdwa|e64_dpp)$`)
	options     = regexp.MustCompile(` (clamp|mul:|div:|op_sel|neg_|dst_sel|src0_sel|quad_perm|row_|bound_ctrl|dpp8)`)
)

// Instructions returns the scalar and vector instructions of assembly, in order. The halves
// of a pair are two.
func Instructions(assembly string) iter.Seq[Instruction] {
	return func(yield func(Instruction) bool) {
		kernel, isAsm := "", false
		for number, line := range numbered(assembly) {
			switch strings.TrimSpace(line) {
			case ";;#ASMSTART", ";APP":
				isAsm = true
			case ";;#ASMEND", ";NO_APP":
				isAsm = false
			}
			if m := label.FindStringSubmatch(line); m != nil {
				kernel = m[1]
				continue
			}
			text, _, _ := strings.Cut(line, ";")
			text, _, _ = strings.Cut(text, "//")
			first, second, isPair := strings.Cut(text, " :: ")
			halves := []string{first, " " + second}
			if !isPair {
				halves = halves[:1]
			}
			for _, half := range halves {
				m := instruction.FindStringSubmatch(strings.TrimRight(half, " \t"))
				if m == nil {
					continue
				}
				i := Instruction{Kernel: kernel, Line: number, Text: strings.TrimSpace(text), IsAsm: isAsm}
				i.Name = suffix.ReplaceAllString(strings.Replace(m[1], "_dual_", "_", 1), "")
				operands := m[2]
				if at := options.FindStringIndex(operands); at != nil {
					operands, i.Options = operands[:at[0]], operands[at[0]+1:]
				}
				if operands != "" {
					i.Operands = strings.Split(operands, ", ")
				}
				if !yield(i) {
					return
				}
			}
		}
	}
}

// rule describes instructions that give other results.
type rule struct {
	names *regexp.Regexp
	why   string
	holds func(i *Instruction) bool // nil: always
}

var rules = []rule{
	{regexp.MustCompile(`^v_(fma|mad)_mix(lo|hi)_`), "a product is rounded to a narrow format at once, and −0 becomes +0", nil},
	{regexp.MustCompile(`^v_(pk_)?(mad|mac|madak|madmk|mad_mix)_f(16|32)$`), "subnormal numbers are flushed to zero", nil},
	{regexp.MustCompile(`^v_\w+_(legacy|dx9_zero)_f(16|32)$`), "products by zero are zero, for infinities and NaN too", nil},
	{regexp.MustCompile(`^v_(pk_)?(fma|fmac|fmaak|fmamk)_f16$`), "a fused multiply-add is rounded to binary16 at once", nil},
	{regexp.MustCompile(`^v_dot\w*_(f16|bf16|f32)(_\w+)?$`), "a sum of products is not rounded product by product", nil},
	{regexp.MustCompile(`^v_(s_)?(exp|log|sin|cos|rsq|rsq_clamp|rcp_clamp)_f(16|32|64)$`), "the result is an approximation", nil},
	{regexp.MustCompile(`^v_(s_)?(rcp|sqrt)_f(16|64)$`), "the result is an approximation", nil},
	{regexp.MustCompile(`^v_div_(scale|fmas)_f(16|32|64)$`), "a quotient depends on how the hardware approximates a reciprocal", nil},
	{regexp.MustCompile(`^[vs]_(pk_)?(min|max)(_num)?_f(16|32|64)$`), "the larger or smaller of a number and NaN is the number", func(i *Instruction) bool {
		return len(i.Operands) != 3 || i.Operands[1] != i.Operands[2] // x and x: NaN stays NaN
	}},
	{regexp.MustCompile(`^v_(pk_)?(min3|max3|med3|minmax|maxmin)(_num)?_f(16|32)$`), "the larger or smaller of a number and NaN is the number", nil},
	{regexp.MustCompile(`^v_fract_f(16|32|64)$`), "the result is clamped below 1", nil},
	{regexp.MustCompile(`^[vs]_cvt_pk_?(rtz|norm_[iu]16|_norm_[iu]16)`), "a conversion does not round to nearest", nil},
	{regexp.MustCompile(`^v_\w*f(16|32|64)\b`), "the result is scaled, and subnormal numbers are flushed", func(i *Instruction) bool {
		return strings.Contains(i.Options, "mul:") || strings.Contains(i.Options, "div:")
	}},
	{regexp.MustCompile(`^v_\w*f(16|32|64)\b`), "the result is clamped to [0, 1], NaN to 0", func(i *Instruction) bool {
		return strings.Contains(i.Options, "clamp")
	}},
	{regexp.MustCompile(`^s_(denorm_mode|round_mode)$`), "the kernel changes how it rounds", nil},
	{regexp.MustCompile(`^s_setreg(_imm32)?_b32$`), "the kernel changes how it rounds", func(i *Instruction) bool {
		return len(i.Operands) == 0 || strings.Contains(i.Operands[0], "MODE") && !strings.Contains(i.Operands[0], "SCHED")
	}},
}

// rulesByName holds the rules for each name that has been met: few names have any.
var rulesByName sync.Map

// rulesFor returns the rules for instructions with a name.
func rulesFor(name string) []rule {
	if list, ok := rulesByName.Load(name); ok {
		return list.([]rule)
	}
	var list []rule
	for _, r := range rules {
		if r.names.MatchString(name) {
			list = append(list, r)
		}
	}
	rulesByName.Store(name, list)
	return list
}

// Why says how the instruction's result differs from the source's. It is empty if it does not.
func (i *Instruction) Why() string {
	for _, r := range rulesFor(i.Name) {
		if r.holds == nil || r.holds(i) {
			return r.why
		}
	}
	return ""
}
