package verify

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/verify/cases"
	"tokitai/verify/glue"
	"tokitai/verify/origin"
)

// A campaign is a verification whose cases are divided among shards, which run in processes of their
// own, at any time and on several machines. A shard writes a journal, not a report: Glue puts the results
// of all journals together to the reports that one run would have written.

// Cut says which shard runs each case of a campaign: for each target, by the case's name. Shards count
// from 1.
type Cut []map[string]int

// CutCases divides the cases of targets among n shards. The cut follows from the targets, the options and n
// alone. It gives the largest cases first, each to the shard that has the least work so far, so that no
// shard has more than the mean and the largest case together.
func CutCases(targets []*Target, options func(*Target) Options, n int) Cut {
	type piece struct {
		target int
		name   string
		work   float64
	}
	var pieces []piece
	cut := make(Cut, len(targets))
	for i, t := range targets {
		o := options(t)
		r := o.request(t)
		cut[i] = map[string]int{}
		for _, c := range t.Cases().Schedule(r).Cases {
			pieces = append(pieces, piece{i, c.Name(t.Cases()), t.Cases().WorkOf(c, r)})
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.work, a.work) })
	shards := make(loads, n)
	for k := range shards {
		shards[k].shard = k + 1
	}
	for _, p := range pieces {
		cut[p.target][p.name] = shards[0].shard
		shards[0].work += p.work
		heap.Fix(&shards, 0)
	}
	return cut
}

// loads is a heap of shards, the one with the least work first.
type loads []struct {
	shard int
	work  float64
}

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].work, l[j].work), cmp.Compare(l[i].shard, l[j].shard)) < 0
}
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *loads) Push(any)     { panic("verify: the shards of a cut are fixed") }
func (l *loads) Pop() any     { panic("verify: the shards of a cut are fixed") }

