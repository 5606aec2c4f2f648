package docs_test

import (
	"errors"
	"fmt"
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
	"tokitai/tensor/safetensors"
)

// shown is a command line of a document.
type shown struct {
	file string
	line int
	text string // as it stands there; a comment may follow the command

	digests []string // lines with a digest that the document says it prints
}

func (c shown) String() string { return fmt.Sprintf("%s:%d: %s", c.file, c.line, c.text) }

// commandWord begins a command line, after settings of variables.
var commandWord = regexp.MustCompile(`^([A-Z_]+=\S+ )*(tokitai|go|pip|python3?|cd|mkdir|tar|gcc|g\+\+|printf|scripts/\S+|\./\S+|\.ci/\S+|tokitai-gpu/\S+|jq|pytest|sed|chmod)( |$)`)

// digest matches what is the same on every machine.
var digest = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// shownIn returns the blocks of commands in a document, between fences or indented by four spaces, and the
// commands in its sentences, each as a block of its own. A block that has lines with "$ " shows what those
// print.
func shownIn(file, text string) (blocks [][]shown) {
	span := regexp.MustCompile("`([^`]+)`")
	isCode, isOther := false, false // in a block; in one of another language
	var block, prompted []shown
	isIndented, isAfterBlank := false, true
	for i, line := range strings.Split(text+"\n", "\n") {
		wasIndented := isIndented
		isIndented = !isCode && strings.HasPrefix(line, "    ") && (wasIndented || isAfterBlank)
		if wasIndented && !isIndented && len(block) != 0 {
			blocks, block = append(blocks, block), nil
		}
		isAfterBlank = strings.TrimSpace(line) == ""
		c := shown{file: filepath.ToSlash(file), line: i + 1, text: strings.TrimSpace(line)}
		if language, isFence := strings.CutPrefix(c.text, "```"); isFence {
			if isCode {
				if len(prompted) != 0 {
					block = prompted
				}
				if len(block) != 0 {
					blocks = append(blocks, block)
				}
			}
			isCode, isOther = !isCode, language != ""
			block, prompted = nil, nil
			continue
		}
		switch {
		case isOther && isCode || isCode && c.text == "":
		case isCode && strings.HasPrefix(c.text, "$ "):
			c.text = strings.TrimPrefix(c.text, "$ ")
			prompted = append(prompted, c)
		case isCode && len(prompted) != 0 && digest.MatchString(c.text):
			last := &prompted[len(prompted)-1]
			last.digests = append(last.digests, c.text)
		case (isCode || isIndented) && commandWord.MatchString(c.text):
			block = append(block, c)
		case isCode || isIndented:
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				if commandWord.MatchString(m[1]) && strings.Contains(m[1], " ") && !strings.HasPrefix(m[1], "./") {
					blocks = append(blocks, []shown{{file: c.file, line: c.line, text: m[1]}})
				}
			}
		}
	}
	return blocks
}

// A command is run as it stands there, unless one of these says why not. Then its words are
// held to the program's help: the command exists and has the flags.
var notRun = []struct {
	command *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`…|K/N|(^|[ =/])(OP|FUNCTION|NAME|FILE|DIR|FOLDER|MODEL|PATH|COMMAND|STEP\.\.\.|N)( |/|$|\))|^jq .* (REPORT|index)\.json`), "it is a pattern"},
	{regexp.MustCompile(`(cuda|hip):\d|--device (cuda|hip)|REQUIRE=cuda|--hip .*--device amdemu|bench launches|--tensors|tokitai-gpu|my-gpu|--(cuda|hip) \S+ --entry \S+ --launch '[^']*'$`), "it needs a GPU, or AMD's libraries"},
	{regexp.MustCompile(`tokitai kernel`), "TestKernelDocument of cmd/tokitai runs it, and compares its output"},
	{regexp.MustCompile(`^(tokitai [a-z-]+( --[a-z]+( \S+)?)?|go (test|run|vet))$|^tokitai (verify mma|(evidence|ledger) [a-z]+)$`), "it names a command"},
	{regexp.MustCompile(`^go (run ./cmd/tokitai verify|test ./\.\.\.)$|^tokitai verify --level quick$`), "the first step of .ci/run runs it, or most of it"},
	{regexp.MustCompile(`LEVEL=(full|exhaustive)|--level full`), "it takes long"},
	{regexp.MustCompile(`bench --peers|-update\b|--update|kernelprocess/benchmark|testlist -record|-bench |^TOKITAI_CPU=plain go test`), "it takes minutes, and writes what a test compares"},
	{regexp.MustCompile(`op/square|verify square|--device plain`), "TestRecipes follows the recipe"},
	{regexp.MustCompile(`^scripts/(prove|bundle|rocm|release|rename)|^tokitai prove |dist/0|^tokitai verify mma --device sim$`), "another step of .ci/run runs it"},
	{regexp.MustCompile(`survey.py|LEVEL=quick|tokitai process( |$)|^tokitai serve |--server|-m tokitai.kernel|^pip install|^python |qemu-`), "other tests run it"},
}

