package foreign

import (
	endian "encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"tokitai/evidence"
	"tokitai/num"
	"tokitai/tensor/safetensors"
	"tokitai/verify"
)

// fileVariable makes the test binary a program that computes a*x from one file to another.
const fileVariable = "TOKITAI_FOREIGN_TEST_FILES"

// fileMain is that program: it behaves as its role says, and returns its exit status.
func fileMain(role, in, out string) int {
	f, err := safetensors.ReadFile(in)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	x, _ := f.Entry("x")
	var a float64
	fmt.Sscan(f.Metadata[metaParam+"a"], &a)
	if f.Metadata[metaDefinition] != "scaled" || f.Metadata[metaOutput+"y"] != fmt.Sprintf("f32 %s", sizes(x.Shape)) || f.Metadata[metaSeed] == "" {
		fmt.Fprintln(os.Stderr, "metadata:", f.Metadata)
		return 1
	}
	y := safetensors.Entry{Name: "y", DType: num.F32, Shape: x.Shape}
	for at := 0; at < len(x.Data); at += 4 {
		v := float32(a) * math.Float32frombits(endian.LittleEndian.Uint32(x.Data[at:]))
		y.Data = endian.LittleEndian.AppendUint32(y.Data, math.Float32bits(v))
	}
	switch role {
	case "wrong":
		y.Data[1] ^= 1 // 256 ulp
	case "turned":
		y.Shape = []int{x.Shape[1], x.Shape[0]}
	case "renamed":
		y.Name = "z"
	case "silent":
		return 0
	case "malformed":
		os.WriteFile(out, []byte("no"), 0o644)
		return 0
	case "refuses":
		fmt.Fprintln(os.Stderr, "no such shape")
		return ExitRefused
	case "fails":
		fmt.Fprintln(os.Stderr, "out of luck")
		return 5
	case "hangs":
		time.Sleep(time.Hour)
	}
	if err := safetensors.WriteFile(out, &safetensors.File{Entries: []safetensors.Entry{y}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for role, want := range map[string]struct {
		verdict evidence.Verdict
		reason  string
	}{
		"right":     {evidence.Accepted, ""},
		"wrong":     {evidence.Rejected, "y[0,0]"},
		"turned":    {evidence.Rejected, "the file has y f32[5,3], want f32[3,5]"},
		"renamed":   {evidence.Rejected, `the file has no output, but ["z"]`},
		"silent":    {evidence.Rejected, "wrote no file {out}"},
		"malformed": {evidence.Rejected, "{out}: the file ends after 2 bytes"},
		"refuses":   {evidence.Skipped, "no such shape"},
		"fails":     {evidence.Inadmissible, "exit status 5; its last words: out of luck"},
		"hangs":     {evidence.Inadmissible, "did not end within 1s, and was killed"},
	} {
		o := Options{Definition: scaled, Seed: 7, Deadline: patience, Environment: []string{fileVariable + "=" + role}}
		if role == "hangs" {
			o.Deadline = time.Second
		}
		k, err := Files([]string{"/proc/self/exe", "{in}", "{out}"}, o)
		if err != nil {
			t.Fatal(err)
		}
		r := judge(t, k, verify.Options{Case: "normal/R=3,C=5"}).Report
		if r.Verdict != want.verdict || !strings.Contains(r.Reason, want.reason) {
			t.Errorf("%s: got %s, %q, want %s, %q", role, r.Verdict, r.Reason, want.verdict, want.reason)
		}
		k.Close()
	}
	if left, err := os.ReadDir(os.TempDir()); err == nil {
		for _, e := range left {
			if strings.HasPrefix(e.Name(), "tokitai-check-") {
				t.Errorf("%s is left in the temporary folder", e.Name())
			}
		}
	}
}

func TestFilesRefuses(t *testing.T) {
	for command, want := range map[string]string{
		"":                      "the command is empty",
		"true {in}":             "has no {out}",
		"true {out}":            "has no {in}",
		"./no/such {in} {out}":  "./no/such cannot be started",
		"{in} {out} is-no-name": "has no {in}",
	} {
		if _, err := Files(strings.Fields(command), Options{Definition: scaled}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", command, err, want)
		}
	}
}
