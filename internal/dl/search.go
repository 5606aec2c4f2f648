package dl

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PythonDirs returns the existing folders of the given names, such as nvidia/cu13/lib,
// below every site-packages that pip may install to: first those of PYTHONPATH and the
// active environment, then the user's, then the system's.
func PythonDirs(below ...string) []string {
	var roots []string
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(name); prefix != "" {
			roots = append(roots, prefix)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"), filepath.Join(home, ".pyenv/versions/*"),
			filepath.Join(home, "miniconda3"), filepath.Join(home, "anaconda3"))
	}
	if root := os.Getenv("PYENV_ROOT"); root != "" {
		roots = append(roots, filepath.Join(root, "versions/*"))
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) { // an environment may be in use without VIRTUAL_ENV
		if _, err := os.Stat(filepath.Join(dir, "python3")); err == nil && filepath.IsAbs(dir) {
			roots = append(roots, filepath.Dir(dir))
		}
	}
	roots = append(roots, "/usr/local", "/usr", "/opt/conda", "/opt/venv", "/opt/*")
	var dirs []string
	for _, folder := range below {
		for _, path := range filepath.SplitList(os.Getenv("PYTHONPATH")) {
			if filepath.IsAbs(path) {
				dirs = append(dirs, newestFirst(filepath.Join(path, folder))...)
			}
		}
		for _, root := range roots {
			for _, packages := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages"} {
				dirs = append(dirs, newestFirst(filepath.Join(root, packages, folder))...)
			}
		}
	}
	return dirs
}

// CUDADirs returns the folders of CUDA toolkits and of system libraries, which the
// loader's configuration may lack.
func CUDADirs() []string {
	var dirs []string
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := os.Getenv(name); root != "" {
			dirs = append(dirs, filepath.Join(root, "lib64"), filepath.Join(root, "lib"))
		}
	}
	dirs = append(dirs, "/usr/local/cuda/lib64")
	for _, pattern := range []string{"/usr/local/cuda-*/lib64", "/opt/cuda*/lib64", "/usr/local/cuda*/targets/*-linux/lib"} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return append(append(dirs, systemDirs...), "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/lib", "/run/opengl-driver/lib")
}

// systemDirs are the folders of a system's libraries.
var systemDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// ROCmChosen returns the library folders of the ROCm that the environment names.
func ROCmChosen() []string {
	var dirs []string
	for _, name := range []string{"ROCM_PATH", "HIP_PATH"} {
		if root := os.Getenv(name); root != "" {
			dirs = append(dirs, filepath.Join(root, "lib"), filepath.Join(root, "lib64"))
		}
	}
	return dirs
}

// ROCmDirs returns the folders of ROCm's releases, newest first, and of system libraries,
// which the loader's configuration may lack.
func ROCmDirs() []string {
	dirs := []string{"/opt/rocm/lib"}
	for _, pattern := range []string{"/opt/rocm-*/lib", "/usr/lib/rocm-*/lib"} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return append(append(dirs, systemDirs...), "/usr/local/lib", "/run/opengl-driver/lib")
}

// newestFirst returns the paths that match a pattern, sorted by name in descending order,
// with numbers by their value: rocm-6.10 before rocm-6.9.
func newestFirst(pattern string) []string {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	slices.SortFunc(matches, func(a, b string) int { return cmp.Or(compareNames(b, a), strings.Compare(b, a)) })
	return matches
}

// compareNames compares names with numbers in them.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns the number of digits that s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
