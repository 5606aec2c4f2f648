// Package soak holds a whole chip to answers that are known, for a given time: every multiprocessor of
// a GPU or every core of a processor, and most of its memory. It is for owners of many accelerators who
// look for the one that computes wrongly.
//
// GPU and Processor run a soak. Both return a Report, which says what was covered, what the chip told
// of its health, and each fault with its place.
package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"tokitai/evidence"
)

// Schema is the schema of reports.
const Schema = "urn:tokitai:soak:1"

// Report says what a soak found.
type Report struct {
	Schema  string        `json:"schema"`
	Tool    string        `json:"tool"`
	Version string        `json:"version"`
	Host    evidence.Host `json:"host"`
	Began   time.Time     `json:"began"` // by the machine's clock, which anyone can set
	Seconds float64       `json:"seconds"`
	Asked   float64       `json:"asked_seconds"`
	Seed    uint32        `json:"seed"`

	Device       string `json:"device"` // such as cuda:0
	Name         string `json:"name"`
	Architecture string `json:"architecture,omitempty"`
	Driver       string `json:"driver,omitempty"`
	Bus          string `json:"bus,omitempty"`    // where the chip is
	UUID         string `json:"uuid,omitempty"`   // which chip it is
	Serial       string `json:"serial,omitempty"` // of its board

	Units    Units    `json:"units"`
	Checks   []Check  `json:"checks"`
	NotAsked []string `json:"not_asked,omitempty"` // what could not be held to answers, and why
	Memory   Memory   `json:"memory"`
	Health   Health   `json:"health"`

	FaultsFound int64    `json:"faults_found"`
	Faults      []Fault  `json:"faults,omitempty"` // the first of them
	Places      []string `json:"places,omitempty"` // what they have in common
	Verdict     Verdict  `json:"verdict"`
	Reason      string   `json:"reason,omitempty"`
}

// Verdict is what a soak comes to.
type Verdict string

const (
	Right     Verdict = "right"     // every answer was right, and all units answered
	Wrong     Verdict = "wrong"     // a fault was found
	Undecided Verdict = "undecided" // it ended early, or a unit gave no answer
)

// Units says which multiprocessors or cores answered.
type Units struct {
	What    string `json:"what"` // multiprocessors or cores
	Total   int    `json:"total"`
	Held    int    `json:"held"` // that every check has compared an answer of
	Missing []int  `json:"missing,omitempty"`
}

// Check counts the answers of one kind.
type Check struct {
	Name       string `json:"name"`
	Runs       int64  `json:"runs"` // launches, or rounds of a core
	Answers    int64  `json:"answers"`
	Least      int64  `json:"least"` // of a unit's answers
	Most       int64  `json:"most"`
	WrongUnits []int  `json:"wrong_units,omitempty"`
}

// Memory says how much memory was written with patterns and read back.
type Memory struct {
	Total    int64    `json:"total_bytes"`
	Held     int64    `json:"held_bytes"`
	Patterns []string `json:"patterns"`
	Passes   int64    `json:"passes"` // of one pattern each
	Moved    int64    `json:"moved_bytes"`
}

// Share returns the share of the memory that was held to patterns.
func (m Memory) Share() float64 {
	if m.Total == 0 {
		return 0
	}
	return float64(m.Held) / float64(m.Total)
}

// Health is what the chip told of itself.
type Health struct {
	Source  string `json:"source,omitempty"`
	NotTold string `json:"not_told,omitempty"` // why there is nothing
	Samples int    `json:"samples,omitempty"`

	Celsius       *Range   `json:"celsius,omitempty"`
	MemoryCelsius *Range   `json:"memory_celsius,omitempty"`
	Watts         *Range   `json:"watts,omitempty"`
	LimitWatts    *float64 `json:"limit_watts,omitempty"`
	ClockMHz      *Range   `json:"clock_mhz,omitempty"`

	Slowed map[string]float64 `json:"slowed,omitempty"` // by reason, the share of samples
	Errors []Counter          `json:"errors,omitempty"`
}

// Range is what samples of one quantity were.
type Range struct {
	Least float64 `json:"least"`
	Mean  float64 `json:"mean"`
	Most  float64 `json:"most"`
	n     int
}