// Hash returns the SHA-256 of a cut: two campaigns with the same hash have the same targets and cases in the
// same shards.
func (c Cut) Hash(targets []*Target) string {
	h := sha256.New()
	for i, t := range targets {
		fmt.Fprintf(h, "%s %s %s\n", t.ID(), t.DType, t.Definition.Hash())
		names := make([]string, 0, len(c[i]))
		for name := range c[i] {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(h, "%d %s\n", c[i][name], name)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// ShardSchema is the schema of the files that shards write.
const ShardSchema = "urn:tokitai:shard:1"

// Shard describes a shard: the first line of its journal.
type Shard struct {
	Schema  string        `json:"schema"`
	K       int           `json:"k"` // from 1
	N       int           `json:"n"`
	Tool    string        `json:"tool"`
	Version string        `json:"version"`
	Program string        `json:"program"` // SHA-256 of the executable
	Device  string        `json:"device"`  // the kind
	Machine string        `json:"machine"` // what the kernels run on: name, architecture and driver
	Level   string        `json:"level"`
	Seed    uint64        `json:"seed"`
	Cut     string        `json:"cut"`  // Cut.Hash
	Args    []string      `json:"args"` // of the command, by which a merge knows the targets
	Host    evidence.Host `json:"host"`
}

// Name returns the shard's name, such as 3/8.
func (s *Shard) Name() string { return fmt.Sprintf("%d/%d", s.K, s.N) }

// FileName returns the name of the shard's file.
func (s *Shard) FileName() string { return fmt.Sprintf("shard-%d-of-%d.jsonl", s.K, s.N) }

// differs says in what two shards are not of one campaign, or returns "".
func (s *Shard) differs(other *Shard) string {
	for _, x := range []struct{ what, a, b string }{
		{"version", s.Tool + " " + s.Version, other.Tool + " " + other.Version},
		{"program", s.Program, other.Program},
		{"level", s.Level, other.Level},
		{"seed", fmt.Sprint(s.Seed), fmt.Sprint(other.Seed)},
		{"device", s.Device, other.Device},
		{"kind of machine", s.Machine, other.Machine},
		{"number of shards", fmt.Sprint(s.N), fmt.Sprint(other.N)},
		{"cut of the cases", s.Cut, other.Cut},
	} {
		if x.a != x.b {
			return fmt.Sprintf("another %s, %s and not %s", x.what, x.b, x.a)
		}
	}
	return ""
}

// ran is what a shard's journal says of a target beside its cases: what computed them.
type ran struct {
	Machine   *device.Description  `json:"machine,omitempty"`
	Unwatched string               `json:"unwatched,omitempty"` // why no caller can be watched on the device, or ""
	Toolchain evidence.Toolchain   `json:"toolchain"`
	Compiler  evidence.Fingerprint `json:"compiler"`
	Artifact  evidence.Fingerprint `json:"artifact"`
	Failure   *evidence.Failure    `json:"failure,omitempty"` // of the first case that failed here, shrunk
	Seconds   float64              `json:"seconds"`           // of the process that finished it
	Faults    []string             `json:"faults,omitempty"`  // of the judge
	Reason    string               `json:"reason,omitempty"`  // why cases have no result
}

// unsuited is why a kernel does not take a case.
type unsuited struct {
	Lowering  string `json:"lowering"`
	Cause     string `json:"cause"`
	IsRefused bool   `json:"is_refused,omitempty"`
	Index     string `json:"index,omitempty"`
}

func (u *unsuited) err() *engine.UnsuitedError {
	return &engine.UnsuitedError{Lowering: u.Lowering, Cause: errors.New(u.Cause), IsRefused: u.IsRefused, Index: u.Index}
}

// The keys of lines that are no results of cases.
const (
	shardKey  = "shard"
	ranPrefix = "ran "
)

// note adds a line that is no result of a case.
func (j *Journal) note(key string, v any) {
	text, err := json.Marshal(v)
	j.write(key, text, err)
}

// BeginShard begins the journal of a shard, or checks that it is that of the shard.
func (j *Journal) BeginShard(s *Shard) error {
	if text, ok := j.notes[shardKey]; ok {
		old := new(Shard)
		if err := json.Unmarshal(text, old); err != nil {
			return err
		}
		if why := s.differs(old); why != "" {
			return fmt.Errorf("%s is of %s: begin anew without --resume, or in another folder", j.file.Name(), why)
		}
		if old.K != s.K {
			return fmt.Errorf("%s is of shard %s, not %s", j.file.Name(), old.Name(), s.Name())
		}
		return nil
	}
	if j.lines > 0 {
		return fmt.Errorf("%s is not the journal of a shard", j.file.Name())
	}
	j.note(shardKey, s)
	return nil
}

// ShardResults are the results of one shard.
type ShardResults struct {
	Path   string
	Shard  Shard
	SHA256 string // of the file
	known  map[string]map[string]caseResult
	notes  map[string]json.RawMessage
}

// ReadShard reads the journal of a shard. The shard may still be running.
func ReadShard(path string) (*ShardResults, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	j := &Journal{file: f, known: map[string]map[string]caseResult{}}
	if _, err := j.read(); err != nil {
		return nil, &ShardError{path, err.Error()}
	}
	h := sha256.New()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	r := &ShardResults{Path: path, SHA256: fmt.Sprintf("%x", h.Sum(nil)), known: j.known, notes: j.notes}
	text, ok := j.notes[shardKey]
	if !ok {
		return nil, &ShardError{path, "is not the file of a shard, or is truncated"}
	}
	var head struct{ Schema string }
	if json.Unmarshal(text, &head); head.Schema != ShardSchema {
		return nil, &ShardError{path, fmt.Sprintf("is of schema %q, want %s: it may be of a newer version", head.Schema, ShardSchema)}
	}
	if err := json.Unmarshal(text, &r.Shard); err != nil {
		return nil, &ShardError{path, err.Error()}
	}
	if s := r.Shard; s.K < 1 || s.K > s.N {
		return nil, &ShardError{path, fmt.Sprintf("is of shard %s", s.Name())}
	}
	return r, nil
}

// Totals returns how many cases have results, and the mismatches in them.
func (r *ShardResults) Totals() (cases int, mismatches int64) {
	for _, results := range r.known {
		cases += len(results)
		for _, c := range results {
			mismatches += c.Found.Mismatches
		}
	}
	return cases, mismatches
}

// digestOf returns the SHA-256 of lines as sha256sum prints them for the files of shards, in the order of the
// shards.
func digestOf(list []*ShardResults) string {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b *ShardResults) int { return cmp.Compare(a.Shard.K, b.Shard.K) })
	h := sha256.New()
	for _, r := range sorted {
		fmt.Fprintf(h, "%s  %s\n", r.SHA256, r.Shard.FileName())
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// ShardError says that a file is no shard's, or not one of the same campaign.
type ShardError struct{ Path, Reason string }

func (e *ShardError) Error() string { return e.Path + ": " + e.Reason }

// CheckShards returns an error unless shards are of one campaign, and none is there twice.
func CheckShards(list []*ShardResults) error {
	if len(list) == 0 {
		return errors.New("verify: no shards")
	}
	first := list[0]
	seen := map[int]string{}
	for _, r := range list {
		if why := first.Shard.differs(&r.Shard); why != "" {
			return &ShardError{r.Path, "is of " + why + ", as " + first.Path + " is"}
		}
		if other, ok := seen[r.Shard.K]; ok {
			return &ShardError{r.Path, fmt.Sprintf("shard %s is given twice: it is in %s too", r.Shard.Name(), other)}
		}
		seen[r.Shard.K] = r.Path
	}
	return nil
}

// Missing lists the shards that have no results, and for each shard how many results of its cases are
// missing.
type Missing struct {
	Shard  int
	Cases  int    // without a result
	Of     int    // cases of the shard
	Reason string // why, if the shard says it
	First  string // the first of them
}

// String names a shard with what it lacks.
func (m Missing) String() string {
	if m.Cases == m.Of && m.Reason == "" {
		return fmt.Sprintf("shard %d is missing: %d cases", m.Shard, m.Of)
	}
	text := fmt.Sprintf("shard %d lacks %d of %d cases, the first of them %s", m.Shard, m.Cases, m.Of, m.First)
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}

// shardKeyOf returns the key of a target's results in the shards.
func (t *Target) shardKeyOf(o *Options) string {
	return (&verification{t: t, o: o}).key()
}

// FindMissing names what the shards lack.
func FindMissing(targets []*Target, options func(*Target) Options, cut Cut, list []*ShardResults) []Missing {
	missing := map[int]*Missing{}
	n := 0
	byShard := map[int]*ShardResults{}
	for _, r := range list {
		byShard[r.Shard.K], n = r, r.Shard.N
	}
	for k := 1; k <= n; k++ {
		missing[k] = &Missing{Shard: k}
	}
	for i, t := range targets {
		o := options(t)
		key := t.shardKeyOf(&o)
		names := make([]string, 0, len(cut[i]))
		for name := range cut[i] {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			m := missing[cut[i][name]]
			m.Of++
			if r := byShard[m.Shard]; r != nil {
				if _, ok := r.known[key][name]; ok {
					continue
				}
				if x, err := r.ran(key); err == nil && x != nil && m.Reason == "" {
					m.Reason = x.Reason
				}
			}
			if m.Cases++; m.First == "" {
				m.First = fmt.Sprintf("%s %s %s", t.ID(), t.DType, name)
			}
		}
	}
	var found []Missing
	for k := 1; k <= n; k++ {
		if missing[k].Cases > 0 {
			found = append(found, *missing[k])
		}
	}
	return found
}

func (r *ShardResults) ran(key string) (*ran, error) {
	text, ok := r.notes[ranPrefix+key]
	if !ok {
		return nil, nil
	}
	x := new(ran)
	if err := json.Unmarshal(text, x); err != nil {
		return nil, &ShardError{r.Path, err.Error()}
	}
	return x, nil
}

// Glue puts the results of shards together to the result of one target, by the gluing condition: the
// shards must have all cases between them, each case only where the cut puts it, and where one was run
// twice its inputs and outputs must be the same. No kernel runs. The report is that of a run without
// shards, but for a failure's details: the shard that met it has reduced it.
func Glue(t *Target, o Options, cut map[string]int, list []*ShardResults) (*Result, error) {
	planned := t.Cases().Schedule(o.request(t))
	s := newVerification(t, &o, planned)
	key := s.key()
	var sections []glue.Section[string]
	for _, r := range list {
		section := glue.Section[string]{Pieces: map[string]glue.Hash{}}
		for name, c := range r.known[key] {
			if cut[name] != r.Shard.K {
				return nil, &ShardError{r.Path, fmt.Sprintf("has case %s of %s, which is not one of shard %s", name, t.ID(), r.Shard.Name())}
			}
			section.Pieces[name] = sha256.Sum256([]byte(c.Inputs + " " + c.Outputs))
			section.Mismatches += c.Found.Mismatches
		}
		sections = append(sections, section)
	}
	whole := func(yield func(string, int64) bool) {
		for _, c := range planned.Cases {
			if !yield(c.Name(t.Cases()), max(t.outputsOf(c), 1)) {
				return
			}
		}
	}
	if g := glue.Join(whole, sections); !g.IsWhole() {
		return nil, fmt.Errorf("verify: %s %s: %s", t.ID(), t.DType, g.Reason("shards", "cases"))
	}
	s.total = len(planned.Cases)
	var first *ran
	byShard := map[int]*ran{}
	for _, r := range list {
		x, err := r.ran(key)
		if err != nil {
			return nil, err
		}
		if x == nil || x.Machine == nil {
			continue
		}
		if len(x.Faults) > 0 {
			return nil, &ShardError{r.Path, "the judge was found wrong there, and its results count for nothing: " + x.Faults[0]}
		}
		byShard[r.Shard.K] = x
		if first == nil {
			first = x
		}
		if a, b := first.Machine, x.Machine; a.Name != b.Name || a.Architecture != b.Architecture || a.Driver != b.Driver {
			return nil, &ShardError{r.Path, fmt.Sprintf("ran on %s %s %s, other shards on %s %s %s: a report is about one kind of machine", b.Name, b.Architecture, b.Driver, a.Name, a.Architecture, a.Driver)}
		}
	}
	if first == nil {
		return nil, fmt.Errorf("verify: %s %s: no shard has finished it", t.ID(), t.DType)
	}
	s.machine, s.unwatched = first.Machine, first.Unwatched
	seen := map[string]bool{}
	once := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			isSeen := seen[n]
			seen[n] = true
			return isSeen
		})
	}
	var failure *evidence.Failure
	for _, c := range planned.Cases {
		name := c.Name(t.Cases())
		var r caseResult
		for _, x := range list {
			if x.Shard.K == cut[name] {
				r = x.known[key][name]
			}
		}
		if r.Unsuited != nil {
			err := r.Unsuited.err()
			s.unsuited, s.whyUnsuited = s.unsuited+1, err.Cause
			s.refused.count(t, c, err)
			continue
		}
		r.Listings, r.Artifacts = once(r.Listings), once(r.Artifacts)
		before := s.first
		if s.take(c, r); s.first != before && byShard[cut[name]] != nil {
			failure = byShard[cut[name]].Failure
		}
	}
	s.glued = &gluedFrom{first, failure, len(list), digestOf(list)}
	result := &Result{Report: s.report(context.Background()), Replay: s.replay(nil)}
	result.Report.Seconds = 0
	for _, x := range byShard {
		result.Report.Seconds += x.Seconds
	}
	return result, nil
}

