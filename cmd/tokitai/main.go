// Command tokitai verifies deep-learning kernels, runs them on tensors from files, and
// explains what they compute.
//
// Each subcommand has a file of its own. This one has what they share: the exit
// codes, and the printing of errors and results.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/chat"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/evidence/ledger"
	"tokitai/kernelprocess/stdio"
	"tokitai/lower/cpu/machine"
	"tokitai/tensor"
	"tokitai/tensor/file"
	"tokitai/tokenizer"
	"tokitai/verify"
)

func main() {
	args := os.Args[1:]
	// If the reader of a pipe is gone, writing returns an error, instead of the end of this
	// process with files half written. Children do not inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var stdout io.Writer = os.Stdout
	if isStdoutClosed() {
		stdout = closedWriter{}
	}
	runInterruptibly(commandNamed(args), func(ctx context.Context) int { return execute(ctx, args, stdout, os.Stderr) })
}

// commandNamed returns the name of the command in args, for messages.
func commandNamed(args []string) string {
	root := newRoot()
	if c, _, err := root.Find(args); err == nil {
		return c.CommandPath()
	}
	return root.CommandPath()
}

// execute runs the program with args and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out := bufio.NewWriter(&resultWriter{stdout, end})
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	misspelt := rejectUnknownHelp(root)
	command, err := root.ExecuteContextC(context.WithValue(ctx, argsKey{}, args))
	if err == nil {
		err = *misspelt
	}
	err = withLostOutput(err, out.Flush())
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	code := exitCode(err)
	if process, ok := errors.AsType[*stdio.Error](err); ok {
		fmt.Fprintln(stderr, process)
		return code
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), command.Name()+": ") // of the package that has the command's name
		fmt.Fprintf(stderr, "%s: %s\n", command.CommandPath(), oneLine(text))
		if e, ok := errors.AsType[detailed](err); ok {
			for line := range strings.Lines(e.Detail()) {
				fmt.Fprintf(stderr, "  %s\n", oneLine(strings.TrimSuffix(line, "\n")))
			}
		}
	}
	if code == exitWrongUse {
		fmt.Fprintf(stderr, "see '%s --help'\n", command.CommandPath())
	}
	if e, ok := errors.AsType[interface {
		error
		afterMessage(code int)
	}](err); ok {
		e.afterMessage(code)
	}
	return code
}

// resultWriter writes to standard output. The first error ends the command: what it would
// still compute, nobody would see.
type resultWriter struct {
	w   io.Writer
	end context.CancelCauseFunc
}

func (r *resultWriter) Write(data []byte) (int, error) {
	n, err := r.w.Write(data)
	if err != nil {
		r.end(err)
	}
	return n, err
}

// withLostOutput returns the error of a command whose output could not be written, because of
// lost. It keeps an error that means more than that: a kernel is rejected, or the command line
// is wrong.
func withLostOutput(err, lost error) error {
	if lost == nil {
		return err
	}
	lost = fmt.Errorf("writing the result: %w", lost)
	if _, isProcess := errors.AsType[*stdio.Error](err); isProcess {
		return err
	}
	switch exitCode(err) {
	case exitWrongUse:
		return err
	case exitRejected:
		return &verdictError{exitRejected, both(err, lost)}
	}
	return &verdictError{exitFailed, lost} // whatever its cause is
}

// closedWriter is standard output that was closed before the program began.
type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("standard output is closed") }

// detailed is an error with more lines than one, such as those of a compiler.
type detailed interface {
	error
	Detail() string
}

// rejectUnknownHelp makes --help after an unknown command an error. The result points to
// that error once the command has run, since a help function cannot return one.
func rejectUnknownHelp(root *cobra.Command) *error {
	var misspelt error
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			misspelt = noArguments(c, c.Flags().Args())
		}
		if misspelt == nil {
			help(c, args)
		}
	})
	return &misspelt
}

// argsKey is the context key of the program's arguments.
type argsKey struct{}

// shellQuoted returns s quoted for a shell.
func shellQuoted(s string) string {
	isPlain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=:,+@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tokitai",
		Short: "verified deep-learning kernels",
		Long: `Verified deep-learning kernels: each operation is defined once, with every
rounding and the order of every sum, and gives the same bits on every machine (matrix
products with --policy same). A kernel is used only after it has reproduced known
answers on this device.

Results go to standard output; notes and errors go to standard error, errors as text
even with --json.

Exit codes
  0  done; everything that was verified is accepted
  1  failed, although nothing that was given is wrong: reading or writing failed, a disk or
     the memory is full, a tool is not installed
  2  wrong use, something that was given is wrong: an unknown name or flag, a value, dtype,
     shape or index that does not fit, a file that is missing, not permitted, of another kind
     or malformed, an instruction set in TOKITAI_CPU that the processor lacks
  3  rejected: a kernel whose results are not those of its definition
  4  undecided, neither accepted nor rejected: no such device, no kernel that passes its self-test, a kernel that
     ended in an error or hung, or an interrupt (SIGINT, SIGTERM)
  5  unfinished: no fault so far, but --budget was too short for the cases of level smoke
The commands kernel and process have their own exit codes.

An interrupt ends every command within a second. Results found by then are printed;
files are written completely or not at all, and no temporary files are left.
Long commands report their progress and the remaining time on standard error: on a
terminal in a line that changes, elsewhere in a line after 3 seconds and then every 30
seconds.`,
		Example: `  tokitai verify softmax --level smoke
  tokitai doctor
  tokitai explain softmax.forward
  tokitai run softmax.forward --in x.safetensors --out y.safetensors`,
		Version:       version,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return refuseEmptyFlags(c.Flags()) },
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(c.ErrOrStderr())
			c.Help()
			return wrongUse("no command given")
		},
	}
	root.SetVersionTemplate("tokitai {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp())
	root.AddCommand(
		newVerify(), newCheck(), newEvidence(), newLedger(), newDoctor(),
		newRun(), newExplain(), newAccuracy(), newProve(),
		newTrain(), newRank(), newCarry(), newReplay(), newDiff(), newEval(), newExport(), newInfer(), newPage(),
		newGenerate(), newServe(),
		newTokenize(), newDetokenize(), newChatTemplate(),
		newBench(), newKernel(), newProcess(), newCache(), newVersion(), newCompletion(),
	)
	return root
}