// commandExits lists commands that end with another code than 0, as the text around them says.
var commandExits = map[string]int{
	"tokitai diff run other": exitDifferent,
	"tokitai check softmax.forward --exec ./wrong.py --dtype f32 --level smoke": exitDifferent,
	"tokitai ledger verify ledger --trust who.json":                             exitDifferent,
}

// exitDifferent is the exit code of a comparison that has found a difference, and of a rejection.
const exitDifferent = 3

// commandAtRoot matches commands that are run in the root of the tree, and write nothing there that git
// does not ignore.
var commandAtRoot = regexp.MustCompile(`^(([A-Z_]+=\S+ )*go (run|test|install) (.* )?\./[a-z]|scripts/|\.ci/)`)

// quotedWord matches a word that a shell takes as one.
var quotedWord = regexp.MustCompile(`"[^"]*"|'[^']*'`)

// commandFlag matches a flag with the dashes that a word begins with.
var commandFlag = regexp.MustCompile(`^(--[a-z][a-z-]*)(=.*)?$`)

// TestCommands runs the commands that the README and the documents show, word for word, in a
// folder with the files that they name. A command that cannot be run here is held to the program's
// help instead. A document's commands need those before them.
func TestCommands(t *testing.T) {
	var blocks [][]shown
	for _, file := range commandDocuments(t) {
		blocks = append(blocks, shownIn(strings.TrimPrefix(file, "../"), readText(t, file))...)
	}
	if n := len(slices.Concat(blocks...)); n < 100 {
		t.Errorf("the documents show %d commands, want all of them", n)
	}
	testlevel.Need(t, testlevel.Quick, "it builds the program and runs what the documents show")
	bash := tool.Need(t, "bash")
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "tokitai"), "./cmd/tokitai")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	run := func(dir, script string) (string, int) {
		command := exec.Command(bash, "-c", script)
		command.Dir = dir
		command.Env = append(os.Environ(), path, "TOKITAI_LEVEL=", "TOKITAI_CPU=", "GOBIN="+bin, "TOKITAI_CACHE="+filepath.Join(bin, "cache"))
		out, err := command.CombinedOutput()
		if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
			t.Fatal(err)
		}
		return string(out), command.ProcessState.ExitCode()
	}
	done, folders := map[string]bool{}, map[string]string{}
	for _, block := range blocks {
		// A block runs in one shell; a cd holds for the lines after it.
		first := block[0]
		folder := folders[first.file]
		if folder == "" {
			folder = t.TempDir()
			if strings.HasPrefix(first.file, "docs/tutorial/") { // it has its own files
				folder = tutorialCopy(t, folder)
			} else {
				commandFiles(t, folder)
			}
			if out, code := run(folder, "tokitai run softmax.forward --in x.safetensors --out y.safetensors"); code != 0 {
				t.Fatal(out)
			}
			folders[first.file] = folder
		}
		dir := folder
		for _, c := range block {
			text, _, _ := strings.Cut(c.text, "  #")
			text, _, _ = strings.Cut(strings.TrimSpace(text), " # ")
			if done[text] {
				continue
			}
			done[text] = true
			t.Run(text, func(t *testing.T) {
				if why := reasonNotRun(text); why != "" {
					t.Logf("%s:%d: not run: %s", c.file, c.line, why)
					if unknown := unknownWords(text, func(command string) (string, int) { return run(folder, "tokitai "+command+" --help") }); unknown != "" {
						t.Errorf("%v: %s", c, unknown)
					}
					return
				}
				at, script := dir, c.text
				switch {
				case commandAtRoot.MatchString(text):
					at = ".."
				case strings.Contains(text, "cd "):
					script += "\npwd"
				}
				out, code := run(at, script)
				if code != commandExits[text] {
					t.Errorf("%v\nexit code %d, want %d:\n%s", c, code, commandExits[text], tail(out))
				}
				for _, line := range c.digests {
					if !strings.Contains(out, line) {
						t.Errorf("%v\nprints other digests than %q:\n%s", c, line, tail(out))
					}
				}
				if strings.Contains(text, "cd ") && code == 0 {
					dir = tail(out)[strings.LastIndexByte(tail(out), '\n')+1:]
					writeMain(t, dir)
				}
			})
		}
	}
}

