package main

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/num"
	"tokitai/tensor/npy"
)

// inShell runs a command line in a shell, in a folder of its own, and returns its exit code and what
// it printed.
func inShell(t *testing.T, line string) (code int, output string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), tool.Need(t, "sh"), "-c", line)
	c.Dir = t.TempDir()
	out, err := c.CombinedOutput()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// findings returns the lines of a failure that its replay must print too.
func findings(output string) []string {
	return regexp.MustCompile(`(?m)^(?:\S+: \S+ differs.*|  case    .*|  got     .*|  want    .*)$`).FindAllString(output, -1)
}

// filesKernel is a program for --exec-files: every element of softmax is 0.25.
const filesKernel = `import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
shape = json.loads(data[8:8 + n])["x"]["shape"]
count = 1
for s in shape:
    count *= s
body = struct.pack("<f", 0.25) * count
head = json.dumps({"y": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(body)]}}).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(head)) + head + body)
`

const halfDefinition = `tokitai-def 1
rowwise half

  in    x[R,C] f32
  out   y[R,C] as x

  y <- x * 0.5
`

// TestReplaysRun checks that every replay that check prints runs from another folder, with the same
// verdict and the same failing element, however the kernel is named.
func TestReplaysRun(t *testing.T) {
	python := func(t *testing.T) []string {
		copyExample(t, "softmax.py", "math.fsum(powers)", "math.fsum(powers[:9])")
		return []string{"softmax.forward", "--exec", "python3 softmax.py"}
	}
	arrays := func(t *testing.T) {
		for name, values := range map[string][]float32{"x.npy": {1, 2, 3, 4}, "y 1.npy": {1, 2, 3, 5}} {
			data := num.ArrayOf(num.F32, 1, len(values), values...)
			if err := npy.WriteFile(name, npy.Array{DType: num.F32, Shape: []int{1, len(values)}, Data: data.Data}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what  string
		needs []string
		make  func(t *testing.T) []string // the files, and the arguments of check
	}{
		{"exec", []string{"python3"}, python},
		{"exec-files", []string{"python3"}, func(t *testing.T) []string {
			write(t, "kernel.py", filesKernel)
			return []string{"softmax.forward", "--exec-files", "python3 kernel.py {in} {out}"}
		}},
		{"library", []string{"gcc"}, func(t *testing.T) []string {
			copyExample(t, "softmax.c", "total += exp(in[c] - top)", "total += c < 9 ? exp(in[c] - top) : 0")
			writeHeader(t)
			if out, err := exec.Command(tool.Need(t, "gcc"), "-O2", "-shared", "-fPIC", "-o", "libsoftmax.so", "softmax.c", "-lm").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return []string{"softmax.forward", "--library", "./libsoftmax.so", "--symbol", "softmax"}
		}},
		{"cuda", []string{"g++"}, func(t *testing.T) []string {
			write(t, "softmax.cu", "extern \"C\" __global__ void wrong(const float* x, float* y, int n) { for (int c = threadIdx.x; c < n; c += blockDim.x) y[blockIdx.x * n + c] = 0.25f; }\n")
			return []string{"softmax.forward", "--cuda", "softmax.cu", "--entry", "wrong", "--launch", "grid=R block=32 args=x,y,C", "--device", "sim"}
		}},
		{"given", nil, func(t *testing.T) []string {
			arrays(t)
			return []string{"softmax.forward", "--in", "x=x.npy", "--got", "y=y 1.npy"}
		}},
		{"own definition", nil, func(t *testing.T) []string {
			arrays(t)
			write(t, "half.def", halfDefinition)
			return []string{"half.def", "--in", "x.npy", "--got", "y 1.npy"}
		}},
		{"page", []string{"python3"}, func(t *testing.T) []string {
			return append(python(t), "--html", "page.html", "--out", "reports")
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if slices.Contains([]string{"exec-files", "cuda", "page"}, c.what) {
				testlevel.Need(t, testlevel.Quick, "it starts or compiles kernels for seconds")
			}
			for _, name := range c.needs {
				tool.Need(t, name)
			}
			t.Chdir(t.TempDir())
			args := append([]string{"check"}, c.make(t)...)
			if !slices.Contains(args, "--got") {
				args = append(args, "--dtype", "f32", "--seed", "5", "--case", "normal/R=1,C=12")
			}
			code, stdout, stderr := program(t.Context(), args...)
			if code != exitRejected {
				t.Fatalf("exit code %d, want %d: %s%s", code, exitRejected, stdout, stderr)
			}
			lines := regexp.MustCompile(`(?m)^  replay  (.*)$`).FindStringSubmatch(stdout)
			if lines == nil {
				t.Fatalf("no replay in\n%s", stdout)
			}
			replays := []string{lines[1]}
			if page, err := os.ReadFile("page.html"); err == nil {
				replays = nil
				for _, m := range regexp.MustCompile(`<pre class="command"[^>]*>([^<]*)</pre>`).FindAllStringSubmatch(string(page), -1) {
					replays = append(replays, html.UnescapeString(m[1]))
				}
				if len(replays) != 2 {
					t.Fatalf("the page has the commands %q, want 2", replays)
				}
				for _, name := range []string{"page.html", "reports"} {
					if err := os.RemoveAll(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, replay := range replays {
				again, output := inShell(t, replay)
				if again != exitRejected || !slices.Equal(findings(output), findings(stdout)) || len(findings(stdout)) < 3 {
					t.Errorf("%s\nexit code %d, want %d; got\n%s\nwant\n%s", replay, again, exitRejected, output, strings.Join(findings(stdout), "\n"))
				}
			}
			if left, _ := filepath.Glob("reports*"); len(left) > 0 {
				t.Errorf("a replay left %q", left)
			}
		})
	}
}
