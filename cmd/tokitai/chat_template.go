package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tokitai/chat"
	"tokitai/chat/jinja"
	"tokitai/internal/readfile"
)

type chatTemplateFlags struct {
	generationPrompt bool
	date             string
	json             bool
}

// maxConversation is the size of the largest conversation that is read.
const maxConversation = 1 << 26

func newChatTemplate() *cobra.Command {
	var f chatTemplateFlags
	c := &cobra.Command{
		Use:   "chat-template FOLDER",
		Short: "write a conversation as a model's chat template does",
		Long: `Read a conversation in JSON from standard input and print the text that the chat template
in a model's folder makes of it, with no end of line added. The template is chat_template.jinja or that
of tokenizer_config.json, which also has the special tokens.

The conversation is an array of messages, or an object with messages and other variables
of the template, such as tools and enable_thinking. A construct of Jinja that is not
supported is refused with its name and line.`,
		Example: `  tokitai chat-template model/ < conversation.json
  tokitai chat-template model/ --generation-prompt --date 2026-11-19 < conversation.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse("no folder given, want one with tokenizer_config.json")
			}
			return noMore(args[1:])
		},
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			return untilInterrupted(c.Context(), func() error { return f.run(c, args[0]) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.generationPrompt, "generation-prompt", false, "end with the beginning of an answer")
	flags.StringVar(&f.date, "date", "", "`DATE` such as 2026-11-19, for templates that show it (default: they are refused)")
	jsonFlag(c, &f.json)
	c.RegisterFlagCompletionFunc("date", cobra.NoFileCompletions)
	return c
}

func (f *chatTemplateFlags) run(c *cobra.Command, folder string) error {
	options := chat.Options{GenerationPrompt: f.generationPrompt}
	if f.date != "" {
		date, err := time.Parse(time.DateOnly, f.date)
		if err != nil {
			return wrongUse("--date is %q, want a date such as 2026-11-19", f.date)
		}
		options.Now = date
	}
	t, err := chat.Open(folder)
	if err != nil {
		return err
	}
	conversation, err := readfile.Whole("standard input", c.InOrStdin(), maxConversation)
	if err != nil {
		return err
	}
	text, err := t.Render(conversation, options)
	switch {
	case errors.Is(err, jinja.ErrNoDate):
		return wrongUse("%v: use --date", err)
	case err != nil:
		return wrongUse("%v", err)
	case f.json:
		return printJSON(c.OutOrStdout(), struct {
			Text string `json:"text"`
			Date string `json:"date,omitempty"`
		}{text, f.date})
	}
	_, err = io.WriteString(c.OutOrStdout(), text)
	return err
}

// noMore refuses arguments.
func noMore(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return wrongUse("unexpected argument %q", args[0])
}
