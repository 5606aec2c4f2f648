package jsontree

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	v, err := Parse([]byte(` {"b" : [1, -2.5e+3, true, null], "a":{"":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}} `))
	if err != nil {
		t.Fatal(err)
	}
	if v.Kind != Object || v.Members[0].Name != "b" || v.Members[1].Name != "a" {
		t.Errorf("members are out of order: %+v", v)
	}
	list := v.Get("b").List
	if len(list) != 4 || list[1].Kind != Number || list[1].Text != "-2.5e+3" || list[2].Kind != Bool || list[2].Text != "true" || list[3].Kind != Null {
		t.Errorf("b: %+v", list)
	}
	if got, want := v.Get("a").Get("").Text, "\"\\/\b\f\n\r\té😀é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if v.Get("c") != nil {
		t.Error("there is no c")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "byte 0: the text ends, want a value",
		"[1,":                     "byte 3: the text ends, want a value",
		"[1 2]":                   "byte 3: got '2', want a comma or ]",
		`{"a":1,"\u0061":2}`:      `byte 7: duplicate name "a"`,
		`{"a" 1}`:                 "byte 5: got '1', want a colon",
		`{a:1}`:                   "byte 1: got 'a', want a name in quotes",
		`{"a":1 "b":2}`:           "byte 7: got '\"', want a comma or }",
		`"\ud800"`:                `byte 1: lone surrogate \ud800`,
		`"\ud800\u0041"`:          `byte 1: lone surrogate \ud800`,
		`"\u12g4"`:                `byte 1: \u without four hexadecimal digits`,
		`"\x41"`:                  `byte 1: unknown escape \x`,
		"\"a\nb\"":                `byte 2: control character '\n' in a string`,
		"\"a\xff\"":               "byte 2: the text is not UTF-8",
		`"abc`:                    "byte 4: the text ends, want the end of a string",
		`"abc\`:                   "byte 5: the text ends, want the end of a string",
		"1 2":                     "byte 2: text after the value",
		"01":                      "byte 1: text after the value",
		"-":                       "byte 1: the text ends, want a digit",
		"1.":                      "byte 2: the text ends, want a digit",
		"1e+x":                    "byte 3: got 'x', want a digit",
		"nul":                     "byte 0: got 'n', want a value",
		strings.Repeat("[", 1000): "byte 101: more than 100 arrays and objects in each other",
	} {
		_, err := Parse([]byte(text))
		if e, ok := errors.AsType[*Error](err); !ok || e.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// FuzzParse: what Parse accepts, encoding/json accepts, and the other way round but for what this
// package refuses on purpose.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,-0.5e3,"é\n\u00e9\ud83d\ude00",null,true,{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse(data)
		isValid := json.Valid(data)
		if err == nil && !isValid {
			t.Errorf("%q is not JSON", data)
		}
		if err != nil && isValid {
			for _, reason := range []string{"duplicate name", "lone surrogate", "not UTF-8", "in each other"} {
				if strings.Contains(err.Error(), reason) {
					return
				}
			}
			t.Errorf("%q: %v", data, err)
		}
	})
}
