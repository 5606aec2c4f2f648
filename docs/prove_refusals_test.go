package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// TestProveRefuses plants files that prove nothing among the proofs, and sees scripts/prove refuse
// each of them, by name.
func TestProveRefuses(t *testing.T) {
	tool.Need(t, "coqc")
	tool.Need(t, "make")
	tool.Need(t, "bash")
	t.Parallel()
	const use = "Theorem easy : 1 = 2.\nProof. exact %s. Qed.\n"
	theorem := func(from string) string { return strings.Replace(use, "%s", from, 1) }
	for i, test := range []struct {
		name  string
		files map[string]string // by their names below proofs
		want  []string
	}{
		{"an axiom in a file that is named like an allowed one", map[string]string{
			"sub/Uint63.v": "Variable magic : 1 = 2.\n" + theorem("magic"),
		}, []string{"easy assumes Tokitai.sub.Uint63.magic, which proofs/axioms.txt does not allow"}},

		{"axioms", map[string]string{
			"sub/Uint63.v":                   "Variable magic : 1 = 2.\n" + theorem("magic"),
			"sub/deep/PrimInt63.v":           "Hypothesis magic : 1 = 2.\n" + theorem("magic"),
			"sub/Classical_Prop.v":           "Variable classic : 1 = 2.\n" + theorem("classic"), // an axiom's own name
			"ClassicalDedekindReals.v":       "Context (sig_not_dec : 1 = 2).\n" + theorem("sig_not_dec"),
			"Inside.v":                       "Module Coq. Module Logic. Module Classical_Prop.\nVariable classic : 1 = 2.\nEnd Classical_Prop. End Logic. End Coq.\n" + theorem("Coq.Logic.Classical_Prop.classic"),
			"Far.v":                          "From Tokitai Require sub.Uint63.\n" + theorem("sub.Uint63.magic"),
			"sub/FunctionalExtensionality.v": "From Coq Require FunctionalExtensionality.\nVariable functional_extensionality_dep : 1 = 2.\n" + theorem("functional_extensionality_dep"), // beside the allowed one
			"Loops.v":                        "Unset Guard (* *) Checking.\nFixpoint f (n : nat) : False := f n.\nTheorem easy : 1 = 2.\nProof. destruct (f 0). Qed.\n",
			"Large.v":                        "Unset Universe (* *) Checking.\nInductive box : Set := put (x : Set).\nTheorem easy : exists x, x = put box.\nProof. now exists (put box). Qed.\n",
			"Negative.v":                     "Unset Positivity (* *) Checking.\nInductive d := c (f : d -> False).\nDefinition no (x : d) : False := match x with c f => f x end.\nTheorem easy : 1 = 2.\nProof. destruct (no (c no)). Qed.\n",
			"Right.v":                        "Theorem right : 1 = 1.\nProof. reflexivity. Qed.\n",
			"sub/RightToo.v":                 "From Coq Require Import Classical.\nTheorem right_too : forall P : Prop, P \\/ ~ P.\nProof. exact classic. Qed.\n",
		}, []string{
			"easy assumes Tokitai.sub.Uint63.magic, which proofs/axioms.txt does not allow",
			"easy assumes Tokitai.sub.deep.PrimInt63.magic,",
			"easy assumes Tokitai.sub.Classical_Prop.classic,",
			"easy assumes Tokitai.ClassicalDedekindReals.sig_not_dec,",
			"easy assumes Tokitai.Inside.Coq.Logic.Classical_Prop.classic,",
			"easy assumes Tokitai.sub.FunctionalExtensionality.functional_extensionality_dep,",
			"easy is not checked: Loops.f is assumed to be guarded",
			"easy is not checked: Large.box relies on an unsafe hierarchy",
			"easy is not checked: Negative.d is assumed to be positive",
		}},

		{"premises of sections", map[string]string{
			"Variables.v":  "Section S.\nVariable magic : 1 = 2.\n" + theorem("magic") + "End S.\n",
			"Hypotheses.v": "Section S.\n  Hypothesis magic : 1 = 2.\n  " + theorem("magic") + "End S.\n",
			"Contexts.v":   "Section S.\nContext (A : Type) {magic : 1 = 2}.\n" + theorem("magic") + "End S.\n",
			"Right.v":      "Section S.\nVariable n : nat.\nTheorem right : n = n.\nProof. reflexivity. Qed.\nEnd S.\n",
		}, []string{
			"proofs/Variables.v: a theorem stands after a premise of its section",
			"proofs/Hypotheses.v: a theorem stands after a premise of its section",
			"proofs/Contexts.v: a theorem stands after a premise of its section",
			"the section assumes magic",
		}},

		{"words", map[string]string{
			"Admits.v":        "Theorem easy : 1 = 2.\nProof. Admitted.\n",
			"Axioms.v":        "Axiom magic : 1 = 2.\n" + theorem("magic"),
			"sub/Uint63.v":    "Parameter magic : 1 = 2.\n" + theorem("magic"),
			"sub/Modules.v":   "Module Type T.\nConjecture magic : 1 = 2.\nEnd T.\n",
			"Loops.v":         "Unset\n  Guard\n  Checking.\n",
			"Attributes.v":    "#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n.\n",
			"Large.v":         "Unset Universe  Checking.\n",
			"Hierarchy.v":     "Set Type In Type.\n",
			"sub/deep/Code.v": "Declare ML Module \"magic\".\n",
		}, []string{"Admits.v:2:", "Axioms.v:1:", "sub/Uint63.v:1:", "sub/Modules.v:2:", "Loops.v: Guard Checking", "Attributes.v:1:", "Large.v: Universe Checking", "Hierarchy.v:1:",
			"sub/deep/Code.v:1:", "these lines leave something unproved"}},

		{"options", map[string]string{
			"Right.v":     "Theorem right : 1 = 1.\nProof. reflexivity. Qed.\n",
			"_CoqProject": "-Q . Tokitai\n-type-in-type\n",
		}, []string{"proofs/_CoqProject gives an editor other options"}},

		{"another axiom under an allowed name", map[string]string{
			"Right.v":    "Theorem right : 1 = 1.\nProof. reflexivity. Qed.\n",
			"axioms.txt": "Coq.Logic.Classical_Prop.classic : forall P : Prop, P\n",
		}, []string{"an axiom of proofs/axioms.txt is not what Coq has under that name"}},
	} {
		if i >= testlevel.Pick(1, 10) {
			break
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := copyOfProofs(t)
			for _, name := range slices.Sorted(maps.Keys(test.files)) {
				file := filepath.Join(folder, "proofs", name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, file, test.files[name])
			}
			output, status := prove(t, folder)
			if status != 1 {
				t.Errorf("status %d, want 1", status)
			}
			for _, want := range test.want {
				if !strings.Contains(output, want) {
					t.Errorf("no %q", want)
				}
			}
			for line := range strings.Lines(output) {
				if strings.Contains(line, "Right") && !strings.HasPrefix(line, "compiled ") || strings.Contains(line, "right") {
					t.Errorf("a right file is refused: %s", line)
				}
			}
			if t.Failed() {
				t.Logf("%s", output)
			}
		})
	}
}
