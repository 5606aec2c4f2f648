package prove

import (
	"fmt"
	"strings"

	_ "embed"

	"tokitai/def"
)

//go:embed rsqrt.v.tmpl
var rsqrtText string

var rsqrtTemplate = lazily("rsqrt", rsqrtText)

const rsqrtPattern = `y = div(1, root)
root = sqrt(x)`

func rsqrtScript(f *def.Function, symbol string) (string, error) {
	e := expand(f)
	p, err := e.match(rsqrtPattern)
	if err != nil {
		return "", fmt.Errorf("function %s: its expansion is not a division after a square root: %w", f.Name, err)
	}
	nodes, err := e.definitions(f.Name + "_f32")
	if err != nil {
		return "", fmt.Errorf("function %s: %w", f.Name, err)
	}
	var s strings.Builder
	err = rsqrtTemplate().Execute(&s, map[string]any{"Name": f.Name, "Hash": Hash(f), "Text": f.Text(), "Symbol": symbol, "Nodes": nodes, "N": p.names(e)})
	return s.String(), err
}
