package def

import (
	"regexp"
	"slices"
	"testing"
)

// Every name that is known from elsewhere is unknown here, and what stands for it is not.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for name, instead := range elsewhere {
		if _, isNode := constructors[name]; isNode {
			t.Errorf("%s is a node: nobody is sent elsewhere", name)
		}
		for _, call := range regexp.MustCompile(`([a-z0-9]+)\(`).FindAllStringSubmatch(instead, -1) {
			_, isNode := constructors[call[1]]
			isFunction := slices.Contains([]string{"exp", "log", "log1p", "sigmoid"}, call[1])
			if !isNode && !isFunction {
				t.Errorf("%s: %s is neither a node nor a function", name, call[1])
			}
		}
	}
}
