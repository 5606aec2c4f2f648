package data

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadTable reads rows of JSON; what is wrong with a line is said with its number.
func TestReadTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	read := func(text string) (*Table, error) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return ReadTable(path)
	}
	x, err := read("{\"features\": [1, -0.1], \"targets\": [3], \"id\": 7}\n\n{\"targets\": [1e-45], \"features\": [0, 2]}")
	if err != nil {
		t.Fatal(err)
	}
	if want := NewTable(2, 1, []float32{1, -0.1, 0, 2}, []float32{3, math.SmallestNonzeroFloat32}); x.Digest != want.Digest || x.Len() != 2 {
		t.Errorf("got %+v, want %+v", x, want)
	}
	if y, err := ReadFeatures(path); err != nil || y.Outputs != 0 || !slices.Equal(y.Features, x.Features) {
		t.Errorf("without targets: %+v, error %v", y, err)
	}
	if NewTable(2, 1, x.Features, x.Targets).Digest == NewTable(1, 2, x.Features, x.Targets).Digest {
		t.Error("rows that are divided otherwise have the same digest")
	}
	if _, _, err := x.Split(); err == nil || !strings.Contains(err.Error(), "have 2 rows") {
		t.Errorf("two rows are split: error %v", err)
	}
	for text, want := range map[string]string{
		"":                    "has no rows",
		"{\"features\": [1]}": "rows.jsonl:1: the row has 0 targets, want 1, at least 1",
		"{\"features\": [1], \"targets\": [1]}\n{\"features\": [1, 2], \"targets\": [1]}": "rows.jsonl:2: the row has 2 features, want 1",
		"{\"features\": [1, null], \"targets\": [1]}":                                     "rows.jsonl:1: number 2 of features is null",
		"{\"features\": [1e39], \"targets\": [1]}":                                        "rows.jsonl:1: json: cannot unmarshal number 1e39",
		"{\"features\": \"x\", \"targets\": [1]}":                                         "rows.jsonl:1: json: cannot unmarshal string",
		"[]": "rows.jsonl:1: ",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, path := range []string{"synthetic:", "synthetic:0", "synthetic:x"} {
		if _, err := ReadTable(path); err == nil || !strings.Contains(err.Error(), "want a number of rows") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// TestSynthetic: rows are what the description says, and do not depend on how many there are.
func TestSynthetic(t *testing.T) {
	t.Parallel()
	const n = 500
	x := Synthetic(3, n)
	if got := Synthetic(3, 7).Features; !slices.Equal(got, x.Features[:len(got)]) {
		t.Error("the first rows depend on the number of rows")
	}
	if x.Digest == Synthetic(4, n).Digest {
		t.Error("another seed gives the same rows")
	}
	seen := map[int]int{}
	for r := range n {
		f, y := make([]float32, SyntheticInputs), make([]float32, SyntheticOutputs)
		x.Put(f, y, r)
		category, class, u := slices.Index(f, 1), slices.Index(y, 1), f[74:]
		seen[class]++
		want := category
		if u[0]+u[1] >= 0 {
			want += 6
		}
		if class != want%12 {
			t.Fatalf("row %d: class %d of category %d with %v and %v", r, class, category, u[0], u[1])
		}
		for j, v := range y[12:] {
			sign := float32(1 - 2*(category%2))
			if v != sign*(u[j]+u[j+8])/2 {
				t.Fatalf("row %d: target %d is %v, features %v and %v", r, 12+j, v, u[j], u[j+8])
			}
		}
		for i, v := range slices.Concat(f[:74], y[:12]) {
			if v != 0 && v != 1 || v == 1 && i != category && i != 74+class {
				t.Fatalf("row %d has %v at %d", r, v, i)
			}
		}
		for _, v := range u {
			if v < -1 || v >= 1 || v*(1<<15) != float32(math.Trunc(float64(v*(1<<15)))) {
				t.Fatalf("row %d has the number %v", r, v)
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d classes, want 12", len(seen))
	}
}
