package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tokitai/evidence"
	"tokitai/internal/leftover"
)

// batchResult is what became of one kernel of a folder: a line of --json.
type batchResult struct {
	Kernel  string             `json:"kernel"` // file
	Verdict string             `json:"verdict"`
	Exit    int                `json:"exit"` // code of a check of this kernel alone
	Reason  string             `json:"reason"`
	Seconds float64            `json:"seconds"`
	Results []evidence.Summary `json:"results"` // by definition and format

	Failures []evidence.RunFailure `json:"failures"` // of results that are rejected
}

// runBatch judges every file of a folder. In the flag that names the kernel, {} stands for its
// path. Each kernel is judged by a program of its own, several at a time, under the same seed.
func (f *checkFlags) runBatch(c *cobra.Command, way *kernelWay) error {
	kernel := c.Flags().Lookup(way.flag).Value.String()
	if !strings.Contains(kernel, "{}") {
		return wrongUse("--batch needs --%s with {}, which stands for the file of a kernel", way.flag)
	}
	for _, name := range []string{"out", "html"} {
		if c.Flags().Changed(name) {
			return wrongUse("--batch does not take --%s, which is for one kernel: check that kernel by itself", name)
		}
	}
	if f.speed.isSet {
		return wrongUse("--batch does not take --bench: kernels that run side by side cannot be timed")
	}
	entries, err := os.ReadDir(f.batch)
	if err != nil {
		return wrongUse("--batch: %v", err)
	}
	var kernels []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			kernels = append(kernels, e.Name())
		}
	}
	if len(kernels) == 0 {
		return wrongUse("--batch: %s has no files", f.batch)
	}
	if f.seed == "" {
		f.seed = strconv.FormatUint(secretSeed(), 10)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	shared, end, err := sharedFolder()
	if err != nil {
		return err
	}
	defer end()
	given, _ := c.Context().Value(argsKey{}).([]string)
	w := c.OutOrStdout()
	width := len("kernel")
	for _, name := range kernels {
		width = max(width, len(name))
	}
	if !f.json {
		fmt.Fprintf(w, "%-*s  %-12s  %7s  %8s  %s\n", width, "kernel", "verdict", "seconds", "cases", "reason")
		flush(w)
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	counts, next := map[string]int{}, make(chan string)
	for range min(runtime.GOMAXPROCS(0), len(kernels)) {
		work.Go(func() {
			for name := range next {
				path := filepath.Join(f.batch, name)
				if way.isCommand {
					path = shellQuoted(path)
				}
				r := judgeAlone(c, program, shared, append(withoutFlags(given, "batch", way.flag, "seed", "json"), "--"+way.flag, strings.ReplaceAll(kernel, "{}", path), "--seed", f.seed, "--json"))
				r.Kernel = name
				mu.Lock()
				counts[r.Verdict]++
				if f.json {
					line, _ := json.Marshal(r)
					fmt.Fprintf(w, "%s\n", line)
				} else {
					cases := 0
					for _, s := range r.Results {
						cases += s.Cases
					}
					fmt.Fprintf(w, "%-*s  %-12s  %7.1f  %8d  %s\n", width, name, r.Verdict, r.Seconds, cases, oneLine(strings.Join(linesOf(r.Reason), "; ")))
				}
				flush(w)
				mu.Unlock()
			}
		})
	}
	for _, name := range kernels {
		if c.Context().Err() != nil {
			break
		}
		next <- name
	}
	close(next)
	work.Wait()
	accepted, rejected, unfinished := counts[string(evidence.Accepted)], counts[string(evidence.Rejected)], counts[string(evidence.Unfinished)]
	undecided := len(kernels) - accepted - rejected - unfinished
	if !f.json {
		more := ""
		if unfinished > 0 {
			more = fmt.Sprintf(", %d unfinished", unfinished)
		}
		fmt.Fprintf(w, "\n%d accepted, %d rejected, %d undecided%s: %s, seed %s\n", accepted, rejected, undecided, more, counted(len(kernels), "kernel"), f.seed)
	}
	switch {
	case rejected > 0:
		return &verdictError{exitRejected, fmt.Errorf("%d of %d are rejected", rejected, len(kernels))}
	case undecided > 0:
		return &verdictError{exitUndecided, fmt.Errorf("%d of %d are undecided", undecided, len(kernels))}
	case unfinished > 0:
		return &verdictError{exitUnfinished, fmt.Errorf("%d of %d are unfinished: no fault, but the budget was too short for level smoke", unfinished, len(kernels))}
	}
	return nil
}

// sharedFolder makes the folder in which the kernels of a batch may keep what they share, as a
// process that has loaded a library. A connection to its socket lasts as long as the batch.
func sharedFolder() (path string, end func(), err error) {
	path, remove, err := leftover.Folder("", "tokitai-batch-")
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(path, "alive"))
	if err != nil {
		remove()
		return "", nil, err
	}
	go func() {
		var open []net.Conn // by whom the end of this process is noticed
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, conn := range open {
					conn.Close()
				}
				return
			}
			open = append(open, conn)
		}
	}()
	return path, func() { listener.Close(); remove() }, nil
}

