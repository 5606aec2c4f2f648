package cases

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
)

// Restriction is a condition on one size that a kernel's author declares, such as C % 16 == 0.
type Restriction struct {
	Letter   string
	Modulus  int    // 0: the size itself is compared
	Relation string // ==, !=, <, <=, > or >=
	Value    int
}

// Restrictions are conditions that hold together. A kernel that is declared for some shapes alone is
// run on these: the sizes of cases are rounded up to the next that is allowed, or down if there is
// none, and calls of other shapes, which some checks make, are left out.
type Restrictions []Restriction

var restrictionForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*)\s*(?:%\s*([0-9]{1,9})\s*)?(==|!=|<=|>=|<|>)\s*([0-9]{1,9})$`)

// ParseRestrictions parses conditions such as "C % 16 == 0 and R <= 64"; a comma means and.
func ParseRestrictions(text string) (Restrictions, error) {
	var list Restrictions
	for _, part := range strings.Split(strings.ReplaceAll(text, " and ", ","), ",") {
		m := restrictionForm.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, fmt.Errorf("%q is no condition on a size, want one such as C %% 16 == 0 or R <= 64", strings.TrimSpace(part))
		}
		r := Restriction{Letter: m[1], Relation: m[3]}
		r.Modulus, _ = strconv.Atoi(m[2])
		r.Value, _ = strconv.Atoi(m[4])
		if m[2] != "" && r.Modulus < 1 {
			return nil, fmt.Errorf("%q: the divisor is %d, want at least 1", part, r.Modulus)
		}
		list = append(list, r)
	}
	return list, nil
}

func (r Restriction) String() string {
	if r.Modulus > 0 {
		return fmt.Sprintf("%s %% %d %s %d", r.Letter, r.Modulus, r.Relation, r.Value)
	}
	return fmt.Sprintf("%s %s %d", r.Letter, r.Relation, r.Value)
}

// String returns the conditions as ParseRestrictions takes them.
func (list Restrictions) String() string {
	var parts []string
	for _, r := range list {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, " and ")
}

func (r Restriction) holds(n int) bool {
	if r.Modulus > 0 {
		n %= r.Modulus
	}
	switch r.Relation {
	case "==":
		return n == r.Value
	case "!=":
		return n != r.Value
	case "<":
		return n < r.Value
	case "<=":
		return n <= r.Value
	case ">":
		return n > r.Value
	}
	return n >= r.Value
}

// Allows reports whether a size satisfies all conditions.
func (list Restrictions) Allows(letter string, n int) bool {
	return !slices.ContainsFunc(list, func(r Restriction) bool { return r.Letter == letter && !r.holds(n) })
}

// farthest is how far from a size another one is looked for.
const farthest = 1 << 20

// nearest returns the next size from n on that is allowed, else the last one before it, and false if
// there is none.
func (list Restrictions) nearest(letter string, n int) (int, bool) {
	least, most := list.span(letter, max(1, n-farthest), n+farthest)
	for m := max(n, least); m <= most; m++ {
		if list.Allows(letter, m) {
			return m, true
		}
	}
	for m := min(n-1, most); m >= least; m-- {
		if list.Allows(letter, m) {
			return m, true
		}
	}
	return 0, false
}

// span narrows a range of sizes to what the conditions without a divisor leave of it.
func (list Restrictions) span(letter string, least, most int) (int, int) {
	for _, r := range list {
		if r.Letter != letter || r.Modulus > 0 {
			continue
		}
		switch r.Relation {
		case "==":
			least, most = max(least, r.Value), min(most, r.Value)
		case "<":
			most = min(most, r.Value-1)
		case "<=":
			most = min(most, r.Value)
		case ">":
			least = max(least, r.Value+1)
		case ">=":
			least = max(least, r.Value)
		}
	}
	return least, most
}

// Check returns an error for conditions on sizes that the definition does not have, or
// that no size satisfies.
func (list Restrictions) Check(d *def.Definition) error {
	letters := d.Sizes()
	for _, r := range list {
		if !slices.Contains(letters, r.Letter) {
			return fmt.Errorf("%s: there is no size %s; %s has %s", r, r.Letter, d.Name, strings.Join(letters, ", "))
		}
		if _, ok := list.nearest(r.Letter, 1); !ok {
			return fmt.Errorf("%s: no size %s up to %d satisfies that", list, r.Letter, farthest)
		}
	}
	return nil
}

// Fit changes the sizes of a case to allowed ones. It returns false if there are none.
func (list Restrictions) Fit(c *Case) bool {
	c.Sizes = slices.Clone(c.Sizes)
	for i := range c.Sizes {
		n, ok := list.nearest(c.Sizes[i].Letter, c.Sizes[i].N)
		if !ok {
			return false
		}
		c.Sizes[i].N = n
	}
	return true
}
