package main

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// refuserVariable is set for a process that is a refuser.
const refuserVariable = "TOKITAI_SCRIPT_REFUSER"

// refuser is a process that executes the commands of one script that are wrong use. There are hundreds
// of them in the scripts, and to start the program takes ten times as long as to refuse one.
type refuser struct {
	setup *testscript.Env
	names []string // of the variables that the script sets
	place []string // of the process that runs: its folder and those variables

	process *exec.Cmd // nil before the first command
	in      io.WriteCloser
	send    *gob.Encoder
	receive *gob.Decoder
	said    strings.Builder // on its own standard error: a panic
}

// refusal is what a command in a refuser did.
type refusal struct {
	Code           int
	Stdout, Stderr string
}

var setVariable = regexp.MustCompile(`(?m)^(?:\[.*\] )?env (\w+)=`)

func newRefuser(e *testscript.Env) (*refuser, error) {
	name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
	text, err := os.ReadFile(filepath.Join("testdata/script", name+".txt"))
	if err != nil {
		return nil, err
	}
	r := &refuser{setup: e}
	for _, found := range setVariable.FindAllSubmatch(text, -1) {
		r.names = append(r.names, string(found[1]))
	}
	e.Defer(r.end)
	return r, nil
}

// run executes a command where the script is now.
func (r *refuser) run(ts *testscript.TestScript, args []string) (refusal, error) {
	place := []string{ts.MkAbs(".")}
	for _, name := range r.names {
		place = append(place, name+"="+ts.Getenv(name))
	}
	if r.process == nil || !slices.Equal(place, r.place) {
		r.end()
		if err := r.start(place); err != nil {
			return refusal{}, err
		}
	}
	var got refusal
	err := r.send.Encode(args)
	if err == nil {
		err = r.receive.Decode(&got)
	}
	if err != nil {
		r.end()
		return got, fmt.Errorf("the process that executes it: %w\n%s", err, &r.said)
	}
	return got, nil
}

func (r *refuser) start(place []string) error {
	p := exec.Command(r.setup.Getenv("TOKITAI"))
	p.Dir, p.Env, p.Stderr = place[0], slices.Concat(r.setup.Vars, place[1:], []string{refuserVariable + "=1"}), &r.said
	in, err := p.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	r.process, r.place, r.in, r.send, r.receive = p, place, in, gob.NewEncoder(in), gob.NewDecoder(out)
	return nil
}

func (r *refuser) end() {
	if r.process != nil {
		r.in.Close()
		r.process.Wait()
		r.process = nil
	}
}

// beRefuser executes the commands that a refuser is sent, until there are no more.
func beRefuser() {
	requests, replies := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	os.Stdin, os.Stdout = nothing, nothing
	for {
		var args []string
		if requests.Decode(&args) != nil {
			return
		}
		var stdout, stderr strings.Builder
		code := execute(context.Background(), args, &stdout, &stderr)
		if err := replies.Encode(refusal{code, stdout.String(), stderr.String()}); err != nil {
			panic(err)
		}
	}
}

// runInScript executes a command and returns its exit code.
func runInScript(ts *testscript.TestScript, want int, args []string) (int, error) {
	if want == exitWrongUse && args[0] == "tokitai" {
		got, err := ts.Value(refuserVariable).(*refuser).run(ts, args[1:])
		fmt.Fprint(ts.Stdout(), got.Stdout)
		fmt.Fprint(ts.Stderr(), got.Stderr)
		return got.Code, err
	}
	err := ts.Exec(args[0], args[1:]...)
	if failed, ok := err.(*exec.ExitError); ok {
		return failed.ExitCode(), nil
	}
	return 0, err
}
