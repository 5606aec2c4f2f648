package prove

import (
	"fmt"
	"strings"

	_ "embed"

	"tokitai/def"
)

//go:embed sigmoid.v.tmpl
var sigmoidText string

var sigmoidTemplate = lazily("sigmoid", sigmoidText)

// sigmoidPattern leaves open what e and y are: the proof compares them with the exponential and
// the reciprocal, node by node.
const sigmoidPattern = `result = select(nonnegative, y, product)
nonnegative = lesseq(0, x)
product = mul(e, y)`

func sigmoidScript(f *def.Function, symbol string) (string, error) {
	e := expand(f)
	p, err := e.match(sigmoidPattern)
	if err != nil {
		return "", fmt.Errorf("function %s: its expansion is not that of the sigmoid: %w", f.Name, err)
	}
	nodes, err := e.definitions(f.Name + "_f32")
	if err != nil {
		return "", fmt.Errorf("function %s: %w", f.Name, err)
	}
	var s strings.Builder
	err = sigmoidTemplate().Execute(&s, map[string]any{"Name": f.Name, "Hash": Hash(f), "Text": f.Text(), "Symbol": symbol, "Nodes": nodes, "N": p.names(e),
		"Above": "2.07", "Below": "4.92"})
	return s.String(), err
}
