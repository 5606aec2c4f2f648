package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"tokitai/internal/readfile"
	"tokitai/tokenizer"
)

type tokenizeFlags struct {
	noSpecial, specialAsText, json bool
}

func newTokenize() *cobra.Command {
	var f tokenizeFlags
	c := &cobra.Command{
		Use:   "tokenize TOKENIZER",
		Short: "turn text into ids of tokens",
		Long: `Read text from standard input and print the ids of its tokens in a line, separated by
spaces. TOKENIZER is a tokenizer.json, or a folder that has one.

The ids are those of Hugging Face's tokenizers library. A file with a part that is not
supported is refused, and so is text that is not UTF-8. An end of line at the end of
the text belongs to the text.`,
		Example: `  tokitai tokenize tokenizer.json < text.txt
  tokitai tokenize tokenizer.json --no-special --json < text.txt`,
		Args:              oneTokenizer,
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			return untilInterrupted(c.Context(), func() error { return f.run(c, args[0]) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.noSpecial, "no-special", false, "add no special tokens at the beginning and the end")
	flags.BoolVar(&f.specialAsText, "special-as-text", false, "treat special tokens in the text as any other text")
	jsonFlag(c, &f.json)
	return c
}

func (f *tokenizeFlags) run(c *cobra.Command, path string) error {
	t, err := openTokenizer(path)
	if err != nil {
		return err
	}
	text, err := readfile.Whole("standard input", c.InOrStdin(), tokenizer.MaxTextBytes)
	if err != nil {
		return err
	}
	ids, err := t.Encode(string(text), tokenizer.EncodeOptions{NoSpecial: f.noSpecial, SpecialAsText: f.specialAsText})
	if err != nil {
		return wrongUse("standard input: %v", err)
	}
	if f.json {
		tokens := make([]string, len(ids))
		for i, id := range ids {
			tokens[i], _ = t.Token(id)
		}
		return printJSON(c.OutOrStdout(), struct {
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}{append([]int32{}, ids...), tokens})
	}
	var line []byte
	for i, id := range ids {
		if i > 0 {
			line = append(line, ' ')
		}
		line = strconv.AppendInt(line, int64(id), 10)
	}
	_, err = c.OutOrStdout().Write(append(line, '\n'))
	return err
}

type detokenizeFlags struct {
	noSpecial, json bool
}

func newDetokenize() *cobra.Command {
	var f detokenizeFlags
	c := &cobra.Command{
		Use:   "detokenize TOKENIZER",
		Short: "turn ids of tokens into text",
		Long: `Read ids of tokens, separated by white space, from standard input and print their text,
with no end of line added. Bytes that are not UTF-8 become U+FFFD. TOKENIZER is a
tokenizer.json, or a folder that has one.`,
		Example: `  tokitai detokenize tokenizer.json < ids.txt
  tokitai detokenize tokenizer.json --no-special --json < ids.txt`,
		Args:              oneTokenizer,
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			return untilInterrupted(c.Context(), func() error { return f.run(c, args[0]) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.noSpecial, "no-special", false, "leave out special tokens")
	jsonFlag(c, &f.json)
	return c
}

func (f *detokenizeFlags) run(c *cobra.Command, path string) error {
	t, err := openTokenizer(path)
	if err != nil {
		return err
	}
	stream := t.NewStream(tokenizer.DecodeOptions{SkipSpecial: f.noSpecial})
	words := bufio.NewScanner(c.InOrStdin())
	words.Split(bufio.ScanWords)
	var text []byte
	show := func(part string) error {
		if f.json {
			text = append(text, part...)
			return nil
		}
		_, err := io.WriteString(c.OutOrStdout(), part)
		return err
	}
	for n := 1; words.Scan(); n++ {
		id, err := strconv.ParseInt(words.Text(), 10, 32)
		if err != nil {
			return wrongUse("standard input: word %d is %q, want the id of a token", n, words.Text())
		}
		part, err := stream.Next(int32(id))
		if err != nil {
			return wrongUse("standard input: word %d: %v", n, err)
		}
		if err := show(part); err != nil {
			return err
		}
	}
	if err := words.Err(); errors.Is(err, bufio.ErrTooLong) {
		return wrongUse("standard input has a word of more than %d bytes, want ids of tokens", bufio.MaxScanTokenSize)
	} else if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if err := show(stream.End()); err != nil || !f.json {
		return err
	}
	return printJSON(c.OutOrStdout(), struct {
		Text string `json:"text"`
	}{string(text)})
}

// oneTokenizer wants one argument.
func oneTokenizer(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUse("no tokenizer given, want a tokenizer.json or a folder that has one")
	}
	return noMore(args[1:])
}

// oneFile completes one file.
func oneFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// openTokenizer opens a tokenizer.json, or that of a folder.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	return tokenizer.Open(path)
}