func reasonNotRun(text string) string {
	for _, n := range notRun {
		if n.command.MatchString(text) {
			return n.why
		}
	}
	return ""
}

// writeMain writes the README's first program where its lines create a module.
func writeMain(t *testing.T, dir string) {
	t.Helper()
	if filepath.Base(dir) != "mine" {
		return
	}
	_, program, _ := strings.Cut(readText(t, "../README.md"), "<!-- generated: example -->\n\n```go\n")
	program, _, _ = strings.Cut(program, "```")
	text := "package main\n\nimport (\n\t\"fmt\"\n\t\"log\"\n\n\t\"tokitai\"\n\t\"tokitai/op/softmax\"\n)\n\nfunc main() {\n" + program + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// subcommand matches a word that may name a command of a command. After any other word, the help is that of the
// command itself.
var subcommand = regexp.MustCompile(`^[a-z]+$`)

// unknownWords holds a command line to the help of the program: it returns what the program does
// not know, or nothing.
func unknownWords(text string, help func(command string) (string, int)) string {
	_, call, isProgram := strings.Cut(" "+text, " tokitai ")
	if _, rest, isRun := strings.Cut(text, "go run ./cmd/tokitai "); isRun {
		call, isProgram = rest, true
	}
	words := strings.Fields(quotedWord.ReplaceAllString(call, "QUOTED"))
	if !isProgram || len(words) == 0 {
		return ""
	}
	command := words[0]
	if len(words) > 1 && subcommand.MatchString(words[1]) {
		command += " " + words[1]
	}
	said, code := help(command)
	if code != 0 {
		return fmt.Sprintf("there is no command %s", command)
	}
	for _, w := range words[1:] {
		if m := commandFlag.FindStringSubmatch(w); m != nil && !strings.Contains(said, m[1]+" ") && !strings.Contains(said, m[1]+"\n") {
			return fmt.Sprintf("%s has no flag %s", command, m[1])
		}
	}
	return ""
}

// commandDocuments lists the documents whose commands are run.
func commandDocuments(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../README.md", "../CONTRIBUTING.md", "../ARCHITECTURE.md", "../clients/python/README.md", "../proofs/README.md", "*.md", "bench/README.md", "decisions/*.md", "tutorial/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(found), err)
		}
		for _, file := range found {
			if !strings.HasPrefix(file, "../") {
				file = "../docs/" + file
			}
			files = append(files, file)
		}
	}
	return files
}

// tutorialCopy copies the tutorial's folder, with the evidence and the examples where it has them, and returns the copy's path.
func tutorialCopy(t *testing.T, folder string) string {
	t.Helper()
	to := filepath.Join(folder, "docs", "tutorial")
	err := os.CopyFS(to, os.DirFS("tutorial"))
	for _, beside := range []string{"docs/evidence", "example"} {
		path, e := filepath.Abs(filepath.Join("..", beside))
		err = errors.Join(err, e, os.Symlink(path, filepath.Join(folder, beside)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// commandFiles writes the files that commands read.
func commandFiles(t *testing.T, folder string) {
	t.Helper()
	tensor := func(name string, d num.DType, shape ...int) safetensors.Entry {
		elems := 1
		for _, n := range shape {
			elems *= n
		}
		a := num.NewArray(d, elems, 1)
		for i := range elems {
			if d == num.I32 {
				a.SetBits(i, 0, uint32(i%2))
			} else {
				a.SetBits(i, 0, num.Narrow(d, float32(i%7)/4))
			}
		}
		return safetensors.Entry{Name: name, DType: d, Shape: shape, Data: a.Data}
	}
	write := func(name string, entries ...safetensors.Entry) {
		path := filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if e := entries[0]; err == nil && filepath.Ext(name) == ".npy" {
			err = npy.WriteFile(path, npy.Array{DType: e.DType, Shape: e.Shape, Data: e.Data})
		} else if err == nil {
			err = safetensors.WriteFile(path, &safetensors.File{Entries: entries})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const width = 8
	write("x.safetensors", tensor("x", num.F16, 4, width))
	write("x.npy", tensor("x", num.F16, 4, width))
	write("h.npy", tensor("h", num.F16, 4, width))
	write("logits.npy", tensor("logits", num.F16, 4, width))
	write("label.npy", tensor("label", num.I32, 4))
	write("model/model.safetensors", tensor("ln_f.weight", num.F16, width), tensor("ln_f.bias", num.F16, width))
	write("state.safetensors", tensor("weight", num.F16, 4, width), tensor("grad", num.F16, 4, width), tensor("m", num.F32, 4, width), tensor("v", num.F32, 4, width))
	block := "transformer.h.0."
	shard := "gpt/model-00001-of-00001.safetensors"
	entries := []safetensors.Entry{tensor("transformer.wte.weight", num.F16, 5, width), tensor("lm_head.weight", num.F16, 5, width), tensor("position_ids", num.I32, 4),
		tensor(block+"ln_1.weight", num.F16, width), tensor(block+"ln_1.bias", num.F16, width), tensor(block+"attn.c_attn.weight", num.F16, width, 3*width)}
	write(shard, entries...)
	index := `{"metadata":{},"weight_map":{`
	for i, e := range entries {
		if i > 0 {
			index += ","
		}
		index += fmt.Sprintf("%q:%q", e.Name, filepath.Base(shard))
	}
	for name, text := range map[string]string{
		"gpt/model.safetensors.index.json": index + "}}",
		"rmsnorm.def":                      "tokitai-def 1\nrowwise rmsnorm\n  in    x[R,C] f16 bf16 f32\n  param eps float in [0,+Inf) default 1e-6\n  out   y[R,C] as x\n  y <- x * rsqrt(rowsum(x*x)/C + eps)\n",
		"geglu.def":                        "tokitai-def 1\nrowwise geglu\n  in    gate[R,C] f16 bf16 f32\n  in    up[R,C] as gate\n  out   y[R,C] as gate\n  y <- gate * (0.5 * (1 + erf(gate * {sqrt(1/2)}))) * up\n",
		"text.txt":                         "hello world\n",
		"conversation.json":                `[{"role":"user","content":"hello"}]`,
		"model/tokenizer_config.json":      `{"chat_template":"{% for m in messages %}{{ m.content }} {{ strftime_now('%Y') }}{% endfor %}"}`,
		"swish.def":                        "tokitai-def 1\nrowwise swish\n  in    x[R,C] f16 bf16 f32\n  out   y[R,C] as x\n  y <- x * sigmoid(x)\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{"tokenizer.json": "llama3.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(readText(t, "../tokenizer/testdata/"+from)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(folder, "qwen3"), os.DirFS("../model/huggingface/testdata/qwen3_moe")); err != nil {
		t.Fatal(err)
	}
	tree, err := filepath.Abs("..")
	if err == nil {
		// The checkout that lies beside, and its evidence.
		err = errors.Join(os.Symlink(tree, filepath.Join(folder, "tokitai")), os.Mkdir(filepath.Join(folder, "docs"), 0o777),
			os.Symlink(filepath.Join(tree, "docs", "evidence"), filepath.Join(folder, "docs", "evidence")))
	}
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../example/kernel/*")
	if err != nil || len(examples) == 0 {
		t.Fatal("no example/kernel", err)
	}
	for _, file := range examples {
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		for _, to := range []string{".", "example/kernel"} {
			to = filepath.Join(folder, to)
			if err := errors.Join(os.MkdirAll(to, 0o777), os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(readText(t, file)), info.Mode())); err != nil {
				t.Fatal(err)
			}
		}
	}
}
