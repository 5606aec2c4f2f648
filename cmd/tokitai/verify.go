package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/op/all"
	"tokitai/verify"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	device, lowering, interpret string
	params                      []string
	shard                       shardFlags
	judgeFlags
}

// verifyTargets returns all targets of a backend; tests replace it.
var verifyTargets = func(b engine.Backend) []*verify.Target { return verify.Targets(all.Operations, b) }

func newVerify() *cobra.Command { return new(verifyFlags).command() }

func (f *verifyFlags) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify [OP]...",
		Short: "check that kernels compute what their definitions say",
		Long: `Run the kernels of every operation, or of the named ones, on cases that reach every
boundary, and compare every output with the reference, bit for bit. OP is an
operation, a definition, a group (softmax is softmax.forward and softmax.backward), or a
file that defines an operation (docs/definitions.md).

What is verified is what calls run on this machine. --lowering selects another lowering,
or with all every one that a call may choose: on the CPU machine code for each instruction
set of the processor (cpu.avx512, cpu.avx2, cpu.neon) and plain Go (cpu.rowwise,
cpu.packed, cpu.gather, cpu.scatter), which run where the better ones are not admitted.
Chosen by name only are cpu.reference, the interpreter, cpu.mma-16-25 and others, models
of tensor cores, and cuda.cublaslt, NVIDIA's library. It promises no bits. Its results
are also compared with the model of the tensor cores, and the output says for each of its
algorithms whether they have the model's bits. A name may lack the kind of device:
cublaslt.

A kernel is held to what its lowering promises. This project's own kernels promise the
reference's bits. --promise holds kernels to another promise:

  --promise bits      every output has the reference's bits
            ordered   every output is one that the definition's own steps give, with sums in
                      a declared order
            stable    every output is as close to the exact result as a kernel comes in
                      whatever form it is written, if inputs, functions and sums have small
                      relative errors

Under ordered and stable, --declare says what is known of a kernel's arithmetic, and widens
what is admitted by exactly that; it takes the place of what the lowering declares. Items
are separated by commas or spaces, as in --declare 'order=lanes(16) exp=2ulp+1.16|x| ftz'.
--profile grants functions the errors that are documented for a family of kernels. With
either, kernels that promise bits are held to stable. See docs/promises.md and
docs/declarations.md.

A clause of the contract about special values can be waived by its number ('tokitai explain
OP' lists them): what differs from it is counted, but not wrong. Arithmetic cannot be waived.
--shape runs further shapes of the definitions that have these sizes, with every pattern.

Parameters of operations vary from case to case. --param runs every case with one value
instead: --param eps=1e-3 for layernorm.forward, --param p=7 --param k=4 for gemm.zpk,
--param lr=3e-4 --param t=100 for adamw.step. Parameters are spelled as for 'tokitai run';
one that selects a definition, such as accumulate=true, verifies that one alone. The named
operations that do not have the parameter are verified as without it. At least one must
have it.

Operands are surrounded by guards, and outputs are poisoned before each run. Besides
the plain comparison, results of related inputs must be related, and no result may
depend on repetition, layout, the number of workers, or what runs at the same time. On
ordinary data, outputs are also compared with the real-number result: the column
error/promise is the largest error as a share of what the definition promises. It is at
most 1, close to 1 where rounding the result is the only error, and - if no case was
compared this way. See docs/verification.md.

With --invariance, kernels are also held to properties that need no reference: a row has the
same bits alone and in batches of 1 to 65 rows and around every power of two, at any place
and whatever the other rows hold; a call has the same bits 1,000 times (at level full; 100
at quick), with other memory around it, after other calls, on other queues and beside other
callers. Every property is listed with its first counterexample: two calls, the element and
both bit patterns. With --invariance-only nothing else is judged, and outputs may be
anything that is always the same.

  --level smoke       seconds: some shapes, for a first look
          quick       seconds for an operation: every pattern of values, every boundary of sizes
          full        minutes: more of everything
          exhaustive  hours: every 32-bit argument of elementwise operations, and
                      every pair of 16-bit arguments

Without OP and --level, every kernel runs the cases of level smoke, and then cases of level
quick in an order that the seed draws, as many as two cores do in about a minute. Their
number follows from their sizes, not from a clock: every machine runs the same cases. The
last lines say how many were left out; --level quick runs all.

On a device other than the CPU, most answers come from compiled code for the CPU, which is
first verified against the interpreter of definitions; at least one output in 16 is
interpreted as well. With --interpret all, everything is. On the CPU, and at level smoke,
everything always is.

mma stands for the matrix instructions of a GPU's tensor cores. Each is held to every
model mma(L,F) on more than ten million outputs, special values among them (100 thousand
at level smoke), and the one that holds is reported. It is compared with the model that
kernels for this architecture promise; a device of unknown architecture promises none.

A wrong kernel is shown with the smallest failing case that was found, its inputs,
and a command that repeats it. The name of a case and the seed determine it completely.
Besides, when: what the failing cases have in common and the others do not; where: which
elements of the output are wrong; terms: which terms of a sum seem to be lost or counted
twice, as further launches showed.

With --out DIR, a report of each lowering and format is written as JSON and Markdown,
with an index. With --out NAME.zip, these files are one archive, which replaces an
earlier one, and the JSON has a digest of each case instead of its shapes and hashes:
small enough to be committed. Whether the reports can be written is checked before
anything runs. During a run, finished cases are kept in DIR/journal.jsonl or
NAME.zip.journal.jsonl, from which --resume continues after an interrupt; the reports
are the same as without one. Reports of earlier runs stay in DIR unless this run writes
one of the same name; a note counts them.

With --html, everything is also written as one page to look at in a browser: the verdicts,
the errors in ulps, and the failing case with a map of the wrong elements. It needs no
other file and no network.

With --budget, the cases of level smoke run first, and the others in an order that the seed
draws until the time is spent; several kernels or formats share it. What was not run is
counted. A kernel is accepted only if all its cases of level smoke have run. Otherwise it is
unfinished, unless something failed.

With --shard K/N, the cases are divided among N shards of about equal work, and those of shard
K run; 1 ≤ K ≤ N. The cut follows from the other flags alone, so that every machine makes the
same one. Results go to DIR/shard-K-of-N.jsonl, and --resume continues a shard that was killed.
'tokitai evidence merge' puts all of them together (docs/campaigns.md). Without --level, that
is all of level quick.

The exit code is 0 if all are accepted, 3 if one is rejected, 4 if none is rejected but
something is undecided: a kernel that ended in an error or hung, or an interrupt; and 5 if
something is unfinished, and nothing worse.`,
		Example: `  tokitai verify softmax --level smoke
  tokitai verify gelu.forward --dtype f16 --level smoke --out evidence/gelu
  tokitai verify gemm.forward.accumulate --lowering cpu.packed --level smoke --json
  tokitai verify softmax.forward --dtype bf16 --case normal/R=3,C=257 --seed 7
  tokitai verify softmax --promise stable --level smoke
  tokitai verify layernorm.forward --declare order=pairwise,rsqrt=2ulp --level smoke
  tokitai verify softmax.forward --waive softmax.forward.C4 --shape R=5,C=4096 --level smoke
  tokitai verify layernorm.forward --param eps=1e-3 --level smoke
  tokitai verify softmax.forward --invariance --level smoke
  tokitai verify softmax.forward --level smoke --shard 1/2 --out campaign
  tokitai verify mma --help`,
		ValidArgsFunction: completeOperations,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	deviceFlag(flags, &f.device, "auto", "verify on")
	flags.StringVar(&f.lowering, "lowering", "", "verify this `LOWERING` instead: a name such as cpu.avx2, or softmax.forward/cpu.avx2; all means every one that a call may choose")
	flags.StringArrayVar(&f.params, "param", nil, "run every case with this value of a parameter, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.interpret, "interpret", "sample", "interpret `WHAT` where answers can be compiled: sample, or all")
	f.judgeFlags.register(c, "verify", "1")
	for name, values := range map[string][]string{"device": deviceNames, "interpret": interpretNames} {
		c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	c.RegisterFlagCompletionFunc("lowering", f.completeLowering)
	c.RegisterFlagCompletionFunc("param", completeFixable)
	flags.StringVar(&f.shard.text, "shard", "", "run only part `K/N` of the cases, of a campaign in N shards")
	c.RegisterFlagCompletionFunc("shard", cobra.NoFileCompletions)
	return c
}

var interpretNames = []string{"sample", "all"}

func (f *verifyFlags) completeLowering(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	targets, err := namedTargets(verifyTargets(backendOf(f.device)), args)
	if err != nil {
		targets = verifyTargets(backendOf(f.device))
	}
	return loweringsOf(targets), cobra.ShellCompDirectiveNoFileComp
}

// run verifies the named targets. It reports errors in the command line, and a folder that
// cannot be written to, before the first case runs.
func (f *verifyFlags) run(c *cobra.Command, names []string) error {
	options, terms, err := f.judgeFlags.parse()
	switch {
	case err != nil:
		return err
	case !slices.Contains(interpretNames, f.interpret):
		return unknownName("interpretation", f.interpret, interpretNames)
	}
	if err := cmp.Or(f.shard.parse(), checkDevice(f.device)); err != nil {
		return err
	}
	if slices.Contains(names, probeName) {
		if err := takenByProbe(c.Flags()); err != nil {
			return err
		}
		return f.probe(c, names, options)
	}
	dev, err := backends.Open(f.device)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev) // not before: whoever opens a GPU first waits for it
	targets, leftOut, err := f.targets(dev.Backend(), names)
	if err != nil {
		return err
	}
	if targets, err = terms.apply(targets); err != nil {
		return err
	}
	if len(names) > 0 && f.only == "" && len(leftOut) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "left out: %s cannot be stored in %s\n", allOf(leftOut), strings.Join(f.dtypes, " or "))
	}
	options.Device, options.InterpretAll = dev.Name(), f.interpret == "all"
	v := &verification{targets: targets, terms: terms, options: options}
	if f.shard.isSet() {
		return f.runShard(c, v, dev, names)
	}
	if len(names) == 0 && !c.Flags().Changed("level") && f.budget == 0 {
		v.workBudget = defaultWork
	}
	// What the device cannot run is told below the table, unless it was asked for.
	v.isTold = func(r *evidence.Report) bool { return f.lowering != "" || r.Verdict != evidence.Skipped }
	return f.conduct(c, v)
}
