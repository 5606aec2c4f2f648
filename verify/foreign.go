package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/verify/cases"
	"tokitai/verify/origin"
)

// Kernels that were written elsewhere run in processes of their own. They may refuse calls, return
// values that are not outputs, and remember earlier calls.

// fresh runs the kernel again in a new process: results must not depend on earlier calls.
func fresh(x *trialRun) (int64, *finding, error) {
	x.s.bench.trial.Renew()
	return x.again(x.l, evidence.Invariance, "in a fresh process", x.same())
}

// noOutput returns the finding that the kernel returned something other than an output.
func noOutput(t *Target, err *engine.OutputError) *finding {
	return &finding{Tier: evidence.Structure, Operand: t.Definition.Operand(err.Operand), Row: -1, Message: origin.FirstLine(err.Cause.Error())}
}

// dueRefusal is the error of a kernel that rightly refuses a call, because an index is out of range.
// A kernel that skips such indices is right as well.
type dueRefusal struct{ cause error }

func (e *dueRefusal) Error() string { return e.cause.Error() }
func (e *dueRefusal) Unwrap() error { return e.cause }

// meaning interprets the error of a launch, given the call's formats and indices: a refusal may be
// due, or an output may have another of the definition's formats.
func (l *loaded) meaning(err error) error {
	if wrong, ok := errors.AsType[*engine.OutputError](err); ok && l.isAnotherChoice(wrong) {
		return &engine.UnsuitedError{Lowering: l.target.ID(), Cause: wrong.Cause, IsRefused: true}
	}
	unsuited, isUnsuited := errors.AsType[*engine.UnsuitedError](err)
	_, isRaised := errors.AsType[*engine.RaisedError](err)
	if !isRaised && (!isUnsuited || !unsuited.IsRefused) {
		return err
	}
	switch bad := engine.CheckIndices(l.target.Definition, l.inputs(), l.params); {
	case bad != nil:
		return &dueRefusal{err}
	case isUnsuited && unsuited.Index != "":
		return &engine.OutputError{Operand: unsuited.Index, Cause: fmt.Errorf("it refuses a good call, in which every index is in its table: %w", unsuited.Cause)}
	}
	return err
}

// isAnotherChoice reports whether an output has another format that the definition allows for the
// same inputs. A kernel that returns its outputs does not know which format is wanted: it computes
// one of them, and the others are left out.
func (l *loaded) isAnotherChoice(wrong *engine.OutputError) bool {
	d := l.target.Definition
	k := d.Operand(wrong.Operand)
	if k < 0 || wrong.Format == "" {
		return false
	}
	return slices.ContainsFunc(l.target.formats(), func(formats []num.DType) bool {
		for i := range d.Operands {
			if d.Operands[i].IsIn && formats[i] != l.c.Formats[i] {
				return false
			}
		}
		return formats[k].String() == wrong.Format
	})
}

// refusedCalls returns how many calls the kernel refused that its definition refuses.
func (s *verification) refusedCalls() (n int64) {
	for i := range s.done {
		n += s.done[i].Refused
	}
	return n
}

// refusals are the cases that a kernel refused, by the formats of their operands.
type refusals map[string]*refusal

type refusal struct {
	cases int
	first string // with the kernel's words
}

func (r *refusals) count(t *Target, c *cases.Case, err *engine.UnsuitedError) {
	if !err.IsRefused {
		return
	}
	if *r == nil {
		*r = refusals{}
	}
	formats := formatText(t.Definition, c.Formats)
	if (*r)[formats] == nil {
		(*r)[formats] = &refusal{first: fmt.Sprintf("%s: %s", c.Name(t.Cases()), origin.FirstLine(err.Cause.Error()))}
	}
	(*r)[formats].cases++
}

// reason says why a kernel that refused calls is not accepted: it must compute formats in all cases
// or in none. It returns "" if there is no such reason.
func (r refusals) reason(s *verification) string {
	if len(r) == 0 {
		return ""
	}
	for _, done := range s.done {
		c, err := s.t.Cases().Parse(done.Name)
		if err != nil {
			continue
		}
		if x := r[formatText(s.t.Definition, c.Formats)]; x != nil {
			return fmt.Sprintf("the kernel refused %d of %d cases, the first of them %s; if it is made for some shapes alone, declare them, as in --shapes 'C %% 16 == 0'", x.cases, s.total, x.first)
		}
	}
	return ""
}

// setOrigin reports where a kernel that was written elsewhere comes from.
func (s *verification) setOrigin(r *evidence.Report) {
	origin := s.t.Lowering.Origin
	if origin == nil {
		return
	}
	if r.Fingerprints[2].SHA256 == "" { // no compiler of ours has seen it
		r.Toolchain = evidence.Toolchain{}
		r.Fingerprints[2].Note = "the kernel was compiled elsewhere, if at all"
		r.Fingerprints[3].Note = "the kernel is no part of the program"
	}
	if f := &r.Fingerprints[1]; f.SHA256 == "" {
		f.Note = strings.ReplaceAll(origin(), "\n", " ")
	}
}
