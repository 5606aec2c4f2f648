package docs_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// TestProve breaks the proofs in a copy, and sees scripts/prove fail.
func TestProve(t *testing.T) {
	tool.Need(t, "coqc")
	t.Parallel()
	for i, test := range []struct {
		name, file, old, new string
		limit                string // of one file, in seconds
		want                 string // "" if the proofs still hold
	}{
		{name: "nothing"},
		{name: "a statement", file: "Chain.v", old: "chain acc (concat pieces)", new: "chain acc (concat (rev pieces))", want: "proofs/Chain.v does not hold"},
		{name: "a proof", file: "Chain.v", old: "now rewrite fold_left_app. Qed.", new: "reflexivity. Qed.", want: "proofs/Chain.v does not hold"},
		{name: "a constant", file: "Exact.v", old: "Z.abs (exact - f) < 2 ^ 63 -> w mod 2 ^ 64", new: "Z.abs (exact - f) < 2 ^ 64 -> w mod 2 ^ 64", want: "proofs/Exact.v does not hold"},
		{name: "no proof", file: "Chain.v", old: "Qed.", new: "Admitted.", want: "these lines leave something unproved"},
		{name: "an axiom", file: "Chain.v", old: "End Chain.", new: "End Chain.\nVariable magic : False.\nTheorem easy : 1 = 2.\nProof. destruct magic. Qed.", want: "easy assumes Tokitai.Chain.magic, which proofs/axioms.txt does not allow"},
		{name: "no time", limit: "0.01", want: "proofs/Chain.v: the prover is out of time after 0.01 s"},
	} {
		if i >= testlevel.Pick(2, 10) {
			break
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := copyOfProofs(t, cmp.Or(test.file, "Chain.v"))
			if test.file != "" {
				file := filepath.Join(folder, "proofs", test.file)
				text := readText(t, file)
				broken := strings.Join(strings.Fields(text), " ") // a line may be broken anywhere
				if test.name != "nothing" && !strings.Contains(broken, test.old) {
					t.Fatalf("proofs/%s has no %q", test.file, test.old)
				}
				write(t, file, strings.Replace(broken, test.old, test.new, 1))
			}
			output, status := prove(t, folder, "TOKITAI_PROVE_TIMEOUT="+test.limit)
			if want := min(len(test.want), 1); status != want || !strings.Contains(output, test.want) {
				t.Errorf("status %d, want %d and %q:\n%s", status, want, test.want, output)
			}
		})
	}
}

// TestProveWithout: --without leaves out what it names, and nothing else.
func TestProveWithout(t *testing.T) {
	tool.Need(t, "coqc")
	t.Parallel()
	folder := copyOfProofs(t, "Chain.v", "operations/softmax_forward.v")
	if output, status := prove(t, folder); status != 0 {
		t.Fatal(output)
	}
	chain := filepath.Join(folder, "proofs", "Chain.v")
	write(t, chain, strings.Replace(readText(t, chain), "Theorem ", "Theorem broken : 1 = 2.\nProof. reflexivity. Qed.\nTheorem ", 1))
	for _, test := range []struct {
		arguments []string
		status    int
		want      string
	}{
		{nil, 1, "proofs/Chain.v does not hold"},
		{[]string{"--without", "Chain.v"}, 0, " theorems in 1 files are checked"},
		{[]string{"--without", "operations/softmax_forward.v"}, 1, "proofs/Chain.v does not hold"},
		{[]string{"--without", "Chains.v"}, 1, "there is no proofs/Chains.v to leave out"},
	} {
		if output, status := runProve(t, folder, test.arguments); status != test.status || !strings.Contains(output, test.want) {
			t.Errorf("%v: status %d, want %d and %q:\n%s", test.arguments, status, test.status, test.want, output)
		}
	}
}

// TestProveWithoutProver: scripts/prove says what is missing.
func TestProveWithoutProver(t *testing.T) {
	t.Parallel()
	bash := tool.Need(t, "bash")
	for _, test := range []struct{ name, coqc, want string }{
		{"none", "", "there is no coqc: install coq"},
		{"old", "#!" + bash + "\necho 8.9.0 4.05.0\n", "coqc is 8.9.0, want 8.16 to 8.20"},
		{"new", "#!" + bash + "\necho 9.0.0 4.14.0\n", "coqc is 9.0.0, want 8.16 to 8.20"},
	} {
		folder := copyOfProofs(t)
		programs := t.TempDir() // with what the script uses, and no other prover
		for _, name := range []string{"bash", "env", "dirname", "make", "cut", "sort", "head", "sed", "cat"} {
			if err := os.Symlink(tool.Need(t, name), filepath.Join(programs, name)); err != nil {
				t.Fatal(err)
			}
		}
		if test.coqc != "" {
			write(t, filepath.Join(programs, "coqc"), test.coqc)
		}
		output, status := prove(t, folder, "PATH="+programs)
		if status != 3 || !strings.Contains(output, test.want) {
			t.Errorf("%s: status %d, want 3 and %q:\n%s", test.name, status, test.want, output)
		}
	}
}

// copyOfProofs copies scripts/prove, the list of axioms and some of the proofs to a new folder.
func copyOfProofs(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, file := range append([]string{"../scripts/prove", "../proofs/axioms.txt"}, files...) {
		if filepath.Ext(file) == ".v" {
			file = filepath.Join("..", "proofs", file)
		}
		copied := filepath.Join(folder, strings.TrimPrefix(file, ".."))
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, copied, readText(t, file))
	}
	return folder
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// prove runs scripts/prove --update in a folder, and returns what it says and its exit status.
func prove(t *testing.T, folder string, environment ...string) (string, int) {
	t.Helper()
	return runProve(t, folder, []string{"--update"}, environment...)
}

func runProve(t *testing.T, folder string, arguments []string, environment ...string) (string, int) {
	t.Helper()
	command := exec.Command(filepath.Join(folder, "scripts", "prove"), arguments...)
	command.Env = append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(output), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(output), 0
}
