package cases

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
)

// Shape is a length for each letter of a definition.
type Shape map[string]int

// ParseShape parses a shape such as R=5,C=4096.
func ParseShape(text string) (Shape, error) {
	s := Shape{}
	for _, part := range strings.Split(text, ",") {
		letter, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(number)
		switch {
		case !ok || letter == "":
			return nil, fmt.Errorf("shape %q: %q is no size, want letter=length, such as R=5,C=4096", text, part)
		case err != nil || n < 1 || n > maxCaseElements:
			return nil, fmt.Errorf("shape %q: %s is %q, want 1 to %d", text, letter, number, maxCaseElements)
		case s[letter] != 0:
			return nil, fmt.Errorf("shape %q: size %s is given twice", text, letter)
		}
		s[letter] = n
	}
	return s, nil
}

// String returns the shape as ParseShape takes it, letters in order.
func (s Shape) String() string {
	var parts []string
	for _, letter := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, fmt.Sprintf("%s=%d", letter, s[letter]))
	}
	return strings.Join(parts, ",")
}

// Check returns an error unless a shape gives every letter of a definition
// a length of at least 1, and no other letter.
func (s Shape) Check(d *def.Definition) error {
	letters := d.Sizes()
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("shape %s: %s; %s has %s", s, fmt.Sprintf(format, args...), d.Name, strings.Join(letters, ", "))
	}
	for _, letter := range slices.Sorted(maps.Keys(s)) {
		switch {
		case !slices.Contains(letters, letter):
			return refuse("there is no size %s", letter)
		case s[letter] < 1:
			return refuse("%s is %d, want at least 1", letter, s[letter])
		}
		if err := d.CheckSize(letter, s[letter]); err != nil {
			return refuse("%v", err)
		}
	}
	for _, letter := range letters {
		if s[letter] == 0 {
			return refuse("size %s is missing", letter)
		}
	}
	for _, o := range d.Operands {
		if rows, cols := o.Matrix(s); int64(rows) > maxCaseElements/int64(cols) {
			return refuse("%s would have %d×%d elements", o.Name, rows, cols)
		}
	}
	return nil
}