// gluedFrom is where the results of a glued verification come from.
type gluedFrom struct {
	ran     *ran
	failure *evidence.Failure
	shards  int
	digest  string // digestOf the shards
}

// setOrigin says what computed the results.
func (g *gluedFrom) setOrigin(r *evidence.Report, artifacts []string) {
	r.Toolchain, r.Fingerprints[2], r.Fingerprints[3] = g.ran.Toolchain, g.ran.Compiler, g.ran.Artifact
	if len(artifacts) > 0 {
		origin.SetArtifacts(&r.Fingerprints[3], artifacts)
	}
}

// shrunk returns the failure as the shard that met it has reduced it, or nil.
func (g *gluedFrom) shrunk() *evidence.Failure {
	if g == nil {
		return nil
	}
	return g.failure
}

// keepRan records what computed the cases of a shard's target.
func (s *verification) keepRan(r *evidence.Report) {
	x := &ran{Machine: s.machine, Unwatched: s.unwatched, Toolchain: r.Toolchain, Compiler: r.Fingerprints[2], Artifact: r.Fingerprints[3], Failure: r.Failure, Seconds: time.Since(s.began).Seconds(), Faults: s.faults}
	if r.Verdict == evidence.Inadmissible || r.Verdict == evidence.Interrupted {
		x.Reason = r.Reason
	}
	s.o.Journal.note(ranPrefix+s.key(), x)
}

// part returns the cases that the options ask for, and in a shard only its own.
func (o *Options) part(t *Target, list []*cases.Case) []*cases.Case {
	if o.Part == nil {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(c *cases.Case) bool { return !o.Part(c.Name(t.Cases())) })
}

// isNote reports whether a line's key is that of no case.
func isNote(key string) bool { return key == shardKey || strings.HasPrefix(key, ranPrefix) }
