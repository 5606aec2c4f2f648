package spawn

import (
	"runtime"
	"slices"
	"strings"
)

// Environment variables that a child inherits. A name that ends in * is a prefix.
var (
	inherited = []string{
		"PATH",
		"HOME", "XDG_CACHE_HOME", // os.UserCacheDir
		"TMPDIR",
		"LANG", "LANGUAGE", "LC_*",
		"LD_LIBRARY_PATH",
		"CUDA_*", "NVIDIA_*", "HIP_*", "HSA_*", "ROCM_*", "ROCR_*", "GPU_DEVICE_ORDINAL", "TOKITAI_*",
	}
	inheritedOnDarwin  = []string{"DYLD_LIBRARY_PATH"}
	inheritedOnWindows = []string{
		"LOCALAPPDATA", "USERPROFILE", // os.UserCacheDir, os.UserHomeDir
		"TEMP", "TMP",
		"PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "WINDIR", // few programs run without these
	}
)

// Environment returns the variables of an environment that a child needs: the paths
// of programs and libraries, the home, cache and temporary directories, the locale,
// and the settings of devices and of this project. A child gets no other variables,
// which may hold secrets.
func Environment(environ []string) []string { return environment(environ, runtime.GOOS) }

func environment(environ []string, system string) []string {
	names := inherited
	switch system {
	case "darwin":
		names = slices.Concat(names, inheritedOnDarwin)
	case "windows":
		names = slices.Concat(names, inheritedOnWindows)
	}
	kept := []string{}
	for _, variable := range environ {
		name, _, ok := strings.Cut(variable, "=")
		if system == "windows" {
			name = strings.ToUpper(name) // names ignore case there
		}
		if ok && slices.ContainsFunc(names, func(pattern string) bool {
			if prefix, isPrefix := strings.CutSuffix(pattern, "*"); isPrefix {
				return strings.HasPrefix(name, prefix)
			}
			return name == pattern
		}) {
			kept = append(kept, variable)
		}
	}
	return kept
}
