package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// costsFile has a line for each test that takes long: its folder, its name, and how many seconds of a processor it takes at
// level smoke and, where it takes longer there, at level quick.
const costsFile = ".ci/costs"

// costs has what tests cost, in seconds on two processors of which a test uses one.
type costs struct {
	known  map[[2]string]float64 // by folder and test
	other  float64               // of a test that the file does not have
	times  float64               // what everything takes longer
	linked float64               // of the first test of a folder besides
	// Of each package that is compiled for the tests of a folder and for none before. Where this is not 0, the tests of a
	// folder stay together.
	compiled float64

	log io.Writer // names tests that cost more than a sample may
}

// readCosts reads the file. The property says at which level tests run.
func readCosts(file, property string, anew bool, times float64) (costs, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return costs{}, err
	}
	rows, err := parseCosts(text)
	if err != nil {
		return costs{}, fmt.Errorf("%s: %v", file, err)
	}
	level := 0
	c := costs{known: map[[2]string]float64{}, other: 0.3, times: times, linked: 2, log: os.Stderr}
	if property == "level" {
		level, c.other = 1, 8
	}
	if anew {
		c.compiled = 0.15
	}
	for _, r := range rows {
		s := r.seconds[level]
		if level == 0 { // a line that is there for level quick may have no time at smoke
			s = max(s, c.other)
		}
		c.known[[2]string{r.folder, r.test}] = s
	}
	return c, nil
}

// cost is a line of the file.
type cost struct {
	folder, test string
	seconds      [2]float64 // at levels smoke and quick
	isQuick      bool       // the second is known, and not only that it is no less than the first
}

func parseCosts(text []byte) ([]cost, error) {
	var rows []cost
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) != 3 && len(words) != 4 {
			return nil, fmt.Errorf("%q is not a folder, a test and one or two numbers of seconds", line)
		}
		r := cost{folder: words[0], test: words[1], isQuick: len(words) == 4}
		for i := range r.seconds {
			word := words[min(2+i, len(words)-1)]
			s, err := strconv.ParseFloat(word, 64)
			if err != nil || s < 0 {
				return nil, fmt.Errorf("%q is no number of seconds", word)
			}
			r.seconds[i] = s
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// within returns the tests that are taken of names: in an order that from decides, each that costs no more than what is left
// of the seconds. It reports tests that cost more than all of them, which are in no sample.
func (c costs) within(seconds float64, from int, names []string, where map[string][]string) ([]string, error) {
	draw := func(words ...string) string {
		sum := sha256.Sum256([]byte(strconv.Itoa(from) + " " + strings.Join(words, " ")))
		return string(sum[:])
	}
	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b string) int {
		if c.compiled != 0 {
			if order := cmp.Compare(draw(where[a]...), draw(where[b]...)); order != 0 {
				return order
			}
		}
		return cmp.Compare(draw(a), draw(b))
	})
	left := seconds
	var taken []string
	isBuilt, isCompiled, packages := map[string]bool{}, map[string]bool{}, map[string][]string{}
	for _, test := range names {
		cost := 0.0
		for _, folder := range where[test] {
			s, isKnown := c.known[[2]string{folder, test}]
			if !isKnown {
				s = c.other
			}
			cost += s * c.times
		}
		if cost > seconds {
			fmt.Fprintf(c.log, "testlist: %s of %s takes %g s, and the sample at most %g: it is in none\n", test, strings.Join(where[test], " "), cost, seconds)
		}
		var added []string
		for _, folder := range where[test] {
			if isBuilt[folder] {
				continue
			}
			cost += c.linked
			if c.compiled == 0 || cost > left {
				continue
			}
			if packages[folder] == nil {
				out, _ := exec.Command("go", "list", "-race", "-test", "-deps", folder).Output() // where it fails, go test says why
				packages[folder] = strings.Fields(string(out))
			}
			for _, p := range packages[folder] {
				if !isCompiled[p] {
					cost, added = cost+c.compiled, append(added, p)
				}
			}
		}
		if cost > left {
			continue
		}
		left -= cost
		taken = append(taken, test)
		for _, folder := range where[test] {
			isBuilt[folder] = true
		}
		for _, p := range added {
			isCompiled[p] = true
		}
	}
	if len(taken) == 0 {
		return nil, fmt.Errorf("no test takes at most %g s", seconds)
	}
	return taken, nil
}

var (
	passedLine = regexp.MustCompile(`^--- PASS: (\S+) \(([0-9.]+)s\)$`)
	folderLine = regexp.MustCompile(`^(ok|FAIL)\s+(tokitai\S*)\s`)
)

// record puts the times of tests that passed into the file. It keeps what it does not measure; and a test that takes less than a
// second at level smoke has a line only if its time at level quick is known.
func record(file, level string, output io.Reader) error {
	index := slices.Index([]string{"smoke", "quick"}, level)
	if index < 0 {
		return fmt.Errorf("-record is %q, want smoke or quick", level)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	list, err := parseCosts(text)
	if err != nil {
		return fmt.Errorf("%s: %v", file, err)
	}
	rows := map[[2]string]cost{}
	for _, r := range list {
		rows[[2]string{r.folder, r.test}] = r
	}
	took := map[string]float64{} // by test of the folder whose line is still to come
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if m := passedLine.FindStringSubmatch(lines.Text()); m != nil && !strings.HasPrefix(m[1], "Fuzz") && !strings.HasPrefix(m[1], "Example") {
			took[m[1]], _ = strconv.ParseFloat(m[2], 64)
		}
		m := folderLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		folder := strings.Replace(m[2], "tokitai", ".", 1)
		for test, s := range took {
			key := [2]string{folder, test}
			r, isKnown := rows[key]
			if !isKnown {
				r = cost{folder: folder, test: test}
			}
			if r.seconds[index] = s; index == 1 {
				r.isQuick = true
			} else if !r.isQuick {
				r.seconds[1] = s
			}
			rows[key] = r
		}
		clear(took)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(text), "\n")
	b := []byte(head + "\n")
	for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		r := rows[key]
		if r.seconds[0] < 1 && !r.isQuick {
			continue
		}
		b = fmt.Appendf(b, "%s %s %s", r.folder, r.test, short(r.seconds[0]))
		if r.isQuick {
			b = fmt.Appendf(b, " %s", short(r.seconds[1]))
		}
		b = append(b, '\n')
	}
	return os.WriteFile(file, b, 0o666)
}

// short returns a number of seconds with a digit behind the point if it is less than 10.
func short(s float64) string {
	if s < 10 {
		return strconv.FormatFloat(s, 'f', 1, 64)
	}
	return strconv.FormatFloat(s, 'f', 0, 64)
}
