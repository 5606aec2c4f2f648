package html_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/evidence/html"
)

var update = flag.Bool("update", false, "write golden files anew")

// rejected returns the sample of package evidence that was rejected.
func rejected(t testing.TB) *evidence.Report {
	t.Helper()
	r, err := evidence.Read(filepath.Join("..", "testdata", "rejected.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// obtain says of every field that there is how it was obtained.
func obtain(r *evidence.Report) *evidence.Report {
	r.Obtained = map[string]string{}
	for _, field := range evidence.Fields() {
		if !r.IsAbsent(field) {
			r.Obtained[field] = "made up for a test"
		}
	}
	return r
}

// accepted makes a report of promise stable from the rejected one, with everything that a page
// can show of it.
func accepted(t testing.TB) *evidence.Report {
	r := rejected(t)
	r.Verdict, r.Reason, r.Failure, r.Mismatches = evidence.Accepted, "", nil, 0
	r.CaseList[1].Mismatches = 0
	r.Contract, r.Lowering, r.DType, r.Model = evidence.ContractBounded, "softmax.backward/my.kernel", "bf16", "any order"
	r.Tiers = []evidence.Tier{{Name: evidence.Structure, Checks: 2}, {Name: evidence.Set, Checks: 32}, {Name: evidence.Bits, Note: "does not apply"}}
	for i := range r.CaseList {
		r.CaseList[i].Tiers = []evidence.TierName{evidence.Structure, evidence.Set}
	}
	r.Evidence = []string{"every output is admissible"}
	r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(1.5), new(1.0), new(int64(4)), new(0.25)
	r.TruthElements, r.WorstErrorULP, r.WorstErrorShare, r.ErrorDType, r.Misrounded = 28, new(0.75), new(0.9), "bf16", new(0.125)
	r.WorstCases = nil
	r.Terms = evidence.Terms{
		Promise: "stable", Profile: "torch", Declared: "exp=2ulp", Honest: evidence.Yes, Accurate: evidence.Yes,
		Own:          &evidence.Errors{WorstErrorULP: new(0.5), WorstErrorShare: new(0.96), Misrounded: new(0.01)},
		MeanAllClose: new(41.5), MedianAllClose: new(40.0),
		Heights:    []evidence.Height{{LeastLength: 3, MostLength: 8, Height: 2, Share: 0.4, Outputs: 32, MeanValues: 1.25}},
		Decided:    []evidence.Decided{{Output: "dx", Known: 16, Decided: 12, Share: 0.75, Needed: 0.5, Of: 32, OfThem: 20}},
		Clauses:    []evidence.Departure{{Clause: "softmax.backward.C3", Text: "NaN in, NaN out", Outputs: 2, IsWaived: true}},
		Allowances: []evidence.Allowance{{Text: "an error of 1", Outputs: 1}},
		Omitted:    []string{"d"},
	}
	r.Unchecked = &evidence.Unchecked{Cases: 12, BudgetSeconds: 2}
	r.Speed = &evidence.Speed{
		Shape: "R=4096,C=8192", Bytes: 1 << 27, Repetitions: 5, Calls: 7, Judged: 1000, Clock: "the host's clock", Note: "A neighbour was busy.",
		MS: &evidence.Spread{Median: 0.0215, Least: 0.02, Most: 0.03}, Own: "softmax.backward/cpu.avx2", OwnMS: &evidence.Spread{Median: 0.02, Least: 0.02, Most: 0.02},
		OfCopy: &evidence.Spread{Median: 0.91, Least: 0.9, Most: 0.92}, OfOwn: &evidence.Spread{Median: 1.02, Least: 1, Most: 1.04},
	}
	r.Histogram = &evidence.Histogram{
		Set:   []evidence.Bin{{UpTo: 0, Outputs: 30}},
		Truth: []evidence.Bin{{UpTo: 0, Outputs: 12}, {UpTo: 0x1p-3, Outputs: 4}, {UpTo: 0.5, Outputs: 11}, {UpTo: 1, Outputs: 1}},
		Own:   []evidence.Bin{{UpTo: 0, Outputs: 16}, {UpTo: 0.5, Outputs: 12}},
	}
	return obtain(r)
}

// skipped makes a report of what no device could run from the rejected one.
func skipped(t testing.TB) *evidence.Report {
	r := rejected(t)
	r.Verdict, r.Reason, r.Failure, r.Mismatches, r.DType = evidence.Skipped, "no such device", nil, 0, "f32"
	r.Cases, r.Elements, r.CaseList, r.DigestSHA256, r.Histogram = 0, 0, nil, evidence.DigestOf(nil), nil
	r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = nil, nil, nil, nil
	r.Coverage, r.Tiers, r.KernelSeconds = evidence.Coverage{}, nil, nil
	return obtain(r)
}

// undecided makes a report that decides too little.
func undecided(t testing.TB) *evidence.Report {
	r := accepted(t)
	r.Lowering, r.Unchecked = "softmax.backward/my.wide", nil
	r.Verdict, r.Reason, r.Honest, r.Evidence = evidence.Undecided, "dx: 4 of 16 outputs are decided", evidence.Open, nil
	r.Decided[0] = evidence.Decided{Output: "dx", Known: 16, Decided: 4, Share: 0.25, Needed: 0.5, Of: 32, OfThem: 20}
	return obtain(r)
}

// everything is an Extra with all that there may be.
var everything = html.Extra{
	Title: "my_softmax.py", Command: "tokitai verify softmax --seed 7", Notes: []string{"The judge was replaced."},
	Mutants: []html.Mutants{{Op: "softmax.backward", Of: 40, Found: 39, AllClose: 7}},
}

// page returns a page of reports.
func page(t testing.TB, extra html.Extra, reports ...*evidence.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := html.Write(&b, reports, extra); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// full returns a page with a report of every kind.
func full(t testing.TB) []byte {
	return page(t, everything, rejected(t), accepted(t), undecided(t), skipped(t))
}

// node is an element of a page.
type node struct {
	name string
	attr map[string]string
	text string // its own and its children's
	kids []*node
}

// parse reads a page as strict XML.
func parse(t testing.TB, data []byte) *node {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(data))
	root := &node{}
	stack := []*node{root}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		top := stack[len(stack)-1]
		switch x := token.(type) {
		case xml.StartElement:
			n := &node{name: x.Name.Local, attr: map[string]string{}}
			for _, a := range x.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			top.kids = append(top.kids, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
			stack[len(stack)-1].text += top.text
		case xml.CharData:
			top.text += string(x)
		}
	}
}

// each calls f for an element and all below it, with the number of its ancestors.
func (n *node) each(f func(x *node, depth int)) {
	var walk func(x *node, depth int)
	walk = func(x *node, depth int) {
		f(x, depth)
		for _, k := range x.kids {
			walk(k, depth+1)
		}
	}
	walk(n, 0)
}

// TestPageStandsAlone: a page needs nothing else, and can be read in every way.
func TestPageStandsAlone(t *testing.T) {
	for name, data := range map[string][]byte{
		"all": full(t), "rejected": page(t, html.Extra{}, rejected(t)), "accepted": page(t, everything, accepted(t)), "skipped": page(t, html.Extra{}, skipped(t)),
	} {
		root, ids, level := parse(t, data), map[string]bool{}, 0
		headings := 0
		root.each(func(x *node, _ int) {
			if id := x.attr["id"]; id != "" {
				if ids[id] {
					t.Errorf("%s: two elements are %s", name, id)
				}
				ids[id] = true
			}
		})
		root.each(func(x *node, _ int) {
			if slices.Contains([]string{"script", "link", "img", "iframe", "object", "base", "form", "use"}, x.name) {
				t.Errorf("%s: the page has the element %s", name, x.name)
			}
			for key, value := range x.attr {
				switch {
				case key == "src" || strings.HasPrefix(key, "on"):
					t.Errorf("%s: %s has the attribute %s", name, x.name, key)
				case key == "href" && (!strings.HasPrefix(value, "#") || !ids[value[1:]]):
					t.Errorf("%s: a link goes to %q, which is not on the page", name, value)
				case key == "aria-labelledby" && !ids[value]:
					t.Errorf("%s: %s is labelled by %q, which is not on the page", name, x.name, value)
				}
			}
			switch x.name {
			case "html":
				if x.attr["lang"] != "en" {
					t.Errorf("%s: the language is %q", name, x.attr["lang"])
				}
			case "svg":
				if x.attr["aria-hidden"] == "" && (x.attr["role"] != "img" || x.attr["aria-label"] == "") {
					t.Errorf("%s: a picture has no name", name)
				}
			case "desc":
				if strings.TrimSpace(x.text) == "" {
					t.Errorf("%s: a picture is not described", name)
				}
			case "th":
				if x.attr["scope"] == "" || strings.TrimSpace(x.text) == "" {
					t.Errorf("%s: the header %q has scope %q", name, x.text, x.attr["scope"])
				}
			case "style":
				if strings.Contains(x.text, "url(") || strings.Contains(x.text, "@import") {
					t.Errorf("%s: the style needs other files", name)
				}
			case "h1", "h2", "h3", "h4", "h5":
				n, _ := strconv.Atoi(x.name[1:])
				if n > level+1 {
					t.Errorf("%s: the heading %q has level %d after %d", name, x.text, n, level)
				}
				if level = n; n == 1 {
					headings++
				}
			}
		})
		if headings != 1 {
			t.Errorf("%s: %d headings of level 1", name, headings)
		}
		if !bytes.Contains(data, []byte(`content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;"`)) && !bytes.Contains(data, []byte(`content="default-src 'none'; style-src 'unsafe-inline'"`)) {
			t.Errorf("%s: the page does not refuse scripts", name)
		}
	}
}

// TestOutline compares what a reader is told with a golden file.
func TestOutline(t *testing.T) {
	var b strings.Builder
	space := regexp.MustCompile(`\s+`)
	parse(t, full(t)).each(func(x *node, _ int) {
		text := strings.TrimSpace(space.ReplaceAllString(x.text, " "))
		switch x.name {
		case "h1", "h2", "h3", "h4", "h5", "figcaption", "desc", "p", "li", "dt", "dd", "pre", "tr", "summary", "title":
			fmt.Fprintf(&b, "%-10s %s\n", x.name, text)
		case "path", "rect":
			if c := x.attr["class"]; strings.HasPrefix(c, "shade") || slices.Contains([]string{"good", "fair", "bad", "own"}, c) {
				fmt.Fprintf(&b, "%-10s %s %s\n", x.name, c, x.attr["d"])
			}
		}
	})
	golden := filepath.Join("testdata", "outline.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the outline has changed; -update writes it anew\ngot:\n%s", got)
	}
}

// TestHostileNames: what a kernel calls itself changes no element of the page.
func TestHostileNames(t *testing.T) {
	const benign, hostile = "a-name", "<script>alert(1)</script><img/src=x>\"'&`{{.}}]]>-->"
	build := func(name string) []byte {
		r := rejected(t)
		r.Lowering = r.Definition.Name + "/" + strings.ReplaceAll(name, "/", "|")
		f := r.Failure
		f.Message, f.Got, f.Want, f.Truth, f.When, f.Where, f.Note, f.Replay, f.Place = name, name, name, name, name, name, name, name, name
		f.Inputs, f.Row, f.Terms = []string{name}, []string{name}, []string{name}
		f.Maps[0].Output, f.Maps[0].RowAxis, f.Maps[0].ColAxis = name, name, name
		r.Reason, r.Machine.Name, r.Host.CPU, r.Tool, r.Version, r.Toolchain.Options = name, name, name, name, name, name
		r.NonClaims = []string{name}
		extra := html.Extra{Title: name, Command: name, Notes: []string{name}, Mutants: []html.Mutants{{Op: name, Of: 1}}}
		r.Speed = &evidence.Speed{Shape: name, Void: name, Note: name}
		r.Obtained["speed"] = "made up for a test"
		return page(t, extra, r)
	}
	shape := func(data []byte) (elements []string, text string) {
		root := parse(t, data)
		root.each(func(x *node, depth int) {
			elements = append(elements, fmt.Sprintf("%d %s %d", depth, x.name, len(x.attr)))
		})
		return elements, root.text
	}
	want, _ := shape(build(benign))
	got, text := shape(build(hostile))
	if !slices.Equal(got, want) {
		t.Errorf("the page has %d elements, want the %d of a benign name", len(got), len(want))
	}
	if n := strings.Count(text, hostile); n < 20 {
		t.Errorf("the name is shown literally %d times, want at least 20", n)
	}
}

// TestUnprintableNames: characters that no page may have are replaced.
func TestUnprintableNames(t *testing.T) {
	r := rejected(t)
	r.Failure.Note = "a\x00b\x1bc\u202ed\ufffee\u0085f"
	data := page(t, html.Extra{}, r)
	parse(t, data)
	if !bytes.Contains(data, []byte("a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf")) {
		t.Error("the characters are not replaced")
	}
}

func TestDeterministic(t *testing.T) {
	first := full(t)
	for range 5 {
		if !bytes.Equal(full(t), first) {
			t.Fatal("two pages of the same reports differ")
		}
	}
}

// TestOldReports: reports without promises, histograms and maps have a page.
func TestOldReports(t *testing.T) {
	r := rejected(t)
	r.Histogram, r.Failure.Maps, r.Terms = nil, nil, evidence.Terms{}
	obtain(r)
	parse(t, page(t, html.Extra{}, r))
}

func TestHeadlines(t *testing.T) {
	for _, x := range []struct {
		want    string
		reports []*evidence.Report
	}{
		{"rejected: softmax.backward/cpu.rowwise in f16 does not compute what the definition says", []*evidence.Report{rejected(t)}},
		{"rejected: 1 of 2 kernels does not compute what the definition says", []*evidence.Report{rejected(t), accepted(t), skipped(t)}},
		{"accepted: softmax.backward/my.kernel in bf16 computes what the definition says", []*evidence.Report{accepted(t)}},
		{"accepted: the only kernel that could run computes what the definition says", []*evidence.Report{skipped(t), accepted(t)}},
		{"undecided: softmax.backward/my.wide in bf16 could not be decided", []*evidence.Report{undecided(t)}},
		{"undecided: 1 of 2 kernels could not be decided", []*evidence.Report{undecided(t), accepted(t)}},
	} {
		title := ""
		parse(t, page(t, html.Extra{}, x.reports...)).each(func(n *node, _ int) {
			if n.name == "title" {
				title = n.text
			}
		})
		if title != x.want {
			t.Errorf("got %q, want %q", title, x.want)
		}
	}
}

// TestLargeOutputs: charts and maps stay as wide as a narrow screen, whatever they show.
func TestLargeOutputs(t *testing.T) {
	r := rejected(t)
	b := evidence.NewMap(5000, 1)
	for row := range 5000 {
		b.Add(row, 0)
	}
	long := b.Map()
	long.Case, long.Output, long.RowAxis, long.IsPart = "normal/R=5000", "y", "R", true
	r.Failure.Maps = append(r.Failure.Maps, *long)
	r.Histogram.Set = []evidence.Bin{{UpTo: evidence.LeastBin, Outputs: 1}, {UpTo: evidence.MostBin, Outputs: 1}}
	r.Histogram.SetUndefined = 0
	most := 0.0
	parse(t, page(t, html.Extra{}, r)).each(func(x *node, _ int) {
		if x.name == "svg" {
			var left, top, width, height float64
			if _, err := fmt.Sscan(x.attr["viewBox"], &left, &top, &width, &height); err != nil || width <= 0 || height <= 0 {
				t.Errorf("viewBox is %q: %v", x.attr["viewBox"], err)
			}
			most = max(most, width)
		}
	})
	if most > 362 { // 390 less the margins of the page
		t.Errorf("a picture is %v pixels wide", most)
	}
}

func TestRefused(t *testing.T) {
	if err := html.Write(io.Discard, nil, html.Extra{}); err == nil {
		t.Error("a page of nothing is written")
	}
	if err := html.Write(io.Discard, []*evidence.Report{rejected(t)}, html.Extra{Replays: []string{"a", "b"}}); err == nil {
		t.Error("two commands for one report are accepted")
	}
	r := rejected(t)
	r.Mismatches++
	if err := html.Write(io.Discard, []*evidence.Report{r}, html.Extra{}); err == nil {
		t.Error("a report that contradicts itself is written")
	}
}
