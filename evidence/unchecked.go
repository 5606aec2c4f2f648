package evidence

import "fmt"

// Unchecked counts the cases that a budget left out. The cases of level smoke run first, the others
// in an order drawn from the seed. A budget of work is chosen before the run and never leaves out a
// case of level smoke; a budget of time may.
type Unchecked struct {
	Cases         int     `json:"cases"`                    // that were not run, or not to their end
	Smoke         int     `json:"smoke"`                    // of these, those of level smoke
	BudgetSeconds float64 `json:"budget_seconds,omitempty"` // of a budget of time; 0 for a budget of work
}

// LeftUndone says what a budget left undone; "" if nothing.
func (s *Summary) LeftUndone() string {
	u := s.Unchecked
	if u == nil {
		return ""
	}
	if u.BudgetSeconds == 0 {
		return fmt.Sprintf("%s not run of level %s; --level %s runs all", were(u.Cases), s.Level, s.Level)
	}
	text := fmt.Sprintf("%s not run within the budget of %g s", were(u.Cases), u.BudgetSeconds)
	if u.Smoke > 0 {
		text += fmt.Sprintf(", %d of level smoke among them", u.Smoke)
	}
	return text
}

// were formats a number of cases as the subject of a sentence.
func were(cases int) string {
	if cases == 1 {
		return "1 case was"
	}
	return Integer(int64(cases)) + " cases were"
}

// unchecked checks what was left undone.
func (f *faults) unchecked(r *Report) {
	u := r.Unchecked
	f.unless(r.Verdict != Unfinished || u != nil && u.Smoke > 0, "verdict is unfinished, but unchecked has no cases of level smoke")
	if u == nil {
		return
	}
	f.unless(u.Cases > 0 && u.Smoke <= u.Cases, "unchecked: %d cases, %d of level smoke among them, want at least one, and no more of level smoke than all", u.Cases, u.Smoke)
	f.unless(u.BudgetSeconds > 0 || u.BudgetSeconds == 0 && u.Smoke == 0, "unchecked.budget_seconds is %v, want more than 0, or none with all cases of level smoke run", u.BudgetSeconds)
	f.unless(r.Verdict != Accepted || u.Smoke == 0, "accepted, but %d cases of level smoke were not run", u.Smoke)
}
