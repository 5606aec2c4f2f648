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

// childLimit ends a compiler that hangs.
const childLimit = 10 * time.Minute

// runChild runs a compiler in a folder, which also has its temporary files, and adds what
// it says to log. The compiler and what it starts do not outlive this process, and a
// terminal's interrupt does not reach them: it is for this process to decide.
func runChild(path, dir, input string, arguments []string, log *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	command := exec.CommandContext(ctx, path, arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), "LC_ALL=C", "TMPDIR="+dir)
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
		err = fmt.Errorf("it did not end in %v: %w", childLimit, ctx.Err())
	}
	return err
}

// isRefusal reports whether the error of a compiler is that it refused its input and said
// why.
func isRefusal(err error, log *bytes.Buffer) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Exited() && log.Len() > 0
}