// judgeAlone judges one kernel in a program of its own.
func judgeAlone(c *cobra.Command, program, shared string, args []string) batchResult {
	child := exec.CommandContext(c.Context(), program, args...)
	child.Env = append(os.Environ(), "GOMAXPROCS=1", "TOKITAI_BATCH="+shared) // as many run at once as there are processors
	var out, notes bytes.Buffer
	child.Stdout, child.Stderr = &out, &notes
	child.WaitDelay = time.Second
	began := time.Now()
	err := child.Run()
	r := batchResult{Verdict: string(evidence.Accepted), Results: []evidence.Summary{}, Failures: []evidence.RunFailure{}, Seconds: time.Since(began).Seconds()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.Exit = exit.ExitCode()
	} else if err != nil {
		r.Exit = exitFailed
		fmt.Fprint(&notes, err)
	}
	var run evidence.Run
	if json.Unmarshal(out.Bytes(), &run) == nil {
		r.Results, r.Failures = append(r.Results, run.Results...), append(r.Failures, run.Failures...)
	}
	switch r.Exit {
	case exitOK:
		return r
	case exitRejected:
		r.Verdict = string(evidence.Rejected)
	case exitUnfinished:
		r.Verdict = string(evidence.Unfinished)
	default:
		r.Verdict = string(evidence.Undecided)
	}
	if len(r.Failures) > 0 {
		r.Reason = failureInShort(&r.Failures[0])
		return r
	}
	for _, s := range r.Results {
		if s.Verdict != evidence.Accepted && (s.Verdict != evidence.Skipped || r.Exit == exitUndecided) {
			r.Reason = cmp.Or(r.Reason, s.Reason)
		}
	}
	said := strings.TrimPrefix(strings.TrimSpace(notes.String()), toolName+" check: ")
	r.Reason = cmp.Or(r.Reason, strings.TrimSpace(strings.TrimSuffix(said, fmt.Sprintf("see '%s --help'", c.CommandPath()))))
	return r
}

// failureInShort says in one line what is wrong, where, and in which case.
func failureInShort(f *evidence.RunFailure) string {
	text := f.DType + ": " + strings.TrimPrefix(f.Failure.Message, f.Lowering+": ")
	if f.Failure.Got != "" {
		text += fmt.Sprintf(": got %s, want %s", f.Failure.Got, f.Failure.Want)
	}
	return text + ", in case " + f.Failure.Case
}

// linesOf returns the lines of a text that have more than spaces.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// withoutFlags returns arguments without some flags and their values.
func withoutFlags(args []string, names ...string) (rest []string) {
	for i := 0; i < len(args); i++ {
		isDropped := false
		for _, name := range names {
			switch {
			case args[i] == "--"+name && name != "json":
				i, isDropped = i+1, true
			case args[i] == "--json" && name == "json", strings.HasPrefix(args[i], "--"+name+"="):
				isDropped = true
			}
			if isDropped {
				break
			}
		}
		if !isDropped {
			rest = append(rest, args[i])
		}
	}
	return rest
}
