package jinja

import (
	"fmt"
	"strings"
	"time"
)

// layouts has the supported directives of strftime in the locale C, as package time writes them.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006",
}

func strftime(t time.Time, layout string) (Value, error) {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			b.WriteByte(layout[i])
			continue
		}
		i++
		switch {
		case i < len(layout) && layout[i] == '%':
			b.WriteByte('%')
		case i < len(layout) && layouts[layout[i]] != "":
			b.WriteString(t.Format(layouts[layout[i]]))
		default:
			return nil, fmt.Errorf("strftime_now with %q is not supported", layout)
		}
	}
	return b.String(), nil
}
