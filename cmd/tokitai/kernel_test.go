package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

// The examples of docs/stdio.md: what a shell prints for each line after "$ ". A
// value of ... is any.
func TestKernelDocument(t *testing.T) {
	shell := tool.Need(t, "sh")
	text, err := os.ReadFile("../../docs/stdio.md")
	if err != nil {
		t.Fatal(err)
	}
	measured := regexp.MustCompile(`(?m)^(DEVICE_NAME|KERNEL_TIME_MS)=.+$`)
	ran := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n$ ") {
			continue
		}
		for _, example := range strings.Split(block, "\n$ ")[1:] {
			command, want, _ := strings.Cut(strings.TrimSuffix(example, "\n")+"\n", "\n")
			if !strings.Contains(command, "tokitai kernel") {
				continue
			}
			got, _ := exec.Command(shell, "-c", command).CombinedOutput()
			if got := string(measured.ReplaceAll(got, []byte("$1=..."))); got != want {
				t.Errorf("%s\ngot  %q\nwant %q", command, got, want)
			}
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("%d examples ran", ran)
	}
}

// A server answers each frame before the next arrives, and ends when nobody reads.
func TestKernelServer(t *testing.T) {
	const request, response = "\x04\x00\x00\x001\n0\n", "RESULTS=0\n"
	server := exec.Command("tokitai", "kernel", "gelu", "--server", "--device", "cpu")
	var stderr bytes.Buffer
	server.Stderr = &stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := in.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for !strings.HasSuffix(string(got), response) {
			part := make([]byte, 1024)
			n, err := out.Read(part)
			if err != nil {
				t.Fatalf("%v after %q; %s", err, got, &stderr)
			}
			got = append(got, part[:n]...)
		}
	}
	out.Close()
	in.Write([]byte(request))
	if err := server.Wait(); err == nil {
		t.Error("the server ended well with its output closed")
	}
}
