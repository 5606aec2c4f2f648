package jinja_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"tokitai/chat/jinja"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// valueOf reads JSON with the order of its members.
func valueOf(t testing.TB, d *json.Decoder) jinja.Value {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := token.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return f
	case json.Delim:
		list, dict := jinja.List{}, &jinja.Dict{}
		for d.More() {
			if v == '[' {
				list = append(list, valueOf(t, d))
				continue
			}
			key := valueOf(t, d).(string)
			dict.Set(key, valueOf(t, d))
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		if v == '[' {
			return list
		}
		return dict
	}
	return token
}

// TestAnswers compares with what jinja2 makes of the templates of testdata/table.py.
func TestAnswers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers struct {
		Now       string          `json:"now"`
		Variables json.RawMessage `json:"variables"`
		Rows      []struct {
			Template string  `json:"template"`
			Text     *string `json:"text"`
			Error    string  `json:"error"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(data, &answers); err != nil || len(answers.Rows) < 60 {
		t.Fatal(len(answers.Rows), "rows,", err)
	}
	now, err := time.Parse("2006-01-02T15:04:05", answers.Now)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(answers.Variables))
	d.UseNumber()
	variables := valueOf(t, d).(*jinja.Dict).Values
	for _, row := range answers.Rows {
		text := ""
		template, err := jinja.Parse(row.Template)
		if err == nil {
			text, err = template.Render(variables, jinja.Options{Now: now})
		}
		raised, isRaised := errors.AsType[*jinja.Raised](err)
		message, wantsRaised := strings.CutPrefix(row.Error, "TemplateError: ")
		switch {
		case row.Text != nil && (err != nil || text != *row.Text):
			t.Errorf("%s\n got  %q, %v\n want %q", row.Template, text, err, *row.Text)
		case row.Text == nil && err == nil:
			t.Errorf("%s\n got  %q\n want %s", row.Template, text, row.Error)
		case isRaised != wantsRaised || isRaised && raised.Message != message:
			t.Errorf("%s\n got  %v\n want %s", row.Template, err, row.Error)
		}
	}
}

// TestPeer asks jinja2 again.
func TestPeer(t *testing.T) {
	t.Parallel()
	testlevel.Need(t, testlevel.Quick, "it starts Python")
	python := tool.Need(t, "python3")
	if err := exec.Command(python, "-c", "import jinja2").Run(); err != nil {
		tool.Missing(t, "jinja2", "python3 cannot import it")
	}
	command := exec.Command(python, "table.py")
	command.Dir = "testdata"
	got, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/answers.json")
	if _, rows, _ := bytes.Cut(got, []byte("\n")); err != nil || !bytes.HasSuffix(want, rows) {
		t.Errorf("testdata/answers.json differs from what testdata/table.py prints, %v", err)
	}
}

// TestRefused: constructs that are not supported are named.
func TestRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{% include 'x' %}":                      `line 1: the statement "include" is not supported`,
		"{% import '/etc/passwd' as x %}":        `line 1: the statement "import" is not supported`,
		"{% extends 'x' %}":                      `the statement "extends" is not supported`,
		"{% raw %}{{ x }}{% endraw %}":           `the statement "raw" is not supported`,
		"{% call f() %}{% endcall %}":            `the statement "call" is not supported`,
		"a\n\n{{ x | batch(2) }}":                `line 3: the filter "batch" is not supported`,
		"{{ x is sameas y }}":                    `the test "sameas" is not supported`,
		"{{ 2 ** 3 }}":                           `got "**", want }}`,
		"{% for x in y recursive %}{% endfor %}": "recursive loops are not supported",
		"{{ f(*x) }}":                            "* and ** in arguments are not supported",
		"{% set x | upper %}{% endset %}":        "a filter of a set block is not supported",
		"{% break %}":                            "break outside of a loop",
		"{{ 99999999999999999999 }}":             "the number 99999999999999999999 is too large",
		"{{ '\\N{DASH}' }}":                      `a string has an escape \N that is not supported`,
		"{% if x %}":                             "the template ends, want endif",
		"{# x":                                   "a comment has no end",
		"{{ 'x":                                  "a string has no end",
		"{{ x":                                   "a tag has no }}",
		"{{ (x] }}":                              "unexpected ]",
		"{{ $ }}":                                "unexpected character '$'",
		strings.Repeat("{% if x %}", 200):        "more than 100 constructs in each other",
		"{{ " + strings.Repeat("(", 500) + strings.Repeat(")", 500) + " }}": "more than 100 constructs in each other",
		"{{ " + strings.Repeat("not ", 500) + "1}}":                         "more than 100 constructs in each other",
		"{{ " + strings.Repeat("-", 500) + "1 }}":                           "more than 100 constructs in each other",
		"\xff":                       "the template is not UTF-8",
		strings.Repeat("x", 1<<20+1): "want at most 1048576",
	} {
		if _, err := jinja.Parse(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", source, err, want)
		}
	}
}

// TestLimits: templates that loop without end, nest without end or grow without end fail soon. They render with the last
// hundredth of what a rendering may take, since all of it takes seconds.
func TestLimits(t *testing.T) {
	t.Parallel()
	loop := "{% for a in range(1000) %}{% for b in range(1000) %}"
	end := "{% endfor %}{% endfor %}"
	for source, want := range map[string]string{
		loop + end:                                        "more than 3000000 steps",
		"{{ range(100001) | list }}":                      "range has more than 100000 numbers",
		"{{ 'x' * 1000000000000 }}":                       "more than 134217728 bytes",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "too deep in each other",
		"{% set ns = namespace(s='ab') %}" + loop + "{% set ns.s = ns.s ~ ns.s %}" + end:                 "more than 134217728 bytes",
		"{% set ns = namespace(s='ab') %}" + loop + "{% set ns.s = ns.s | replace('a', 'aaaa') %}" + end: "more than 134217728 bytes",
		"{% set ns = namespace(s=[1]) %}" + loop + "{% set ns.s = [ns.s] %}" + end:                       "more than 200 values in each other",
		"{% set ns = namespace(s={'a': 1}) %}" + loop + "{% set ns.s = dict(a=ns.s).items() %}" + end:    "more than 200 values in each other",
		"{% set s = 'x' * 1000000 %}" + loop + "{{ s[1] == 'y' }}" + end:                                 "more than 3000000 steps",
		"{% set s = 'x' * 100000 %}" + loop + "{{ 'y' in s }}" + end:                                     "more than 3000000 steps",
		"{% set x, y = range(5000) | list, range(5000) | list %}" + loop + "{{ x == y }}" + end:          "more than 3000000 steps",
		"{% macro m(n, x) %}{{ m(n - 1, [x, x]) if n else x == x }}{% endmacro %}{{ m(60, 1) }}":         "more than 3000000 steps",
		"{{ ('x' * 1000000).split('x') }}":                                                               "more than 134217728 bytes",
		"{% for c in 'x' * 1000000 %}{% endfor %}":                                                       "more than 134217728 bytes",
		"{{ ('x' * 100000).strip('x' * 100000) }}{{ lipsum() }}":                                         "the variable lipsum of Jinja is not supported",
		"{{ self }}":                                 "the variable self of Jinja is not supported",
		"{{ 'ß' | upper }}":                          "upper of 'ß' is not supported",
		"{{ 'İ' | lower }}":                          "lower of 'İ' is not supported",
		"{{ strftime_now('%Y') }}":                   "the template asks for the date, and none is given",
		"{{ 2147483648 * 2147483648 * 4294967296 }}": "a number is too large",
		"{{ {1: 2} }}":                               "a dict whose key is a int is not supported",
		"{{ 'a'.format(1) }}":                        "the method format of a str is not supported",
		"{{ [].append(1) }}":                         "the method append of a list is not supported",
		"{{ {}.update({}) }}":                        "the method update of a dict is not supported",
		"{{ namespace(_x=1) }}":                      "begins with an underscore",
		"{{ {}.keys()[0] }}":                         "an item of a dict_keys is not supported",
	} {
		var text string
		template, err := jinja.Parse(source)
		if err == nil {
			text, err = template.RenderLast()
		}
		if len(text) > 1000 {
			t.Errorf("%.90q: it goes on for %d bytes, as if what an iteration reads took no steps", source, len(text))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90q: %v, want %s", source, err, want)
		}
	}
}

// FuzzRender: no template makes Parse or Render panic.
func FuzzRender(f *testing.F) {
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		f.Fatal(err)
	}
	var answers struct {
		Rows []struct{ Template string }
	}
	if err := json.Unmarshal(data, &answers); err != nil {
		f.Fatal(err)
	}
	for _, row := range answers.Rows {
		f.Add(row.Template)
	}
	f.Fuzz(func(_ *testing.T, source string) {
		template, err := jinja.Parse(source)
		if err != nil {
			return
		}
		template.Render(map[string]jinja.Value{"n": int64(3), "s": "é ", "list": jinja.List{int64(1), "x", nil}, "d": &jinja.Dict{}}, jinja.Options{})
	})
}

func Example() {
	template, err := jinja.Parse("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}")
	if err != nil {
		fmt.Println(err)
		return
	}
	message := &jinja.Dict{}
	message.Set("role", "user")
	message.Set("content", " hello ")
	fmt.Println(template.Render(map[string]jinja.Value{"messages": jinja.List{message}}, jinja.Options{}))
	// Output:
	// <user>hello
	//  <nil>
}
