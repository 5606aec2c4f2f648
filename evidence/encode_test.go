package evidence

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"tokitai/internal/tool"
)

// TestDigest: the digest is the one that a script computes, and follows every part.
func TestDigest(t *testing.T) {
	cases := []Case{{Name: "a", InputsSHA256: "01", OutputsSHA256: "02"}, {Name: "b/R=1", InputsSHA256: "03", OutputsSHA256: "04"}}
	// printf 'a 01 02\nb/R=1 03 04\n' | sha256sum
	const want = "377b13def4b0f7cef378ac9eb44b7de959e6d6ce13c9c933edbaac391dfaed1d"
	if got := DigestOf(cases); got != want {
		t.Errorf("digest: got %s, want %s", got, want)
	}
	// sha256sum /dev/null
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := DigestOf(nil); got != nothing {
		t.Errorf("digest of no cases: got %s, want %s", got, nothing)
	}
	if got := FingerprintOf(nil); got != nothing {
		t.Errorf("fingerprint of nothing: got %s, want %s", got, nothing)
	}
}

// TestDigestByScript runs the command of the package comment.
func TestDigestByScript(t *testing.T) {
	shell := tool.Need(t, "sh")
	tool.Need(t, "jq")
	r := samples()["accepted"]
	script := exec.Command(shell, "-c", `jq -r '.case_list[] | "\(.name) \(.inputs_sha256) \(.outputs_sha256)"' | sha256sum`)
	script.Stdin = bytes.NewReader(mustJSON(t, r))
	out, err := script.CombinedOutput()
	if got, _, _ := strings.Cut(string(out), " "); err != nil || got != r.DigestSHA256 {
		t.Errorf("got %s (%v), want %s", out, err, r.DigestSHA256)
	}
}

func TestJSONForm(t *testing.T) {
	for name, r := range samples() {
		data := mustJSON(t, r)
		if again := mustJSON(t, r); !bytes.Equal(data, again) {
			t.Errorf("%s: two encodings differ", name)
		}
		if !bytes.HasPrefix(data, []byte("{\n  \"schema\": ")) || !bytes.HasSuffix(data, []byte("}\n")) {
			t.Errorf("%s: is not indented, or does not begin with its schema:\n%.80s", name, data)
		}
		if !bytes.Contains(data, []byte("<once>")) {
			t.Errorf("%s: angle brackets are escaped", name)
		}
		var back Report
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if want := complete(reflect.ValueOf(r)).Interface(); !reflect.DeepEqual(&back, want) {
			t.Errorf("%s: reading back gives\n%+v\nwant\n%+v", name, &back, want)
		}
	}
}

// TestListsAreNeverNull: in an empty document the only nulls are figures.
func TestListsAreNeverNull(t *testing.T) {
	for _, document := range []interface{ JSON() ([]byte, error) }{&Report{Failure: &Failure{}, CaseList: make([]Case, 1), WorstCases: make([]WorstCase, 1)}, &Index{}, &Run{Results: make([]Summary, 1)}} {
		for line := range strings.Lines(string(mustJSON(t, document))) {
			name := strings.Trim(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(line), ","), ": null"), `"`)
			switch name {
			case "mean_admissible", "median_admissible", "worst_admissible", "share_over_one", "worst_error_ulp", "worst_error_share", "misrounded", "kernel_seconds", "seed":
			default:
				if strings.Contains(line, "null") {
					t.Errorf("%T: %s", document, line)
				}
			}
		}
	}
}

// elsewhere returns the report of the same run on another machine at another time.
func elsewhere(r *Report) *Report {
	out := complete(reflect.ValueOf(r)).Interface().(*Report)
	out.Host = Host{OS: "plan9", Arch: "mips", CPU: "another", Cores: 77, MemoryBytes: 1 << 20}
	out.Machine = Machine{Name: "another", Architecture: "another", Driver: "another", MemoryBytes: 1 << 20, Workers: 77}
	out.Time = time.Date(1999, 1, 1, 0, 0, 0, 0, time.FixedZone("another", 3600))
	out.Seconds, out.KernelSeconds = 777.5, new(777.25)
	return out
}

func TestStable(t *testing.T) {
	for name, r := range samples() {
		before := mustJSON(t, r)
		a, b := r.Stable(), elsewhere(r).Stable()
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: stable reports of two machines differ:\n%+v\n%+v", name, a, b)
		}
		for _, field := range []string{"another", "plan9", "Sample CPU", "777.5", "777.25"} {
			if bytes.Contains(mustJSON(t, b), []byte(field)) {
				t.Errorf("%s: the stable report contains %q", name, field)
			}
		}
		if a.DigestSHA256 != r.DigestSHA256 || a.Verdict != r.Verdict || !reflect.DeepEqual(a.CaseList, complete(reflect.ValueOf(r.CaseList)).Interface()) {
			t.Errorf("%s: the stable report lost more than the machine and the moment", name)
		}
		if after := mustJSON(t, r); !bytes.Equal(before, after) {
			t.Errorf("%s: Stable changed the report itself", name)
		}
	}
}

// TestTimesAreUTC: where the clock hangs does not show.
func TestTimesAreUTC(t *testing.T) {
	r := samples()["accepted"]
	page, data := r.Markdown(), mustJSON(t, r)
	r.Time = r.Time.In(time.FixedZone("another", 3600))
	if !bytes.Equal(mustJSON(t, r), data) || r.Markdown() != page {
		t.Error("the same moment in another zone gives another report")
	}
}
