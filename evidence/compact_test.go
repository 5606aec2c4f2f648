package evidence

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestCompact: what is written is read back, follows the schema and does not contradict
// itself; a digest is that of the case's line.
func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.zip")
	if err := Write(path, sampleList()); err != nil {
		t.Fatal(err)
	}
	index, reports, err := ReadRun(path)
	if err != nil {
		t.Fatal(err)
	}
	if index.Totals.Reports != len(sampleList()) || len(reports) != len(sampleList()) {
		t.Errorf("%d reports, index %+v", len(reports), index.Totals)
	}
	for i, whole := range sampleList() {
		got := reports[i]
		if want := whole.Compact(); !reflect.DeepEqual(mustJSON(t, got), mustJSON(t, want)) {
			t.Errorf("%s: read\n%s\nwant\n%s", whole.Lowering, mustJSON(t, got), mustJSON(t, want))
		}
		if err := validate(t, schemaOf(t, ""), mustJSON(t, got)); err != nil {
			t.Errorf("%s: %v", whole.Lowering, err)
		}
		for k, c := range whole.CaseList {
			line := c.Name + " " + c.InputsSHA256 + " " + c.OutputsSHA256 + "\n"
			if small := got.CaseList[k]; small.Digest != FingerprintOf([]byte(line))[:8]+c.InputsSHA256[:8] || len(small.Digest) != 16 || small.Name != c.Name || small.Elements != c.Elements || small.InputsSHA256 != "" {
				t.Errorf("%s: case %+v of %+v", whole.Lowering, small, c)
			}
		}
		if page := got.Markdown(); len(whole.CaseList) > 0 && !strings.Contains(page, "("+got.FileName()+".json)") {
			t.Errorf("%s: the page has no link to the compact report:\n%s", whole.Lowering, page)
		}
	}
	mixed := sampleList()[0].Compact()
	mixed.CaseList[1].Digest = ""
	if err := mixed.Check(); err == nil || !strings.Contains(err.Error(), "all cases have one, or none") {
		t.Errorf("a report with one digest: %v", err)
	}
	short := sampleList()[0].Compact()
	short.CaseList[0].Digest = "12"
	if err := short.Check(); err == nil || !strings.Contains(err.Error(), "case_list[0].digest") {
		t.Errorf("a short digest: %v", err)
	}
	if err := Write(path, []*Report{{}}); err == nil {
		t.Error("a report that contradicts itself is written")
	}
}

// TestCaseText: a case that is a text is read as it is written, and nothing else is.
func TestCaseText(t *testing.T) {
	for _, want := range []Case{
		{Name: "normal/R=1,C=2", Elements: 2, Digest: "01234567"},
		{Name: "normal/R=1,C=2", Elements: 2, Mismatches: 1, Digest: "01234567"},
	} {
		data, err := json.Marshal(want)
		var got Case
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", data, got, err, want)
		}
	}
	for _, text := range []string{`""`, `"a"`, `"a 1"`, `"a b c"`, `"a 1 c d"`, `"a 1 c 2 3"`, `"a 1 "`, `1`, `[]`} {
		var c Case
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %+v", text, c)
		}
	}
}

// TestReadRun finds what was changed since.
func TestReadRun(t *testing.T) {
	for name, change := range map[string]func(dir string){
		"another report": func(dir string) {
			replaceIn(t, dir, "softmax.forward_cpu.rowwise_f16.json", `"cases": 2`, `"cases": 3`)
		},
		"another compiler": func(dir string) { // which contradicts nothing
			replaceIn(t, dir, "softmax.forward_cpu.rowwise_f16.json", `"version": "go1.26.0"`, `"version": "go1.26.1"`)
		},
		"another count":      func(dir string) { replaceIn(t, dir, "index.json", `"accepted": 3`, `"accepted": 4`) },
		"another verdict":    func(dir string) { replaceIn(t, dir, "index.json", `"verdict": "rejected"`, `"verdict": "accepted"`) },
		"no index":           func(dir string) { os.Remove(filepath.Join(dir, "index.json")) },
		"a report is absent": func(dir string) { os.Remove(filepath.Join(dir, "softmax.forward_cpu.rowwise_f16.json")) },
	} {
		dir := t.TempDir()
		if err := Write(dir, sampleList()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadRun(dir); err != nil {
			t.Fatal(err)
		}
		change(dir)
		if _, _, err := ReadRun(dir); err == nil {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

func replaceIn(t *testing.T, dir, file, from, to string) {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(data, []byte(from), []byte(to), 1)
	if bytes.Equal(changed, data) {
		t.Fatalf("%s has no %s", file, from)
	}
	if err := os.WriteFile(path, changed, 0o666); err != nil {
		t.Fatal(err)
	}
}