func add(to **Range, value *float64) {
	if value == nil {
		return
	}
	r := *to
	if r == nil {
		r = &Range{Least: *value, Most: *value}
		*to = r
	}
	r.n++
	r.Least, r.Most = min(r.Least, *value), max(r.Most, *value)
	r.Mean += (*value - r.Mean) / float64(r.n)
}

// Counter is a counter of errors before and after.
type Counter struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// Fault is one wrong answer with its place. A field that does not apply is nil or empty.
type Fault struct {
	Check   string  `json:"check"`
	Unit    *int    `json:"unit,omitempty"` // that found it; of memory, that read it
	Block   *int64  `json:"block,omitempty"`
	Thread  *int    `json:"thread,omitempty"`
	Lane    *int    `json:"lane,omitempty"`
	Address *uint64 `json:"address,omitempty"` // an offset in the memory that was held, or in shared memory
	Bits    string  `json:"bits,omitempty"`    // that differ, as a word in hexadecimal
	Again   string  `json:"again,omitempty"`   // that differed when the word was read once more
	Text    string  `json:"text,omitempty"`
}

func (f *Fault) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if f.Unit != nil {
		add("unit %d", *f.Unit)
	}
	if f.Block != nil {
		add("block %d", *f.Block)
	}
	if f.Lane != nil {
		add("thread %d, lane %d", *f.Thread, *f.Lane)
	}
	if f.Address != nil {
		add("at byte %#x", *f.Address)
	}
	if f.Bits != "" {
		add("bits %s differ", f.Bits)
	}
	switch {
	case f.Again == "":
	case f.Again == f.Bits:
		add("when read again too")
	default:
		add("and %s when read again", f.Again)
	}
	if f.Text != "" {
		add("%s", f.Text)
	}
	return f.Check + ": " + strings.Join(parts, ", ")
}

// JSON returns the report's text.
func (r *Report) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// Decode reads a report and checks that it does not contradict itself.
func Decode(data []byte) (*Report, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	r := new(Report)
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the report")
	}
	u := r.Units
	switch {
	case r.Schema != Schema:
		return nil, fmt.Errorf("schema is %q, want %s", r.Schema, Schema)
	case r.Verdict != Right && r.Verdict != Wrong && r.Verdict != Undecided:
		return nil, fmt.Errorf("verdict is %q", r.Verdict)
	case u.Held < 0 || u.Total < 1 || u.Held+len(u.Missing) != u.Total:
		return nil, fmt.Errorf("%d of %d %s are held and %d are missing", u.Held, u.Total, u.What, len(u.Missing))
	case r.Memory.Held < 0 || r.Memory.Held > r.Memory.Total:
		return nil, fmt.Errorf("%d of %d bytes are held", r.Memory.Held, r.Memory.Total)
	case (r.FaultsFound > 0) != (r.Verdict == Wrong) || int64(len(r.Faults)) > r.FaultsFound:
		return nil, fmt.Errorf("the verdict is %s with %d faults, of which %d are listed", r.Verdict, r.FaultsFound, len(r.Faults))
	case r.Verdict == Right && u.Held != u.Total:
		return nil, fmt.Errorf("the verdict is right, and only %d of %d %s are held", u.Held, u.Total, u.What)
	}
	return r, nil
}

// decide sets the verdict.
func (r *Report) decide(ended string) {
	if r.Places = places(r.Units.What, r.Faults); len(r.Faults) > mostFaults {
		r.Faults = r.Faults[:mostFaults]
	}
	switch {
	case r.FaultsFound > 0:
		r.Verdict = Wrong
	case ended != "":
		r.Verdict, r.Reason = Undecided, ended
	case r.Units.Held < r.Units.Total:
		r.Verdict, r.Reason = Undecided, fmt.Sprintf("%d of %d %s gave no answer to every check", r.Units.Total-r.Units.Held, r.Units.Total, r.Units.What)
	default:
		r.Verdict = Right
	}
}

// mostFaults is how many faults a report lists.
const mostFaults = 64

