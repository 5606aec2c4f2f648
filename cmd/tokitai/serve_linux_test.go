package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/await"
)

// TestServeIsolated serves a run from a process of its own, which has the flags that decide answers, and ends both
// by a signal.
func TestServeIsolated(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program)
	c.Args = []string{"tokitai", "serve", tinyRun(t), "--isolate", "--listen", "127.0.0.1:0", "--device", "cpu", "--name", "small", "--max-tokens", "2", "--log", "none"}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	name, url, _ := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || name != "small" {
		t.Fatalf("the server says %q: %v", line, err)
	}
	children := childrenOf(t, c.Process.Pid)
	response, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"ab","ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), `"completion_tokens":2,`) {
		t.Errorf("%s %s, %v, want an answer of two tokens", response.Status, text, err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if len(children) != 1 {
		t.Fatalf("the processes %v compute, want one", children)
	}
	await.For(t, "the process that computes has ended", func() bool {
		_, err := os.Stat("/proc/" + children[0])
		return os.IsNotExist(err)
	})
}

// childrenOf returns the ids of a process's children.
func childrenOf(t *testing.T, pid int) (children []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, strings.Fields(string(text))...)
	}
	return children
}
