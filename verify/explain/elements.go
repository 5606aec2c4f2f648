package explain

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// includes reports whether an element meets a rule.
func (r *rule) includes(row, col int) bool {
	for _, c := range r.conditions {
		if !c.element(row, col) {
			return false
		}
	}
	return true
}

// sample returns the elements in which a rule is searched for: all of a small array, otherwise some
// rows by some columns that include wrong elements.
func sample(a num.Array, wrong []bool) []trial.Place {
	const most = 128 // rows, columns
	lines := func(n int, isWrong []bool) []int {
		if n <= most {
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			return all
		}
		var bad, good []int
		for i, is := range isWrong {
			if is {
				bad = append(bad, i)
			} else {
				good = append(good, i)
			}
		}
		chosen := []int{0, 1, n - 2, n - 1}
		for _, list := range [][]int{bad, good} {
			for k := range min(len(list), most/2) {
				chosen = append(chosen, list[k*len(list)/min(len(list), most/2)])
			}
			if len(list) > 0 { // where they end
				chosen = append(chosen, list[0], list[len(list)-1])
			}
		}
		slices.Sort(chosen)
		return slices.Compact(chosen)
	}
	badRows, badCols := make([]bool, a.Rows), make([]bool, a.Cols)
	for i, is := range wrong {
		if is {
			badRows[i/a.Cols], badCols[i%a.Cols] = true, true
		}
	}
	var at []trial.Place
	for _, row := range lines(a.Rows, badRows) {
		for _, col := range lines(a.Cols, badCols) {
			at = append(at, trial.Place{Row: row, Col: col})
		}
	}
	return at
}

// elementConditions returns the properties of elements that follow from their places.
func elementConditions(o *def.Operand, a num.Array, at []trial.Place, fails []bool) []*condition {
	var list []*condition
	add := func(cost int, holds func(row, col int) bool, format string, args ...any) {
		c := &condition{text: fmt.Sprintf(format, args...), cost: cost, holds: make([]bool, len(at)), element: holds}
		for i, p := range at {
			c.holds[i] = holds(p.Row, p.Col)
		}
		if !c.isTrivial() {
			list = append(list, c)
		}
	}
	axis := func(name string, n int, of func(row, col int) int) {
		if n == 1 {
			return
		}
		least, most := n, -1
		for i, p := range at {
			if fails[i] {
				least, most = min(least, of(p.Row, p.Col)), max(most, of(p.Row, p.Col))
			}
		}
		add(1, func(r, c int) bool { return of(r, c) == n-1 }, "the last %s, %d", name, n-1)
		if least == most {
			add(2, func(r, c int) bool { return of(r, c) == least }, "%s %d", name, least)
		}
		add(2, func(r, c int) bool { return of(r, c) >= least }, "%s ≥ %d", name, least)
		add(2, func(r, c int) bool { return of(r, c) <= most }, "%s ≤ %d", name, most)
		if 0 < least && least < most && most < n-1 {
			add(3, func(r, c int) bool { return least <= of(r, c) && of(r, c) <= most }, "%s from %d to %d", name, least, most)
		}
		for m := 2; m <= 1024 && m < n; m *= 2 {
			residue := -1
			for i, p := range at {
				switch x := of(p.Row, p.Col) % m; {
				case !fails[i]:
				case residue < 0:
					residue = x
				case residue != x:
					residue = m
				}
			}
			if residue < m {
				add(3, func(r, c int) bool { return of(r, c)%m == residue }, "every %s %s from %d on", Ordinal(m), name, residue)
			}
			add(4, func(r, c int) bool { return of(r, c) >= n/m*m }, "%s ≥ %d, after the last multiple of %d", name, n/m*m, m)
		}
	}
	if len(o.Dims) < 2 {
		axis("element", max(a.Rows, a.Cols), func(r, c int) int { return max(r, c) })
		return list
	}
	axis("row", a.Rows, func(r, _ int) int { return r })
	axis("column", a.Cols, func(_, c int) int { return c })
	if a.Rows > 1 && a.Cols > 1 {
		add(3, func(r, c int) bool { return r == c }, "the diagonal")
		add(4, func(r, c int) bool { return c > r }, "above the diagonal")
		add(4, func(r, c int) bool { return c < r }, "below the diagonal")
	}
	return list
}

// mostNamed is how many wrong elements are listed where no single condition tells them from the others: a rule of two conditions
// says more than so few elements do.
const mostNamed = 4

// Where says which elements of an output are wrong, given their places in an array of it and a function that names an
// element. It returns "" if there is only one element.
func Where(o *def.Operand, a num.Array, places []trial.Place, name func(row, col int) string) string {
	wrong := make([]bool, a.Rows*a.Cols)
	for _, p := range places {
		wrong[p.Row*a.Cols+p.Col] = true
	}
	n, total := count(wrong), a.Rows*a.Cols
	switch {
	case total == 1 || n == 0:
		return ""
	case n == total:
		return fmt.Sprintf("all %d elements of %s", total, o.Name)
	case n == 1:
		return named(a, wrong, name)
	}
	at := sample(a, wrong)
	fails := make([]bool, len(at))
	for i, p := range at {
		fails[i] = wrong[p.Row*a.Cols+p.Col]
	}
	r := separate(fails, elementConditions(o, a, at, fails))
	if n <= mostNamed && (r == nil || r.passing > 0 || len(r.conditions) > 1) {
		return named(a, wrong, name)
	}
	if r != nil && 2*r.passing <= len(at)-r.failing && r.share() <= mostPassing {
		failing, passing := 0, 0 // among all elements, not the sample
		for row := range a.Rows {
			for col := range a.Cols {
				switch {
				case !r.includes(row, col):
				case wrong[row*a.Cols+col]:
					failing++
				default:
					passing++
				}
			}
		}
		switch {
		case failing < n: // the sample was not enough
		case passing == 0:
			return fmt.Sprintf("%s: all %d such elements of %s, and none of the %d others", r.text(), n, o.Name, total-n)
		default:
			return fmt.Sprintf("%s: %d of %d such elements of %s, and none of the %d others", r.text(), n, n+passing, o.Name, total-n-passing)
		}
	}
	rows, cols := map[int]bool{}, map[int]bool{}
	for _, p := range places {
		rows[p.Row], cols[p.Col] = true, true
	}
	if a.Rows == 1 || a.Cols == 1 {
		return fmt.Sprintf("%d of %d elements of %s", n, total, o.Name)
	}
	return fmt.Sprintf("%d of %d elements of %s, in %d of %d rows and %d of %d columns", n, total, o.Name, len(rows), a.Rows, len(cols), a.Cols)
}

// named lists the wrong elements of an array.
func named(a num.Array, wrong []bool, name func(row, col int) string) string {
	var list []string
	for i, is := range wrong {
		if is {
			list = append(list, name(i/a.Cols, i%a.Cols))
		}
	}
	text := list[0]
	if last := len(list) - 1; last > 0 {
		text = strings.Join(list[:last], ", ") + " and " + list[last]
	}
	return fmt.Sprintf("%s alone, of %d elements", text, len(wrong))
}

// Ordinal returns 2nd, 3rd, 4th.
func Ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
