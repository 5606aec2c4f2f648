// Package answers holds hashes of what the shipped operations compute, committed with
// the source. They detect a machine on which kernel and reference are wrong in the same
// way. The package does not compute anything itself.
//
// The file answers.txt has a section for every definition and every choice of storage
// formats, with a line for every self-test of the engine:
//
//	definition softmax.forward 09f8…c1 f16 f16
//	C=7 4be1…07 a51c…9e
//
// A section begins with the definition's name, the SHA-256 of its text
// (def.Definition.Hash) and the formats of its operands, in order. Each line has the
// self-test's name, the hash of its inputs and the hash of its outputs. Contractions
// follow rule fma. Empty lines and lines that begin with # are ignored. The last line is
// the word sha256 and the SHA-256 of all bytes before it.
//
// A hash of data is the SHA-256 of these bytes:
//
//   - of the inputs: every parameter, in the order of the definition, as the line
//     "param NAME HEX\n", where HEX is the binary64 pattern in 16 lower-case digits;
//     then every operand that is read, in the order of the definition, before the call;
//   - of the outputs: every operand that is written, in the order of the definition,
//     after the call.
//
// An operand is the line "NAME DTYPE ROWS COLS\n" (dtype f16, bf16, f32, i32, e4m3, e5m2, i8 or i64, sizes
// in decimal), followed by its elements row by row, without gaps between rows, each
// little-endian. Values per column are one row, values per row one column, a scalar one
// of each. In outputs every NaN is replaced by the canonical one of its format (f16 7e00,
// bf16 7fc0, f32 7fc00000), because its sign and payload are unspecified. The outputs of
// a gather, which copies patterns, and all inputs are hashed unchanged.
//
// Start with Find and Digest.
package answers

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"tokitai/num"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Answer holds the hashes of a self-test's inputs and of its correct outputs.
type Answer struct{ Inputs, Outputs Hash }

// Section holds the answers of one definition in one choice of storage formats.
type Section struct {
	Name       string // of the definition
	Definition string // its hash
	Formats    []num.DType
	Cases      []Case
}

// Case is the answer of one self-test.
type Case struct {
	Name string
	Answer
}

//go:embed answers.txt
var committed string

var index = sync.OnceValues(func() (map[string]Answer, error) { return indexOf(committed) })

// Find returns the committed answer of a definition, given its hash, the formats of its
// operands and the self-test. It returns an error only if the table is damaged.
func Find(definition string, formats []num.DType, test string) (a Answer, isKnown bool, err error) {
	table, err := index()
	if err != nil {
		return Answer{}, false, err
	}
	a, isKnown = table[key(definition, formats, test)]
	return a, isKnown, nil
}

func indexOf(text string) (map[string]Answer, error) {
	sections, err := Parse(text)
	if err != nil {
		return nil, err
	}
	table := map[string]Answer{}
	for _, s := range sections {
		for _, c := range s.Cases {
			table[key(s.Definition, s.Formats, c.Name)] = c.Answer
		}
	}
	return table, nil
}

func key(definition string, formats []num.DType, test string) string {
	var b strings.Builder
	b.WriteString(definition)
	for _, f := range formats {
		b.WriteByte(' ')
		b.WriteString(f.String())
	}
	b.WriteByte(' ')
	b.WriteString(test)
	return b.String()
}

const preamble = `# What the shipped operations compute in the engine's self-tests; the package comment
# says how to recompute it. Written by: go test ./op/all -run TestKnownAnswers -update
`

// Print returns the text of a table, which Parse reads.
func Print(sections []Section) string {
	var b strings.Builder
	b.WriteString(preamble)
	for _, s := range sections {
		fmt.Fprintf(&b, "\ndefinition %s %s", s.Name, s.Definition)
		for _, f := range s.Formats {
			fmt.Fprintf(&b, " %s", f)
		}
		b.WriteByte('\n')
		for _, c := range s.Cases {
			fmt.Fprintf(&b, "%s %s %s\n", c.Name, c.Inputs, c.Outputs)
		}
	}
	b.WriteByte('\n')
	return b.String() + "sha256 " + hashOf(b.String()).String() + "\n"
}

func hashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

// Parse parses the text of a table. It returns an error if the text was changed.
func Parse(text string) ([]Section, error) {
	at := strings.LastIndex(text, "\nsha256 ") + 1
	if at == 0 {
		return nil, fmt.Errorf("known answers: no sha256 line at the end")
	}
	if got, want := text[at:], "sha256 "+hashOf(text[:at]).String()+"\n"; got != want {
		return nil, fmt.Errorf("known answers: got last line %q, want %q", got, want)
	}
	var sections []Section
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(text[:at]) {
		number++
		refuse := func(want string) error {
			return fmt.Errorf("known answers: line %d: got %q, want %s", number, strings.TrimSuffix(line, "\n"), want)
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
		case fields[0] == "definition":
			s, ok := parseSection(fields[1:])
			if !ok {
				return nil, refuse("definition NAME SHA256 DTYPE...")
			}
			sections = append(sections, s)
		case len(sections) == 0:
			return nil, refuse("a definition first")
		default:
			s := &sections[len(sections)-1]
			c, ok := parseCase(fields)
			if !ok {
				return nil, refuse("TEST SHA256 SHA256")
			}
			k := key(s.Definition, s.Formats, c.Name)
			if seen[k] {
				return nil, refuse("each self-test once")
			}
			seen[k] = true
			s.Cases = append(s.Cases, c)
		}
	}
	return sections, nil
}

func parseSection(fields []string) (s Section, ok bool) {
	if len(fields) < 3 {
		return s, false
	}
	s.Name, s.Definition = fields[0], fields[1]
	if _, ok := parseHash(s.Definition); !ok {
		return s, false
	}
	for _, f := range fields[2:] {
		dtype, err := num.ParseDType(f)
		if err != nil {
			return s, false
		}
		s.Formats = append(s.Formats, dtype)
	}
	return s, true
}

func parseCase(fields []string) (c Case, ok bool) {
	if len(fields) != 3 {
		return c, false
	}
	inputs, isInputs := parseHash(fields[1])
	outputs, isOutputs := parseHash(fields[2])
	return Case{Name: fields[0], Answer: Answer{Inputs: inputs, Outputs: outputs}}, isInputs && isOutputs
}

func parseHash(s string) (h Hash, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, false
	}
	h = Hash(b)
	return h, h.String() == s
}
