// Package archtest holds the import rules of the project, as a test that parses the
// source tree itself.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tokitai"

// room is a folder with all folders below it that are not rooms themselves. A room
// imports only rooms above it in the list.
type room struct {
	path    string
	mustNot []ban  // rooms that it must not import, directly or indirectly
	only    *claim // the only rooms that it reaches
}

type claim struct {
	paths []string
	why   string
}

type ban struct {
	path, why string
}

var rooms = []room{
	{path: "internal/alone"},
	{path: "internal/testlevel"},
	{path: "internal/contrast", only: &claim{[]string{}, "it reads style sheets as text"}},
	{path: "internal/testlist", only: &claim{[]string{}, "it reads tests as text"}},
	{path: "internal/typecheck", only: &claim{[]string{}, "it reads packages as text"}},
	{path: "internal/tool"},
	{path: "internal/await", only: &claim{[]string{}, "it waits for conditions that it does not know"}},
	{path: "internal/browser", only: &claim{[]string{"internal/await", "internal/tool"}, "it shows pages that it does not know"}},
	{path: "internal/nearest"},
	{path: "num"},
	{path: "internal/tensorcore", only: &claim{[]string{"num"}, "what is compared with an answer must not make it"}},
	{path: "num/ball"},
	{path: "num/exact"},
	{path: "num/zpk"},
	{path: "internal/leftover"},
	{path: "internal/gen", mustNot: []ban{{"def", "inputs must not depend on what is computed from them"}}},
	{path: "def"},
	{path: "fn"},
	{path: "proofs", only: &claim{[]string{}, "proofs are text"}},
	{path: "prove", only: &claim{[]string{"num", "num/ball", "num/zpk", "internal/nearest", "def", "fn", "proofs"}, "a proof is made from the definition alone"}},
	{path: "reference"},
	{path: "promise", only: &claim{[]string{"internal/nearest", "num", "num/ball", "num/zpk", "def"}, "a promise is a statement about a definition"}},
	{path: "truth", mustNot: []ban{{"reference", "two judges that share code share mistakes"}}},
	{path: "bound", only: &claim{[]string{"internal/nearest", "num", "num/ball", "num/zpk", "def"}, "a bound is a formula about a definition"}},
	{path: "lower", mustNot: []ban{
		{"reference", "a judge that shares code with the judged shares its mistakes"},
		{"truth", "a judge that shares code with the judged shares its mistakes"},
	}},
	{path: "lower/cpu/asm", only: &claim{[]string{}, "labels know no instruction"}},
	{path: "lower/cpu/asm/*", only: &claim{[]string{"lower/cpu/asm"}, "an assembler knows encodings, not what is computed"}},
	{path: "lower/cpu", mustNot: []ban{
		{"num/exact", "the exact sums are the judges'"},
		{"reference", "a judge that shares code with the judged shares its mistakes"},
		{"truth", "a judge that shares code with the judged shares its mistakes"},
	}},
	{path: "lower/cpu/machine", mustNot: []ban{{"num", "what calls code does not know what it computes"}, {"def", "what calls code does not know what it computes"}}},
	{path: "internal/plaincpu"},
	{path: "internal/noexec", only: &claim{[]string{}, "it changes the process, and knows nothing of it"}},
	{path: "lower/cpu/*", mustNot: []ban{
		{"num/exact", "the exact sums are the judges'"},
		{"reference", "a judge that shares code with the judged shares its mistakes"},
		{"truth", "a judge that shares code with the judged shares its mistakes"},
	}},
	{path: "lower/gpu", mustNot: []ban{
		{"device", "sources are text, addresses are numbers: whoever has a device runs them"},
		{"num/exact", "the exact sums are the judges'"},
		{"reference", "a judge that shares code with the judged shares its mistakes"},
		{"truth", "a judge that shares code with the judged shares its mistakes"},
	}},
	{path: "device", mustNot: []ban{{"def", "a device knows bytes, not operations"}}},
	{path: "device/cpu", mustNot: []ban{{"def", "a device knows bytes, not operations"}}},
	{path: "internal/dl", mustNot: []ban{{"device", "it opens libraries, whatever they are for"}}},
	{path: "amdgpu/isa", only: &claim{[]string{}, "an encoding does not depend on what runs it"}},
	{path: "amdgpu/codeobject", only: &claim{[]string{}, "a file format knows no device"}},
	{path: "amdgpu/valu", only: &claim{[]string{"amdgpu/isa", "num"}, "arithmetic knows values, not registers"}},
	{path: "amdgpu/wave", only: &claim{[]string{"amdgpu/isa", "amdgpu/valu", "num"}, "what executes instructions knows no driver"}},
	{path: "device/gpu", mustNot: []ban{{"def", "a device knows bytes, not operations"}, {"lower", "a device runs sources that it is given"}}},
	{path: "lower/gpu/internal/simtest"},
	{path: "tensor", mustNot: []ban{{"def", "a tensor is data; operations come later"}}},
	{path: "internal/newfile"},
	{path: "internal/filelock", only: &claim{[]string{}, "a lock knows nothing of what it guards"}},
	{path: "internal/readfile"},
	{path: "tensor/safetensors", mustNot: []ban{{"def", "a file format knows no operation"}, {"device", "files are bytes in host memory"}}},
	{path: "tensor/npy", mustNot: []ban{{"def", "a file format knows no operation"}, {"device", "files are bytes in host memory"}}},
	{path: "tensor/file", mustNot: []ban{{"def", "files know no operation"}}},
	{path: "internal/jsontree", only: &claim{[]string{}, "a format of text knows nothing of what it holds"}},
	{path: "tokenizer", only: &claim{[]string{"internal/jsontree", "internal/readfile"}, "text and ids are data; models come later"}},
	{path: "chat/jinja", only: &claim{[]string{}, "a template reaches nothing but its variables"}},
	{path: "chat", only: &claim{[]string{"chat/jinja", "internal/jsontree", "internal/readfile"}, "conversations are data; models come later"}},
	{path: "internal/answers", mustNot: []ban{{"def", "what is compared with an answer must not make it"}}},
	{path: "verify/glue", only: &claim{[]string{}, "whoever divides work can put verdicts together, not only the verifier"}},
	{path: "trial", mustNot: []ban{
		{"reference", "what compares with an answer must not make it"},
		{"truth", "what compares with an answer must not make it"},
		{"lower", "what tries kernels knows none of them"},
		{"device/cpu", "operands go to any device by the interface alone"},
		{"device/gpu", "operands go to any device by the interface alone"},
	}},
	{path: "trial/randdef", mustNot: []ban{{"lower", "what makes test cases knows nothing of what is tested"}, {"reference", "what makes test cases knows nothing of what is tested"}}},
	{path: "lower/cpu/cputest", mustNot: []ban{{"reference", "what runs programs does not judge them"}, {"truth", "what runs programs does not judge them"}}},
	{path: "engine", mustNot: []ban{
		{"fn", "the engine knows no operation's mathematics"}, {"op", "the engine knows no operation"},
		{"device/cpu", "a backend brings the device"}, {"device/gpu", "a backend brings the device"},
		{"lower/cpu", "a backend brings the lowerings"}, {"lower/gpu", "a backend brings the lowerings"},
	}},
	{path: "backend/cpu", mustNot: []ban{
		{"device/gpu", "a program for the CPU alone has no code for GPUs"}, {"lower/gpu", "a program for the CPU alone has no code for GPUs"},
		{"internal/dl", "a program for the CPU alone opens no libraries"},
	}},
	{path: "backend/gpu", mustNot: []ban{
		{"device/gpu/cuda", "what all GPUs share knows none of them"}, {"device/gpu/hip", "what all GPUs share knows none of them"}, {"device/gpu/sim", "what all GPUs share knows none of them"},
		{"device/gpu/amdemu", "what all GPUs share knows none of them"},
	}},
	{path: "backend/*"},
	{path: "backend/gputest"},
	{path: "backend/all"},
	{path: "op"},
	{path: "op/*"},
	{path: "op/optest"},
	{path: "op/all"},
	{path: "evidence", mustNot: []ban{
		{"def", "a report does not know how its verdict was reached"},
		{"engine", "a report does not know how its verdict was reached"},
		{"op", "a report does not know how its verdict was reached"},
	}},
	{path: "evidence/html", only: &claim{[]string{"evidence", "internal/leftover", "internal/newfile", "internal/readfile"}, "a page shows what reports say"}},
	{path: "evidence/attest", only: &claim{[]string{"internal/readfile"}, "who signed does not depend on what was signed"}},
	{path: "evidence/ledger", only: &claim{[]string{"internal/filelock", "internal/leftover", "internal/newfile", "internal/readfile"}, "a log does not know what its entries say"}},
	{path: "accuracy", mustNot: []ban{{"op/all", "it measures the operations that it is given"}}},
	{path: "verify/cases", mustNot: []ban{
		{"device/cpu", "what makes test cases knows nothing of what is tested"}, {"device/gpu", "what makes test cases knows nothing of what is tested"},
		{"lower/cpu", "what makes test cases knows nothing of what is tested"}, {"lower/gpu", "what makes test cases knows nothing of what is tested"},
		{"evidence", "which inputs there are does not depend on what is said of them"}, {"op/all", "it lists cases of the operations that it is given"},
	}},
	{path: "verify/claimed", mustNot: []ban{{"engine", "a function is tested whatever computes it"}, {"op", "a function is tested whatever uses it"}, {"evidence", "a test does not know how it is reported"}}},
	{path: "verify/explain", mustNot: []ban{{"evidence", "what failures have in common does not depend on how it is reported"}, {"backend", "it sees results, whatever computed them"}, {"verify/origin", "what failures have in common does not depend on where they were seen"}}},
	{path: "verify/origin", mustNot: []ban{{"op", "where a report comes from does not depend on what was verified"}, {"verify/cases", "where a report comes from does not depend on what was tried"}}},
	{path: "verify/probe", mustNot: []ban{{"op/all", "an instruction is probed whatever uses it"}}},
	{path: "verify", mustNot: []ban{{"op/all", "it verifies the operations that it is given"}, {"accuracy", "what is measured there is a document, not a verdict"}}},
	{path: "soak", mustNot: []ban{{"op/all", "it is given the answers of cores"}}},
	{path: "verify/mutants"},
	{path: "bench", mustNot: []ban{{"op/all", "it measures the operations that it is given"}}},
	{path: "bench/chart", only: &claim{[]string{}, "a picture shows what records say"}},
	{path: "kernelprocess/stdio"},
	{path: "kernelprocess/protocol", only: &claim{[]string{"num"}, "messages are bytes: whoever sends them knows what they mean"}},
	{path: "kernelprocess/failure"},
	{path: "kernelprocess/shm", mustNot: []ban{{"def", "it moves bytes, whatever they mean"}}},
	{path: "kernelprocess/spawn", mustNot: []ban{{"def", "it starts programs, whatever they compute"}}},
	{path: "foreign", mustNot: []ban{{"op/all", "it runs the definitions that it is given"}}},
	{path: "bench/peers", mustNot: []ban{{"op/all", "it measures the operations that it is given"}}},
	{path: "bench/peers/gonum"},
	{path: "kernelprocess/judge", mustNot: []ban{{"op/all", "it judges calls of the operations that it is given"}}},
	{path: "kernelprocess/child", mustNot: []ban{{"verify", "a host that only runs kernels links no verifier"}, {"foreign", "a host that only runs kernels links no kernels from elsewhere"}, {"evidence", "a host that only runs kernels writes no reports"}}},
	{path: "kernelprocess", mustNot: []ban{{"verify", "a host that only runs kernels links no verifier"}, {"foreign", "a host that only runs kernels links no kernels from elsewhere"}, {"evidence", "a host that only runs kernels writes no reports"}}},
	{path: "kernelprocess/benchmark"},
	{path: "ranks", only: &claim{[]string{}, "it moves bytes, whatever they mean"}},
	{path: "ranks/launch", only: &claim{[]string{"ranks", "kernelprocess/shm", "device", "num"}, "it makes processes ranks, whatever they compute"}},
	{path: "ranks/courier", only: &claim{[]string{"ranks", "ranks/launch", "kernelprocess/shm", "kernelprocess/spawn", "device", "num"}, "it moves bytes, whatever they mean and whoever carries them"}},
	{path: "ranks/rankstest", only: &claim{[]string{"ranks"}, "it tests what moves bytes, whatever that is"}},
	{path: "ranks/nccl", mustNot: []ban{{"def", "a library moves bytes, not operations"}, {"train", "it moves bytes, whatever they mean"}}},
	{path: "ranks/mpi", mustNot: []ban{{"def", "a library moves bytes, not operations"}, {"train", "it moves bytes, whatever they mean"}}},
	{path: "data", only: &claim{[]string{"num", "tokenizer", "internal/jsontree", "internal/readfile"}, "a corpus is tokens, whatever learns them"}},
	{path: "model", mustNot: []ban{{"op/all", "a network names the operations that it has"}, {"data", "a network does not know what it is trained on"}, {"device/gpu", "a program runs on any queue"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "model/huggingface", mustNot: []ban{{"op/all", "a folder has networks, and these name their operations"}, {"train", "what is read may be used without training"}, {"device/gpu", "weights go to any device by the interface alone"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "model/tkp1", mustNot: []ban{{"op/all", "a file has a network, and this names its operations"}, {"train", "what is read may be used without training"}, {"device/gpu", "a file is numbers"}, {"verify", "nothing is computed"}}},
	{path: "train", mustNot: []ban{{"op/all", "a step names the operations that it has"}, {"device/gpu", "a run is the same on any queue"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "train/page", mustNot: []ban{{"op/all", "a page shows what runs have written"}, {"device/gpu", "a page shows what runs have written"}}},
	{path: "train/tensorboard", only: &claim{[]string{}, "it writes numbers, whatever they say"}},
	{path: "answer", mustNot: []ban{{"op/all", "drawing names the operations that it has"}, {"device/gpu", "an answer is the same on any queue"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "answer/answertest"},
	{path: "answer/openai", mustNot: []ban{{"op/all", "a request names no operation"}, {"device/gpu", "an answer is the same on any queue"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "serve", mustNot: []ban{{"op/all", "a server knows models, not operations"}, {"device/gpu", "a server answers from any queue"}, {"verify", "its calls are admitted by the engine"}}},
	{path: "internal/ondevice"},
	{path: "internal/archtest"},
	{path: "docs"},
	{path: ".", mustNot: []ban{{"op", "the root package imports no operation: programs import those that they use"}}},
	{path: "cmd/tokitai"},
	{path: "clients/python"},
	{path: "example/geglu"},
	{path: "example/greedy"},
	{path: "example/network"},
}

func TestImports(t *testing.T) {
	imports := parseTree(t)
	for folder, imported := range imports {
		from := roomOf(folder)
		if from < 0 {
			t.Errorf("folder %s: no rule names it; add it to the list of rooms in its reading order", folder)
			continue
		}
		for _, to := range imported {
			at := roomOf(to)
			if at >= from && to != folder && rooms[at].path != rooms[from].path {
				t.Errorf("%s imports %s, which comes after it: a room imports only rooms above it", folder, to)
			}
		}
		for _, b := range rooms[from].mustNot {
			if chain := reach(imports, folder, b.path, nil); chain != nil {
				t.Errorf("%s must not know %s (%s), but: %s", folder, b.path, b.why, strings.Join(chain, " → "))
			}
		}
		if c := rooms[from].only; c != nil {
			for _, to := range others(imports, folder, c.paths) {
				t.Errorf("%s reaches %s, want only %s (%s)", folder, to, strings.Join(c.paths, ", "), c.why)
			}
		}
	}
	for _, r := range rooms {
		if !slices.ContainsFunc(mapKeys(imports), func(f string) bool { return roomOf(f) >= 0 && rooms[roomOf(f)].path == r.path }) {
			t.Errorf("room %s has no folder: remove it from the list", r.path)
		}
	}
}

// TestOnlyTheProgramListsOperations holds op/all to its users: the program, and what makes
// any program a kernel process.
func TestOnlyTheProgramListsOperations(t *testing.T) {
	for folder, imported := range parseTree(t) {
		if slices.Contains(imported, "op/all") && folder != "cmd/tokitai" && folder != "kernelprocess" {
			t.Errorf("%s imports op/all: only the program and kernel processes do, everything else is given a list", folder)
		}
	}
}

// testOnly are modules that tests use and no program contains.
var testOnly = []string{"github.com/rogpeppe/go-internal", "github.com/x448/float16", "github.com/santhosh-tekuri/jsonschema", "gonum.org/v1/gonum"}

// TestProgramsAreWithoutTestModules: what only tests need is imported by tests alone.
func TestProgramsAreWithoutTestModules(t *testing.T) {
	for folder, imported := range modulesOf(t) {
		for _, name := range imported {
			if slices.ContainsFunc(testOnly, func(module string) bool { return name == module || strings.HasPrefix(name, module+"/") }) {
				t.Errorf("%s imports %s outside of tests", folder, name)
			}
		}
	}
}

// TestOperationsDoNotJudge leaves the judges to the engine, which admits lowerings by
// them: an operation does not judge itself, and speed is no judge.
func TestOperationsDoNotJudge(t *testing.T) {
	for folder, imported := range parseTree(t) {
		if (folder == "op" || strings.HasPrefix(folder, "op/") || folder == "bench") && slices.Contains(imported, "truth") {
			t.Errorf("%s imports truth: only the engine judges", folder)
		}
	}
}

// TestAncestor07_JudgesShareNoCode: an oracle that copies the kernel's algorithm
// shares its mistakes. What computes reaches neither judge, the judges do not reach
// each other or what computes.
func TestAncestor07_JudgesShareNoCode(t *testing.T) {
	imports := parseTree(t)
	for _, pair := range [][2]string{
		{"lower", "reference"}, {"lower/cpu", "reference"}, {"lower/cpu", "truth"}, {"lower/cpu", "num/exact"},
		{"reference", "lower"}, {"truth", "lower"}, {"truth", "reference"}, {"reference", "truth"},
	} {
		if _, ok := imports[pair[0]]; !ok {
			t.Fatalf("no folder %s", pair[0])
		}
		if chain := reach(imports, pair[0], pair[1], nil); chain != nil {
			t.Errorf("%s", strings.Join(chain, " → "))
		}
	}
}

// TestAncestorTrainer9_TheCPUNeedsNoGPU: the ancestor opened a GPU even to train on the CPU. What trains there cannot reach one.
func TestAncestorTrainer9_TheCPUNeedsNoGPU(t *testing.T) {
	imports := parseTree(t)
	for _, from := range []string{"train", "data", "backend/cpu"} {
		if len(imports[from]) == 0 {
			t.Fatalf("no folder %s", from)
		}
		for _, gpu := range []string{"device/gpu", "lower/gpu", "backend/gpu", "internal/dl"} {
			if chain := reach(imports, from, gpu, nil); chain != nil {
				t.Errorf("%s", strings.Join(chain, " → "))
			}
		}
	}
}

// TestNoTestIsInsideTheEngine: a test file in package engine would have everything compiled once more that its tests import and
// that imports the engine, some thirty packages. Package engine/internal/hook has what tests need of its private parts.
func TestNoTestIsInsideTheEngine(t *testing.T) {
	files, err := filepath.Glob("../../engine/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d test files, %v", len(files), err)
	}
	for _, file := range files {
		if f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly); err != nil || f.Name.Name != "engine_test" {
			t.Errorf("%s is in package %v, want engine_test; %v", file, f.Name, err)
		}
	}
}

// TestRulesBite shows that a forbidden import is seen, also through another room.
func TestRulesBite(t *testing.T) {
	tree := map[string][]string{"lower/cpu": {"lower"}, "lower": {"fn"}, "fn": {"reference"}}
	if chain := reach(tree, "lower/cpu", "reference", nil); !slices.Equal(chain, []string{"lower/cpu", "lower", "fn", "reference"}) {
		t.Errorf("chain to a forbidden room: got %v", chain)
	}
	if chain := reach(tree, "lower/cpu", "truth", nil); chain != nil {
		t.Errorf("chain to a room that is not reached: got %v", chain)
	}
	if got := others(tree, "lower", []string{"fn"}); !slices.Equal(got, []string{"reference"}) {
		t.Errorf("folders that lower reaches besides fn: got %v, want reference", got)
	}
	if roomOf("op/softmax") != slices.IndexFunc(rooms, func(r room) bool { return r.path == "op/*" }) || roomOf("nowhere/else") >= 0 {
		t.Error("folders are not mapped to their rooms")
	}
}

// roomOf finds the rule of a folder: the exact one, else the pattern, else that of
// the nearest folder above.
func roomOf(folder string) int {
	if folder == "." { // not the folder above all others, but a room like them
		return slices.IndexFunc(rooms, func(r room) bool { return r.path == "." })
	}
	for at := folder; at != "." && at != "/"; at = path.Dir(at) {
		if i := slices.IndexFunc(rooms, func(r room) bool { return r.path == at }); i >= 0 {
			return i
		}
		if i := slices.IndexFunc(rooms, func(r room) bool {
			ok, _ := path.Match(r.path, at)
			return ok
		}); i >= 0 {
			return i
		}
	}
	return -1
}

// reach returns a chain of imports from a folder into a room, or nil.
func reach(imports map[string][]string, folder, room string, seen map[string]bool) []string {
	if seen == nil {
		seen = map[string]bool{}
	}
	if seen[folder] {
		return nil
	}
	seen[folder] = true
	for _, to := range imports[folder] {
		if to == room || strings.HasPrefix(to, room+"/") {
			return []string{folder, to}
		}
		if chain := reach(imports, to, room, seen); chain != nil {
			return append([]string{folder}, chain...)
		}
	}
	return nil
}

// others returns the folders that a folder reaches, at any distance, besides the allowed
// ones.
func others(imports map[string][]string, folder string, allowed []string) []string {
	var found []string
	seen := map[string]bool{folder: true}
	for open := []string{folder}; len(open) > 0; open = open[1:] {
		for _, to := range imports[open[0]] {
			if seen[to] {
				continue
			}
			seen[to] = true
			open = append(open, to)
			if !slices.Contains(allowed, to) {
				found = append(found, to)
			}
		}
	}
	return found
}

// parseTree returns what every folder of the module imports from the module, tests
// left out.
func parseTree(t *testing.T) map[string][]string {
	t.Helper()
	imports := modulesOf(t)
	for folder, all := range imports {
		imports[folder] = nil
		for _, name := range all {
			if name == module {
				name += "/."
			}
			if to, ok := strings.CutPrefix(name, module+"/"); ok {
				imports[folder] = append(imports[folder], to)
			}
		}
	}
	return imports
}

// modulesOf returns what every folder of the module imports, tests left out.
func modulesOf(t *testing.T) map[string][]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") && file != root:
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(relative)
		if _, ok := imports[folder]; !ok {
			imports[folder] = nil
		}
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if name == "C" {
				t.Errorf("%s uses cgo", file)
			}
			if !slices.Contains(imports[folder], name) {
				imports[folder] = append(imports[folder], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func mapKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}
