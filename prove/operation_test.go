package prove

import (
	"strings"
	"testing"

	"tokitai/def"
)

// TestModelArguments: the arguments of a model have the order of the definition, not that of its
// nodes, so that operands that change places change the model.
func TestModelArguments(t *testing.T) {
	build := func(swap bool) string {
		model, err := Model(def.Must(def.Rowwise("test.blend", func(b *def.Builder) {
			x, y := b.In("x"), b.In("y")
			p := b.Param("p")
			if swap {
				x, y = y, x
			}
			b.Out("z", x.Sqrt().Add(y.Mul(p)))
		})))
		if err != nil {
			t.Fatal(err)
		}
		return model
	}
	straight, swapped := build(false), build(true)
	variables := func(model string) (list []string) {
		for line := range strings.Lines(model) {
			if strings.HasPrefix(line, "Variable ") {
				list = append(list, strings.Fields(line)[1])
			}
		}
		return list
	}
	for _, model := range []string{straight, swapped} {
		if got := strings.Join(variables(model), " "); got != "rnd p x y" {
			t.Errorf("the model is a function of %s, want rnd p x y:\n%s", got, model)
		}
	}
	for _, want := range []string{"rnd (sqrt x)", "rnd (y * p)", "Definition exact_z := out_z (fun z => z)."} {
		if !strings.Contains(straight, want) {
			t.Errorf("no %q in\n%s", want, straight)
		}
	}
	if !strings.Contains(swapped, "rnd (sqrt y)") {
		t.Errorf("no rnd (sqrt y) in\n%s", swapped)
	}
}

// TestNoModel: a definition that models have no words for is refused.
func TestNoModel(t *testing.T) {
	for name, build := range map[string]func(b *def.Builder){
		"two operands of a reduction": func(b *def.Builder) { b.Out("y", b.In("x").Add(def.RowSum(b.In("z")))) },
		"a name that models use":      func(b *def.Builder) { b.Out("y", b.In("x").Neg().As("rnd").Neg()) },
	} {
		if model, err := Model(def.Must(def.Rowwise("test.none", build))); err == nil {
			t.Errorf("%s: a model\n%s", name, model)
		}
	}
}

func TestCoqReal(t *testing.T) {
	for text, want := range map[string]string{
		"2*sqrt(2/pi)*0.044715": "2 * sqrt (2 / PI) * (44715 / 1000000)",
		"log(2)+1.50":           "ln (2) + (150 / 100)",
		"0x1.8p-01":             "(3 / 4)",
		"0.0":                   "(0 / 10)",
	} {
		if got, err := coqReal(text); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"2^3", "tau", "gamma(2)"} {
		if got, err := coqReal(text); err == nil {
			t.Errorf("%s: got %q, want an error", text, got)
		}
	}
}