// places says what the faults of each check have in common.
func places(units string, faults []Fault) []string {
	unit := strings.TrimSuffix(units, "s")
	var list, checks []string
	for _, f := range faults {
		if !slices.Contains(checks, f.Check) {
			checks = append(checks, f.Check)
		}
	}
	for _, check := range checks {
		var own []Fault
		for _, f := range faults {
			if f.Check == check {
				own = append(own, f)
			}
		}
		var where []string
		where = common(where, own, unit, func(f *Fault) string { return number(f.Unit) })
		where = common(where, own, "lane", func(f *Fault) string { return number(f.Lane) })
		where = common(where, own, "byte", func(f *Fault) string {
			if f.Address == nil {
				return ""
			}
			return fmt.Sprintf("%#x", *f.Address)
		})
		where = common(where, own, "bits", func(f *Fault) string { return f.Bits })
		list = append(list, fmt.Sprintf("%s: %s", check, strings.Join(where, ", ")))
	}
	return list
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// common adds what the faults have of a kind of place: a few, or how many.
func common(where []string, faults []Fault, what string, of func(*Fault) string) []string {
	var seen []string
	for i := range faults {
		if text := of(&faults[i]); text != "" && !slices.Contains(seen, text) {
			seen = append(seen, text)
		}
	}
	const few = 4
	if what != "bits" && !strings.HasSuffix(what, "s") && len(seen) > 1 {
		what += "s"
	}
	switch {
	case len(seen) == 0:
	case len(seen) <= few:
		where = append(where, what+" "+strings.Join(seen, " "))
	default:
		where = append(where, fmt.Sprintf("%d %s", len(seen), what))
	}
	return where
}

// Print writes a report for people.
func (r *Report) Print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-32s %s\n", name, fmt.Sprintf(format, args...))
	}
	name := r.Name
	if r.UUID != "" {
		name += ", " + r.UUID
	}
	if r.Bus != "" {
		name += ", bus " + r.Bus
	}
	line("device", "%s: %s", r.Device, name)
	line("time", "%.1f s", r.Seconds)
	line(r.Units.What, "%d of %d held to their answers", r.Units.Held, r.Units.Total)
	if len(r.Units.Missing) > 0 {
		line("  missing", "%s", strings.Trim(fmt.Sprint(r.Units.Missing), "[]"))
	}
	for _, c := range r.Checks {
		line("  "+c.Name, "%d answers, %d to %d from each of the %s", c.Answers, c.Least, c.Most, r.Units.What)
	}
	for _, text := range r.NotAsked {
		line("  not asked", "%s", text)
	}
	if r.Memory.Total > 0 {
		line("memory", "%.1f%% of %.2f GiB, %d passes, %.1f GiB moved", 100*r.Memory.Share(), gib(r.Memory.Total), r.Memory.Passes, gib(r.Memory.Moved))
	}
	r.Health.print(line)
	for _, text := range r.Places {
		line("WRONG", "%s", text)
	}
	for i := range r.Faults {
		if i == 8 {
			line("", "and %d more", r.FaultsFound-8)
			break
		}
		line("  fault", "%s", r.Faults[i].String())
	}
	verdict := string(r.Verdict)
	if r.Reason != "" {
		verdict += ": " + r.Reason
	}
	line("verdict", "%s", verdict)
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

func (h *Health) print(line func(name, format string, args ...any)) {
	if h.NotTold != "" {
		line("health", "not told: %s", h.NotTold)
		return
	}
	line("health", "%d samples, from %s", h.Samples, h.Source)
	between := func(name, unit string, r *Range) {
		if r != nil {
			line("  "+name, "%.0f to %.0f %s, mean %.0f", r.Least, r.Most, unit, r.Mean)
		}
	}
	between("temperature", "°C", h.Celsius)
	between("of memory", "°C", h.MemoryCelsius)
	between("power", "W", h.Watts)
	if h.LimitWatts != nil {
		line("  limit", "%.0f W", *h.LimitWatts)
	}
	between("clock", "MHz", h.ClockMHz)
	for _, reason := range slices.Sorted(maps.Keys(h.Slowed)) {
		line("  slowed", "by %s in %.0f%% of the samples", reason, 100*h.Slowed[reason])
	}
	for _, c := range h.Errors {
		text := fmt.Sprintf("%d", c.After)
		if c.After != c.Before {
			text = fmt.Sprintf("%d, before %d", c.After, c.Before)
		}
		line("  "+c.Name, "%s", text)
	}
}
