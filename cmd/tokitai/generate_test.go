package main

import (
	"testing"

	"github.com/spf13/pflag"

	"tokitai/answer"
	"tokitai/model/huggingface"
)

// TestGenerateLength: the length of an answer is that of the flag, else that of the model's folder, else the flag's default.
func TestGenerateLength(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		flag         []string
		folder, want int
	}{{nil, 0, 256}, {nil, 7, 7}, {[]string{"--max-tokens=3"}, 7, 3}, {[]string{"--max-tokens=256"}, 7, 256}} {
		var f generateFlags
		flags := pflag.NewFlagSet("generate", pflag.ContinueOnError)
		flags.IntVar(&f.most, "max-tokens", 256, "")
		if err := flags.Parse(x.flag); err != nil {
			t.Fatal(err)
		}
		if f.take(flags, &answer.Model{Generation: &huggingface.Generation{MaxNew: x.folder}}); f.most != x.want {
			t.Errorf("%v, and %d in the folder: %d tokens, want %d", x.flag, x.folder, f.most, x.want)
		}
	}
}
