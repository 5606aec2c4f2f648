package peers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tokitai/kernelprocess/spawn"
	"tokitai/num"
)

// kind is a library that can be a peer.
type kind struct {
	name    string // on the command line and in reports
	about   string
	command func(ctx context.Context, folder string, threads int) (spawn.Spec, error)
	takes   func(*Case) bool // which cases it is worth asking for; nil for all
}

// kinds lists the peers in the order of the table's columns.
var kinds = []kind{
	{name: "torch", about: "PyTorch", command: python("torch")},
	{
		name: "torch-no-amx", about: "PyTorch without AMX", takes: isProductInBF16,
		command: python("torch", "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"), // everything but AMX
	},
	{name: "numpy", about: "NumPy", command: python("numpy"), takes: func(c *Case) bool { return c.DType == num.F32 }},
	{
		name: "gonum", about: "gonum", command: gonum,
		takes: func(c *Case) bool { return c.DType == num.F32 && c.Data.Definition.Multiplies() },
	},
}

func isProductInBF16(c *Case) bool {
	return c.DType == num.BF16 && c.Data.Definition.Multiplies()
}

// Names returns the names of the peers that are known.
func Names() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

//go:embed peer.py
var script string

// python returns the command of a Python library. TOKITAI_PYTHON names the interpreter;
// otherwise it is python3.
//
// A fresh result of many megabytes would come from the system, page by page, at every
// call. The settings of malloc keep freed memory, so that allocation costs nothing. Large
// pages are what the others have.
func python(library string, env ...string) func(context.Context, string, int) (spawn.Spec, error) {
	return func(_ context.Context, _ string, threads int) (spawn.Spec, error) {
		interpreter := os.Getenv("TOKITAI_PYTHON")
		if interpreter == "" {
			interpreter = "python3"
		}
		path, err := exec.LookPath(interpreter)
		if err != nil {
			return spawn.Spec{}, err
		}
		n := strconv.Itoa(threads)
		return spawn.Spec{
			Program: path,
			Args:    []string{"-c", script, library, n},
			Env: slices.Concat(spawn.Environment(os.Environ()), []string{
				"OMP_NUM_THREADS=" + n, "MKL_NUM_THREADS=" + n, "OPENBLAS_NUM_THREADS=" + n,
				"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=1099511627776", "MALLOC_TOP_PAD_=67108864",
				"THP_MEM_ALLOC_ENABLE=1", "PYTHONDONTWRITEBYTECODE=1",
			}, env),
		}, nil
	}
}

// ServeVariable is set in the environment of a test binary that is to be a peer: to the
// version of the library, which such a binary does not know.
const ServeVariable = "TOKITAI_BENCH_PEER"

// gonumPackage has tests alone, so that no program contains gonum.
const gonumPackage = "tokitai/bench/peers/gonum"

// gonum returns the command of gonum: the test binary of a package that imports it, built
// from source in the folder unless it is there already.
func gonum(ctx context.Context, folder string, threads int) (spawn.Spec, error) {
	program := filepath.Join(folder, "gonum.test")
	version, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}}", "gonum.org/v1/gonum")
	if err == nil && !exists(program) {
		_, err = goCommand(ctx, "test", "-c", "-o", program, gonumPackage)
	}
	if err == nil && !exists(program) {
		err = fmt.Errorf("go test -c %s made no program", gonumPackage)
	}
	return spawn.Spec{
		Program: program,
		Env:     append(spawn.Environment(os.Environ()), ServeVariable+"="+version, "GOMAXPROCS="+strconv.Itoa(threads)),
	}, err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// goCommand runs Go and returns the first line of what it prints.
func goCommand(ctx context.Context, args ...string) (string, error) {
	said, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	if err != nil {
		return "", fmt.Errorf("it is built from source: go %s: %w: %s", args[0], err, line)
	}
	return line, nil
}
