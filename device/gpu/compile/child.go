package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"tokitai/internal/leftover"
)

// childLimit is the time after which a compiler is killed. Tests change it.
var childLimit = 10 * time.Minute

// runChild runs a compiler in dir, where it also puts its temporary files, and appends
// its output to log. The compiler and its children do not outlive this process. They do
// not get a terminal's interrupt, which is for this process to handle. Variables are added
// to the environment.
func runChild(path, dir, input string, arguments []string, log *bytes.Buffer, variables ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	command := exec.CommandContext(ctx, path, arguments...)
	command.Dir = dir
	command.Env = append(append(os.Environ(), "LC_ALL=C", "TMPDIR="+dir), variables...)
	command.Stdin = strings.NewReader(input)
	command.Stdout, command.Stderr = log, log
	ownGroup(command)
	command.Cancel = func() error {
		killGroup(command)
		return nil
	}
	forget, err := leftover.Make(func() (func(), error) { return func() { killGroup(command) }, command.Start() })
	if err != nil {
		return err
	}
	err = command.Wait()
	forget()
	if ctx.Err() != nil {
		err = fmt.Errorf("killed after %v: %w", childLimit, ctx.Err())
	}
	return err
}

// isRejected reports whether err means that the compiler rejected its input with a
// message.
func isRejected(err error, log *bytes.Buffer) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Exited() && log.Len() > 0
}
