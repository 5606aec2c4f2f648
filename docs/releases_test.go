package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// command runs a command in a folder and returns what it prints. It fails the test if that fails.
func command(t *testing.T, dir string, env []string, words ...string) string {
	t.Helper()
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// author is who commits in copies of the tree.
var author = []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}

// clone returns a copy of the committed tree in a new folder of the given name.
func clone(t *testing.T, name string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("needs the repository of the tree: ", err)
	}
	dir := filepath.Join(t.TempDir(), name)
	command(t, root, nil, "git", "clone", "-q", root, dir)
	return dir
}

// TestReleaseTwice builds a release in two folders of different names and compares every file; the
// signed provenance is about each of them.
func TestReleaseTwice(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "builds the program five times")
	python := tool.Need(t, "python3")
	target := runtime.GOOS + "/" + runtime.GOARCH
	build := func(name string, flags ...string) string {
		dir := clone(t, name)
		command(t, dir, nil, append([]string{python, "scripts/release", "0.1.0-rc.1", "--targets", target}, flags...)...)
		return filepath.Join(dir, "dist", "0.1.0-rc.1")
	}
	keys := t.TempDir()
	tokitai := filepath.Join(keys, "tokitai")
	command(t, "..", nil, "go", "build", "-o", tokitai, "./cmd/tokitai")
	command(t, keys, nil, tokitai, "evidence", "key", "k", "--plain")
	command(t, keys, nil, tokitai, "evidence", "trust", "trust.json", "k=k.pub.pem")
	one, two := build("one", "--key", filepath.Join(keys, "k.key.pem")), build("another name")
	refused := exec.Command(python, "scripts/release", "0.1.0", "--key", filepath.Join(keys, "none"))
	refused.Dir = filepath.Dir(filepath.Dir(two))
	if out, err := refused.CombinedOutput(); err == nil || strings.Contains(string(out), "manylinux") {
		t.Errorf("with a key that is missing: %v\n%s", err, out)
	}
	for _, dir := range []string{one, two} {
		command(t, dir, nil, "sha256sum", "--quiet", "--check", "SHA256SUMS")
	}
	list, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range list {
		kinds[filepath.Ext(e.Name())]++
		if e.Name() == "provenance.intoto.jsonl" {
			continue
		}
		if a, b := readText(t, filepath.Join(one, e.Name())), readText(t, filepath.Join(two, e.Name())); a != b {
			t.Errorf("%s differs between two builds", e.Name())
		}
	}
	if kinds[".whl"] == 0 || kinds[".gz"]+kinds[".zip"] != 1 {
		t.Errorf("files: %v", kinds)
	}
	for _, name := range []string{"CHANGES.md", "sbom.cdx.json"} {
		command(t, one, nil, tokitai, "evidence", "verify", "provenance.intoto.jsonl", "--trust", filepath.Join(keys, "trust.json"), "--blob", name)
	}
	var bom struct {
		BomFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(readText(t, filepath.Join(one, "sbom.cdx.json"))), &bom); err != nil || bom.BomFormat != "CycloneDX" {
		t.Error(err, bom.BomFormat)
	}
	names := ""
	for _, c := range bom.Components {
		names += c.Name + "\n"
	}
	for _, want := range []string{"std\n", "github.com/spf13/cobra\n", "golang.org/x/mod\n"} {
		if !strings.Contains(names, want) {
			t.Errorf("the SBOM lacks %s", want)
		}
	}
	if strings.Contains(names, "jsonschema") {
		t.Error("the SBOM has a module that only tests use")
	}
	if text := readText(t, filepath.Join(one, "CHANGES.md")); !strings.HasPrefix(text, "## 0.1.0-rc.1\n\n### ") {
		t.Errorf("CHANGES.md begins with %.40q", text)
	}
}

// TestReleaseRefuses: no release is built from a tree with changes, or of a version of another form.
func TestReleaseRefuses(t *testing.T) {
	python := tool.Need(t, "python3")
	for _, version := range []string{"0.1", "v0.1.0", "0.1.0-dev", "0.1.0; true"} {
		if out, err := exec.Command(python, "../scripts/release", version).CombinedOutput(); err == nil || !strings.Contains(string(out), "is no version") {
			t.Errorf("version %s: %v\n%s", version, err, out)
		}
	}
	if out, err := exec.Command(python, "../scripts/release", "0.1.0", "--targets", "plan9/386").CombinedOutput(); err == nil || !strings.Contains(string(out), "want some of") {
		t.Errorf("an unknown target: %v\n%s", err, out)
	}
	for _, path := range []string{"tokitai", "example.org/a b", "../x"} {
		if out, err := exec.Command(python, "../scripts/rename", path).CombinedOutput(); err == nil || !strings.Contains(string(out), "is no module path") {
			t.Errorf("path %s: %v\n%s", path, err, out)
		}
	}
}