// The exit codes of every command. Go itself exits with 2 on a panic, so that no
// verdict may be 2.
const (
	exitOK         = 0
	exitFailed     = 1
	exitWrongUse   = 2
	exitRejected   = 3
	exitUndecided  = 4
	exitUnfinished = 5
)

func exitCode(err error) int {
	var usage *usageError
	var verdict *verdictError
	var process *stdio.Error
	switch {
	case err == nil:
		return exitOK
	case isMissing(err):
		return exitUndecided
	case errors.As(err, &process):
		return process.Code
	case errors.As(err, &verdict):
		return verdict.code
	case errors.Is(err, device.ErrNoDevice), errors.Is(err, device.ErrLost), errors.Is(err, engine.ErrInadmissible):
		return exitUndecided
	case errors.As(err, &usage), errors.Is(err, tensor.ErrBadArgument), errors.Is(err, machine.Check()), isUnusableFile(err):
		return exitWrongUse
	}
	return exitFailed
}

// isUnusableFile reports whether an error says that a path does not lead to a file that can be
// used: it is missing, not permitted, of another kind or malformed. A path comes from whoever
// gave the command. Reading or writing that fails on the way is none of these.
func isUnusableFile(err error) bool {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP} {
		if errors.Is(err, kind) {
			return true
		}
	}
	_, isNoShard := errors.AsType[*verify.ShardError](err)
	_, isNewer := errors.AsType[*evidence.NewerError](err)
	_, isNoEvidence := errors.AsType[*attest.FormatError](err)
	_, isNoLedger := errors.AsType[*ledger.Malformed](err)
	_, isTokenizer := errors.AsType[*tokenizer.FormatError](err)
	_, isTemplate := errors.AsType[*chat.FormatError](err)
	return isNoShard || isNewer || isNoEvidence || isNoLedger || isTokenizer || isTemplate || file.IsFormat(err)
}

// usageError is an invalid command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// verdictError is an error with its own exit code: something is rejected or undecided.
type verdictError struct {
	code int
	err  error
}

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }

func wrongUse(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// unknownName returns an error for an unknown name, with similar known names.
func unknownName(what, name string, known []string) error {
	const most = 8 // listed
	var distinct []string
	for _, k := range known {
		if !slices.Contains(distinct, k) {
			distinct = append(distinct, k)
		}
	}
	hint := didYouMean(name, distinct)
	switch {
	case hint != "":
	case len(distinct) <= most:
		hint = ", want " + oneOf(distinct)
	case what == "operation":
		hint = "; 'tokitai explain' lists them"
	}
	return wrongUse("unknown %s %q%s", what, name, hint)
}

// noArguments returns an error if there are arguments. If the command has subcommands,
// the first argument is reported as an unknown one.
func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasAvailableSubCommands():
		return unknownCommand(c, args[0])
	}
	return wrongUse("unexpected argument %q", args[0])
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	return wrongUse("unknown command %q%s", name, didYouMean(name, names))
}

func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return wrongUse("%v", err)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, "--"+f.Name)
	})
	name := "--" + unknown.GetSpecifiedName()
	return wrongUse("unknown flag %s%s", name, didYouMean(name, names))
}

// refuseEmptyFlags returns an error for a flag with an empty value, which would look like
// a flag that is not given.
func refuseEmptyFlags(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if err == nil && (len(values) == 0 || slices.Contains(values, "")) {
			want, _ := pflag.UnquoteUsage(f)
			err = wrongUse("--%s has an empty value, want %s", f.Name, want)
		}
	})
	return err
}

// flush flushes w if it is buffered, so that a reader sees the output now. Errors stay
// with the writer.
func flush(w io.Writer) {
	if f, ok := w.(interface{ Flush() error }); ok {
		f.Flush()
	}
}

// printJSON prints v as JSON.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// jsonFlag adds --json.
func jsonFlag(c *cobra.Command, value *bool) {
	c.Flags().BoolVar(value, "json", false, "print JSON")
}

// oneLine escapes line breaks and control characters, as names in files may contain them.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
