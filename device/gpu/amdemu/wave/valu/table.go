package valu

import "strings"

// tables has the operations of each family by name.
var tables [2]map[string]*Op

func trimDual(name string) string {
	if rest, ok := strings.CutPrefix(name, "v_dual_"); ok {
		return "v_" + rest
	}
	return name
}
