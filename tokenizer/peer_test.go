package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// python runs a script of testdata with a Python that has tokenizers.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	path := tool.Need(t, "python3")
	if err := exec.Command(path, "-c", "import tokenizers").Run(); err != nil {
		tool.Missing(t, "tokenizers", "python3 cannot import it")
	}
	command := exec.Command(path, args...)
	command.Dir = "testdata"
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// TestPeer compares with tokenizers on random texts. Every run of a level has the same texts.
func TestPeer(t *testing.T) {
	t.Parallel()
	testlevel.Need(t, testlevel.Quick, "Python takes seconds for a family")
	count := testlevel.Pick(0, 2000, 20000, 100000)
	for _, family := range families {
		k := open(t, family)
		texts := 0
		for line := range bytes.Lines(python(t, "peer.py", family+".json", strconv.Itoa(count), "1")) {
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				t.Fatal(err)
			}
			compare(t, k, a)
			texts++
		}
		if texts != count {
			t.Errorf("%s: %d texts, want %d", family, texts, count)
		}
	}
}

// TestTables compares the tables of characters with those of tokenizers.
func TestTables(t *testing.T) {
	t.Parallel()
	testlevel.Need(t, testlevel.Full, "Python asks tokenizers about every character")
	for _, name := range []string{"classes", "compositions"} {
		want := python(t, "tables.py", name)
		got, err := os.ReadFile(filepath.Join(".", name+".txt"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.txt differs from what testdata/tables.py prints, %v", name, err)
		}
	}
}
