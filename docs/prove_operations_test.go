package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/op/all"
	proving "tokitai/prove"
)

// modelled are the definitions whose models the theorems are about.
var modelled = []string{"softmax.forward", "gelu.forward", "gelu.backward", "adamw.step", "adamw.step.master", "adamw.step.stochastic"}

func definitionNamed(t *testing.T, name string) *def.Definition {
	t.Helper()
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return d
			}
		}
	}
	t.Fatalf("no operation has the definition %s", name)
	return nil
}

// modelFiles returns the files of proofs/operations.
func modelFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	var calling []*def.Definition
	for _, name := range modelled {
		d := definitionNamed(t, name)
		text, err := proving.Model(d)
		if err != nil {
			t.Fatal(err)
		}
		files[proving.ModelName(d)+".v"] = text
		if strings.Contains(d.Text(), "\nfunction ") {
			calling = append(calling, d)
		}
	}
	text, err := proving.Computed(calling)
	if err != nil {
		t.Fatal(err)
	}
	files["computed.v"] = text
	return files
}

// TestProveOperations: the files in proofs/operations are those that the definitions give.
func TestProveOperations(t *testing.T) {
	files := modelFiles(t)
	const folder = "../proofs/operations"
	for name, text := range files {
		path := filepath.Join(folder, name)
		if *update {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != text {
			t.Errorf("%s is not what the definition gives (%v); go test ./docs -run ProveOperations -update writes it", path, err)
		}
	}
	there, err := filepath.Glob(folder + "/*.v")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if _, ok := files[filepath.Base(path)]; !ok {
			t.Errorf("no definition gives %s", path)
		}
	}
}

// TestProveChangedOperations changes definitions, and sees their models leave the forms that the
// theorems are about: proofs/Models.v does not hold any more.
func TestProveChangedOperations(t *testing.T) {
	t.Parallel()
	proofs := testlevel.Pick(0, 6, 20) // how many of them Coq sees
	if proofs > 0 {
		tool.Need(t, "coqc")
		tool.Need(t, "make")
		tool.Need(t, "bash")
	}
	folder := copyOfProofs(t, "Models.v") // one for all: what stays the same is compiled once
	operations := filepath.Join(folder, "proofs", "operations")
	if err := os.MkdirAll(operations, 0o755); err != nil {
		t.Fatal(err)
	}
	files := modelFiles(t)
	delete(files, "computed.v")
	for i, test := range []struct{ definition, old, new string }{
		{"gelu.forward", "min(t2, 11)", "min(t2, 12)"},
		{"softmax.forward", "div(1, sum)", "div(2, sum)"},
		{"adamw.step", "mul(t4, grad)", "mul(t4, m)"},
		{"adamw.step.stochastic", "mul(decay, weight)", "mul(eps, weight)"},
		{"gelu.backward", "6*sqrt(2/pi)*0.044715", "6*sqrt(2/pi)*0.044716"},
		{}, // nothing is changed

		{"gelu.forward", "{2*sqrt(2/pi)})", "{2*sqrt(2/pi)+0.000001})"},
		{"gelu.forward", "exp_bounded(t4)", "exp_bounded(t)"},
		{"softmax.forward", "sub(x, max)", "sub(max, x)"},
		{"softmax.forward", "rowmax(x)", "rowsum(x)"},
		{"adamw.step", "add(t7, eps)", "add(t6, eps)"},
		{"adamw.step", "sub(weight, t11)", "sub(weight, t9)"},
		{"adamw.step.master", "div(new_m, d)", "div(m, d)"},
	} {
		for name, text := range files {
			write(t, filepath.Join(operations, name), text)
		}
		want := 0
		if test.definition != "" {
			want = 1
			text := definitionNamed(t, test.definition).Text()
			if n := strings.Count(text, test.old); n != 1 {
				t.Fatalf("the text of %s has %d times %q, want once", test.definition, n, test.old)
			}
			changed, err := def.Parse(strings.Replace(text, test.old, test.new, 1))
			if err != nil {
				t.Fatal(err)
			}
			model, err := proving.Model(changed)
			if err != nil {
				t.Fatal(err)
			}
			name := proving.ModelName(changed) + ".v"
			if withoutComments(model) == withoutComments(files[name]) {
				t.Errorf("%v: the model stays the same", test)
			}
			write(t, filepath.Join(operations, name), model)
		}
		if i >= proofs {
			continue
		}
		output, status := prove(t, folder)
		if status != want || want == 1 && !strings.Contains(output, "proofs/Models.v does not hold") {
			t.Errorf("%v: status %d, want %d and that proofs/Models.v does not hold:\n%s", test, status, want, output)
		}
	}
}

func withoutComments(coq string) string {
	return regexp.MustCompile(`(?s)\(\*.*?\*\)`).ReplaceAllString(coq, "")
}

// TestProofsOfModels writes the list of theorems that are about models made from nodes: those whose
// statements name one.
func TestProofsOfModels(t *testing.T) {
	var list strings.Builder
	for _, th := range theoriesOf(t, "../proofs") {
		for _, x := range th.theorems {
			var about []string
			for _, name := range modelled {
				model := proving.ModelName(definitionNamed(t, name))
				if strings.Contains(x.statement, model+".") || strings.Contains(x.statement, "computed."+model+"_") {
					about = append(about, name)
				}
			}
			if len(about) > 0 {
				fmt.Fprintf(&list, "- [%s](#%s), of %s\n", x.name, strings.ToLower(strings.ReplaceAll(x.name, ".", "")), strings.Join(about, ", "))
			}
			for _, name := range about { // a theorem about a model says so
				if d := definitionNamed(t, name); !strings.Contains(cmp.Or(x.speaks, th.speaks), d.Name+" "+d.Hash()) {
					t.Errorf("%s is about the model of %s and does not speak of it", x.name, name)
				}
			}
		}
	}
	hold(t, "proofs.md", "modelled theorems", list.String())
}
