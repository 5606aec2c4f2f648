package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tokitai/answer"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/model"
)

// modelFlags are the flags of commands that answer with a model.
type modelFlags struct{ device, rule, draft string }

// add adds the flags to a command.
func (f *modelFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.draft, "draft", "", "have a smaller `MODEL` with the same tokenizer guess the tokens; changes no bit")
	deviceFlag(flags, &f.device, "auto", "compute on")
	flags.StringVar(&f.rule, "rule", "", "sum products by `RULE`: fma, on every device; fast, that of this device's tensor cores; or one by name, such as mma(16,25) (default: that of the run, or fma)")
	c.RegisterFlagCompletionFunc("rule", cobra.FixedCompletions([]string{"fma", "fast", "mma(16,25)"}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
}

// withModel calls do with a model on the device, which has its draft; all are closed afterwards.
func (f *modelFlags) withModel(c *cobra.Command, path string, do func(q *engine.Queue, m *answer.Model) error) error {
	if err := checkDevice(f.device); err != nil {
		return err
	}
	return withQueue(c, f.device, func(q *engine.Queue) error {
		m, err := f.load(c, q, path)
		if err != nil {
			return err
		}
		defer m.Close()
		if f.draft != "" {
			if m.Draft, err = f.load(c, q, f.draft); err != nil {
				return err
			}
			defer m.Draft.Close()
		}
		return do(q, m)
	})
}

// load returns a model, whose products follow the rule of the flags.
func (f *modelFlags) load(c *cobra.Command, q *engine.Queue, path string) (*answer.Model, error) {
	progress := startProgress(c)
	progress.say("reading %s", path)
	m, err := answer.Load(q, path)
	progress.end()
	if err != nil {
		return nil, err
	}
	for _, note := range m.Notes {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", path, note)
	}
	if err := f.follow(q, m); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// follow has a model follow the rule that --rule names.
func (f *modelFlags) follow(q *engine.Queue, m *answer.Model) error {
	var rule def.Accum
	var err error
	switch f.rule {
	case "":
		return nil
	case "fast":
		rule, err = model.FastRule(q, m.Config.Format())
	default:
		rule, err = def.ParseAccum(f.rule)
		err = asUse(err)
	}
	if err != nil {
		return err
	}
	return m.Follow(rule)
}
