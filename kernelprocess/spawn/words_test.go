package spawn

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x", lastWordsBytes)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"blank lines", "\n\r\n\n", nil},
		{"lines", "one\ntwo\r\n\nthree", []string{"one", "two", "three"}},
		{"escaped", "a\x1b[31mb\tc\x00\n\xff\xfe ü \u202e", []string{`a\x1b[31mb\tc\x00`, `\xff\xfe ü \u202e`}},
		{"quotes and backslashes", `it's "C:\x"`, []string{`it's "C:\x"`}},
		{"control quote", "'\a'", []string{`'\a'`}},
		{"exactly all", long, []string{long}},
		{"one line too long", "y" + long, []string{"…" + long}},
		{"cut line left out", long + "\nlast", []string{"last"}},
		{"twice over", long + long + long + "a\nb\n", []string{"b"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, step := range []int{1, 7, lastWordsBytes, 1 << 20} {
				var words lastWords
				for part := range slices.Chunk([]byte(test.text), step) {
					words.add(part)
				}
				if got := words.lines(); !slices.Equal(got, test.want) {
					t.Errorf("in steps of %d: got %q, want %q", step, got, test.want)
				}
				if len(words.text) > 2*lastWordsBytes {
					t.Errorf("in steps of %d: keeps %d bytes, want at most %d", step, len(words.text), 2*lastWordsBytes)
				}
			}
		})
	}
}

func TestExitErrorText(t *testing.T) {
	tests := []struct {
		err  ExitError
		want string
	}{
		{ExitError{PID: 7}, "kernel process 7 ended: exit status 0"},
		{ExitError{PID: 7, Code: 3, LastWords: []string{"a", "b"}}, "kernel process 7 died: exit status 3; its last words: a | b"},
		{ExitError{PID: 7, Code: -1, Cause: errors.New("wait failed")}, "kernel process 7 is lost: wait failed"},
	}
	for _, test := range tests {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	environ := []string{
		"PATH=/bin", "HOME=/h", "XDG_CACHE_HOME=/c", "TMPDIR=/t", "LANG=C", "LC_ALL=C", "LC_TIME=x=y", "LD_LIBRARY_PATH=/l",
		"CUDA_VISIBLE_DEVICES=0", "NVIDIA_A=1", "HIP_B=1", "HSA_B=1", "ROCM_PATH=/r", "ROCR_C=1", "GPU_DEVICE_ORDINAL=1", "TOKITAI_D=", "DYLD_LIBRARY_PATH=/d", "SystemRoot=w", "Path=p", "tokitai_e=1",
		"USER=u", "LD_PRELOAD=/evil", "GODEBUG=x", "AWS_SECRET=s", "SSH_AUTH_SOCK=s", "HOMER=1", "LC=1", "XCUDA_A=1", "PATHX=1", "malformed", "=C:=C:\\",
	}
	everywhere := environ[:16]
	for system, more := range map[string][]string{
		"linux":   nil,
		"darwin":  {"DYLD_LIBRARY_PATH=/d"},
		"windows": {"SystemRoot=w", "Path=p", "tokitai_e=1"},
	} {
		if got, want := environment(environ, system), slices.Concat(everywhere, more); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", system, got, want)
		}
	}
	if got := Environment(nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing: got %#v, want an empty environment that is not nil", got)
	}
}
