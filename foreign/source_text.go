package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tokitai/device/gpu/compile"
)

// blanked returns C++ text with comments, strings and characters replaced by spaces, and
// everything else in its place.
func blanked(text string) string {
	b := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	end := func(from int, mark string) int {
		if i := strings.Index(text[from:], mark); i >= 0 {
			return from + i + len(mark)
		}
		return len(text)
	}
	for i := 0; i < len(text); {
		next := i + 1
		switch {
		case strings.HasPrefix(text[i:], "//"):
			next = end(i, "\n")
			blank(i, next)
		case strings.HasPrefix(text[i:], "/*"):
			next = end(i+2, "*/")
			blank(i, next)
		case text[i] == '"' || text[i] == '\'' && (i == 0 || !isDigit(text[i-1])): // not 1'000
			for next < len(text) && text[next] != text[i] && text[next] != '\n' {
				if text[next] == '\\' {
					next++
				}
				next++
			}
			next = min(next+1, len(text))
			blank(i, next)
		}
		i = next
	}
	return string(b)
}

// lineAt returns the number, from 1, of the line of a position.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// kernelHead matches the head of a kernel, with its attributes.
var kernelHead = regexp.MustCompile(`__global__\s+(?:(?:__launch_bounds__|__maxnreg__|__cluster_dims__)\s*\([^)]*\)\s*)?(?:static\s+|inline\s+)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(`)

// kernelsIn lists the kernels of a text by name.
func kernelsIn(text string) []string {
	var names []string
	for _, m := range kernelHead.FindAllStringSubmatch(blanked(text), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// declaresT matches a declaration of a global T, beside which there can be no other.
var declaresT = regexp.MustCompile(`(?m)\busing\s+T\s*=|\btypedef\b[^;]*\bT\s*;|^\s*#\s*define\s+T\b|\b(?:struct|enum)\s+T\s*[:{]`)

// dynamicShared matches the declaration of the shared memory whose size the launch gives.
var dynamicShared = regexp.MustCompile(`\bextern\b([^;{}]*?)\b__shared__\b([^;{}]*?)(\w+)\s*\[\s*\]\s*;`)

// alignment matches what says how memory is aligned. The simulator's is aligned to more.
var alignment = regexp.MustCompile(`\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)`)

// forSimulator changes declarations of dynamic shared memory into pointers to the simulator's.
// Lines keep their numbers.
func forSimulator(text string) string {
	bare := blanked(text)
	var b strings.Builder
	at := 0
	for _, m := range dynamicShared.FindAllStringSubmatchIndex(bare, -1) {
		kind := strings.TrimSpace(alignment.ReplaceAllString(bare[m[2]:m[3]]+" "+bare[m[4]:m[5]], " "))
		kind = strings.Join(strings.Fields(kind), " ")
		b.WriteString(text[at:m[0]])
		fmt.Fprintf(&b, "%s* const %s = reinterpret_cast<%s*>(tokitai_dynamic_shared);%s",
			kind, bare[m[6]:m[7]], kind, strings.Repeat("\n", strings.Count(text[m[0]:m[1]], "\n")))
		at = m[1]
	}
	b.WriteString(text[at:])
	return b.String()
}

// unsimulated lists what the simulator lacks: what to look for, and what it is.
var unsimulated = []struct {
	pattern *regexp.Regexp
	what    string
}{
	{regexp.MustCompile(`\bwmma\b|\bmma_sync\b|#\s*include\s*<mma\.h>|\bwgmma\b|\b__hmma`), "tensor-core intrinsics"},
	{regexp.MustCompile(`\b__builtin_amdgcn_(?:s?mfma|swmmac|wmma|smfmac)\w*|\brocwmma\b`), "matrix-core intrinsics"},
	{regexp.MustCompile(`\b__builtin_amdgcn_\w+`), "intrinsics of AMD's compiler"},
	{regexp.MustCompile(`\basm\b|\b__asm__\b`), "inline assembly"},
	{regexp.MustCompile(`\bcooperative_groups\b`), "cooperative groups"},
	{regexp.MustCompile(`\bcub::|\bthrust::|#\s*include\s*<(?:cub|thrust)/`), "CUB or Thrust"},
	{regexp.MustCompile(`\bhipcub::|\brocprim::|#\s*include\s*<(?:hipcub|rocprim)/`), "hipCUB or rocPRIM"},
	{regexp.MustCompile(`\bcuda::|#\s*include\s*<cuda/`), "libcu++"},
	{regexp.MustCompile(`\bcute::|\bcutlass::|#\s*include\s*<(?:cute|cutlass)/`), "CUTLASS"},
	{regexp.MustCompile(`\b__pipeline_memcpy_async\b|\bmemcpy_async\b`), "asynchronous copies"},
	{regexp.MustCompile(`\btex[123]D\b|\bcudaTextureObject_t\b|\bsurf[123]D`), "textures and surfaces"},
	{regexp.MustCompile(`<<<|\bhipLaunchKernelGGL\b`), "launches from host code or from kernels; leave the host code out, or put it inside #ifndef TOKITAI_CHECK"},
	{regexp.MustCompile(`\b(?:cuda|hip)(?:Malloc|Memcpy|DeviceSynchronize)\b`), "host code; leave it out, or put it inside #ifndef TOKITAI_CHECK"},
}

// hostCode matches parts that are not compiled.
var hostCode = regexp.MustCompile(`(?s)#\s*ifndef\s+TOKITAI_CHECK\b.*?#\s*endif`)

// checkSimulated returns an error if the simulator cannot run a text, with the line.
func checkSimulated(file, text, gpu string) error {
	bare := blanked(text)
	for _, m := range hostCode.FindAllStringIndex(bare, -1) {
		bare = bare[:m[0]] + strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, bare[m[0]:m[1]]) + bare[m[1]:]
	}
	first, what := len(text), ""
	for _, u := range unsimulated {
		if m := u.pattern.FindStringIndex(bare); m != nil && m[0] < first {
			first, what = m[0], u.what
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%s:%d: the simulator has no %s; on a GPU, --device %s judges such a kernel", file, lineAt(text, first), what, gpu)
}

var (
	includeLine  = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"`)
	mostIncludes = 64
)

// includedFiles returns the files beside a source that it includes in quotes, directly or
// not, and the text with their names without folders.
func includedFiles(path, text string) (string, []compile.Header, error) {
	var headers []compile.Header
	known := map[string]string{} // the path of a header, by its name
	var walk func(dir, text string) (string, error)
	walk = func(dir, text string) (string, error) {
		var failure error
		text = includeLine.ReplaceAllStringFunc(text, func(line string) string {
			name := includeLine.FindStringSubmatch(line)[1]
			from := filepath.Join(dir, name)
			content, err := os.ReadFile(from)
			if err != nil {
				return line // a header of the compiler's, or an error that it reports
			}
			base := filepath.Base(name)
			switch known[base] {
			case "":
				if known[base] = from; len(known) > mostIncludes {
					failure = fmt.Errorf("%s includes more than %d files", path, mostIncludes)
					return line
				}
				inner, err := walk(filepath.Dir(from), string(content))
				if err != nil {
					failure = err
				}
				headers = append(headers, compile.Header{Name: base, Text: inner})
			case from:
			default:
				failure = fmt.Errorf("%s includes two files named %s, %s and %s, want one", path, base, known[base], from)
			}
			return strings.Replace(line, `"`+name+`"`, `"`+base+`"`, 1)
		})
		return text, failure
	}
	text, err := walk(filepath.Dir(path), text)
	return text, headers, err
}