// TestReleaseRefusesEarly: what would make a release useless is found before anything is built.
func TestReleaseRefusesEarly(t *testing.T) {
	python := tool.Need(t, "python3")
	dir, noGo := clone(t, "early"), t.TempDir()
	if err := os.WriteFile(filepath.Join(noGo, "go"), []byte("#!/bin/sh\necho nothing is built here\nexit 1\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + noGo + ":" + os.Getenv("PATH")
	command(t, dir, author, "git", "commit", "-q", "--allow-empty", "-m", "later")
	command(t, dir, nil, "git", "tag", "v0.1.0", "HEAD~1")
	for want, args := range map[string][]string{
		"the tag v0.1.0 is at another commit":  {"0.1.0"},
		"CHANGELOG.md has no part about 9.9.9": {"9.9.9"},
		"want some of":                         {"0.1.1", "--targets", "plan9/386"},
		filepath.Join(dir, "docs") + " exists": {"0.1.1", "--out", "docs"},
	} {
		c := exec.Command(python, append([]string{"scripts/release"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), path)
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v\n%s\nwant %s", args, err, out, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, "scripts/release", "0.1.1")
	c.Dir, c.Env = dir, append(os.Environ(), path)
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "the tree has changes") {
		t.Errorf("a dirty tree: %v\n%s", err, out)
	}
}

// TestRename renames a copy of the module in one commit, and installs it from a file proxy.
func TestRename(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "compiles everything under another path")
	python := tool.Need(t, "python3")
	const path, version = "example.org/kernels/tokitai", "v0.1.0"
	dir := clone(t, "copy")
	before := strings.TrimSpace(command(t, dir, nil, "git", "rev-parse", "HEAD"))
	command(t, dir, author, python, "scripts/rename", path)
	if n := strings.TrimSpace(command(t, dir, nil, "git", "rev-list", "--count", before+"..HEAD")); n != "1" {
		t.Errorf("%s commits, want 1", n)
	}
	if status := command(t, dir, nil, "git", "status", "--porcelain"); status != "" {
		t.Errorf("the tree has changes: %s", status)
	}
	command(t, dir, nil, "go", "list", "-test", "-deps", "./...") // every import leads to a package
	command(t, dir, nil, "go", "test", "./internal/archtest")

	proxy := filepath.Join(t.TempDir(), "proxy")
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o777); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err == nil {
		err = zip.CreateFromVCS(file, module.Version{Path: path, Version: version}, dir, "HEAD", "")
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version), version + ".mod": readText(t, filepath.Join(dir, "go.mod")),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cache := strings.TrimSpace(command(t, "..", nil, "go", "env", "GOMODCACHE"))
	bin := t.TempDir()
	settings := []string{"GOBIN=" + bin, "GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download", "GONOSUMDB=*", "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir()}
	command(t, t.TempDir(), settings, "go", "install", path+"/cmd/tokitai@"+version)
	if out := command(t, bin, nil, "./tokitai", "explain", "softmax.forward"); !strings.Contains(out, "softmax") {
		t.Errorf("the installed program prints %s", out)
	}
}

// TestTemplates runs the shell parts of the templates for the CI of other repositories.
func TestTemplates(t *testing.T) {
	bash := tool.Need(t, "bash")
	dir := t.TempDir()
	script := "#!/bin/sh\nfor w; do echo \"<$w>\"; done\n"
	if err := os.WriteFile(filepath.Join(dir, "tokitai"), []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?m)^ +(?:run: |- )\|\n((?: {6,}.*\n)+)`)
	for _, file := range []string{"../ci/github/action.yml", "../ci/gitlab.yml"} {
		text := readText(t, file)
		blocks := block.FindAllStringSubmatch(text, -1)
		if len(blocks) != 2 {
			t.Fatalf("%s has %d scripts, want 2", file, len(blocks))
		}
		var said []string
		for _, m := range blocks {
			c := exec.Command(bash, "-ec", m[1])
			c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "INSTALL=echo installed", "TOKITAI_INSTALL=echo installed", "TOKITAI_OUT=r.zip",
				`TOKITAI_ARGS=softmax.forward --exec "python3 ./my softmax.py"`)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, out)
			}
			said = append(said, string(out))
		}
		c := exec.Command(bash, "-ec", blocks[0][1])
		c.Env = []string{"PATH=" + os.Getenv("PATH")}
		if out, err := c.CombinedOutput(); file == "../ci/gitlab.yml" && (err == nil || !strings.Contains(string(out), "want a command that installs tokitai")) {
			t.Errorf("%s without a command that installs: %v\n%s", file, err, out)
		}
		if strings.Contains(text, "pip install tokitai") {
			t.Errorf("%s installs whatever a package index has by that name", file)
		}
		want := []string{"installed\n", "<check>\n<softmax.forward>\n<--exec>\n<python3 ./my softmax.py>\n<--out>\n<r.zip>\n"}
		if !slices.Equal(said, want) {
			t.Errorf("%s: %q, want %q", file, said, want)
		}
	}
}
