// Package evidence defines the reports of a verification, made for readers who do not
// trust it: what was checked, on what, how tightly, with what result, and what is not
// claimed. It does not know how a verdict was reached.
//
// A report is JSON that follows schema.json, and Markdown for people. Two runs of the
// same program on the same inputs give reports that differ only in the fields host,
// machine, time, speed and those whose names end in seconds. The index has the hashes of the
// reports' files, so it differs in these too.
//
// Numbers are finite and not negative. A figure that was not measured is null. If an
// output or its truth is NaN or infinite and the other is not, there is no error in ulp:
// the output is counted in error_undefined and left out of worst_error_ulp. An unknown
// text is empty.
//
// Anyone can check the following without running anything; [Report.Check] does:
//
//   - digest_sha256 is the SHA-256 of the lines that [DigestOf] describes:
//     jq -r '.case_list[] | "\(.name) \(.inputs_sha256) \(.outputs_sha256)"' | sha256sum
//     A compact report has a digest of each line instead of the hashes: see [CaseDigest].
//   - definition.sha256 is the SHA-256 of definition.text, and lowering is
//     definition.name, a slash and a name. fingerprints has definition, source, compiler
//     and artifact, each with a hash or a note that says why there is none.
//   - cases is the length of case_list, elements and mismatches are the sums over it.
//     Names of cases are unique.
//   - coverage.judged is at most coverage.produced, and coverage.compiled at most
//     coverage.judged; if accepted, at most 15/16 of it.
//   - Tiers are from a closed list, each at most once, and fail at most as often as
//     they check. A mismatch makes a tier fail.
//   - The verdict is rejected if and only if a tier failed. Then, and only then, there is
//     a failure with its tier, place and message, and if possible a command that replays
//     it.
//   - The verdict is accepted only if nothing failed, something was compared, and
//     everything produced was judged. Every other verdict has a reason. A skipped report
//     has no cases.
//   - The verdict is undecided only if nothing failed, but of some output fewer elements are
//     decided than accepted needs, or a budget of time was spent before all cases of level
//     smoke were done. Honest says yes, no or undecided as the verdict does;
//     accurate does not depend on it.
//   - Under contract bits exactly one value is admissible for every output, and no
//     accepted output is farther from the truth than the definition promises:
//     worst_error_share is at most 1, unless a clause was waived.
//   - Figures agree with the cases in which they were worst.
//   - Where candidates are listed, the model is one of them, each is listed once, and the
//     elements and mismatches of the model are those of the report.
//   - The histogram counts at most the judged outputs, no more wrong ones than there are
//     mismatches, and all outputs with an error against the truth.
//   - No two algorithms have the same name, parts and model, and all together computed at
//     most the cases of the report; the bits of a model are compared under contract bounded.
//   - non_claims is not empty, and obtained says how every other field was obtained.
//
// Start with [Report].
package evidence

import (
	"fmt"
	"time"
)

// Verdict is the result of a verification.
type Verdict string

const (
	Accepted     Verdict = "accepted"
	Rejected     Verdict = "rejected"
	Inadmissible Verdict = "inadmissible" // undecided: it did not compile, returned an error or hung, or nothing was compared
	Interrupted  Verdict = "interrupted"  // undecided: the verification was stopped before everything was checked
	Undecided    Verdict = "undecided"    // nothing failed, but too many outputs have sets too large to say anything
	Unfinished   Verdict = "unfinished"   // nothing failed, but a budget was spent before all cases of level smoke were done
	Skipped      Verdict = "skipped"
)

// Word returns the verdict as texts for people have it: a kernel without a result is undecided,
// whatever the reason, which stands beside it. Data tell the reasons apart.
func (v Verdict) Word() string {
	if v == Inadmissible {
		v = Undecided
	}
	return string(v)
}

// Verdicts lists all verdicts, in the order of an index's counts.
var Verdicts = []Verdict{Accepted, Rejected, Inadmissible, Interrupted, Undecided, Unfinished, Skipped}

// TierName names a kind of check.
type TierName string

// The kinds of checks, in the order in which reports list them.
const (
	Structure  TierName = "structure"  // writes every output and nothing else
	Bits       TierName = "bits"       // equal to the reference, bit for bit
	Set        TierName = "set"        // in the admissible set
	Grid       TierName = "grid"       // on inputs whose sums are exact in every order, equal to the reference
	Statistics TierName = "statistics" // errors distributed as honest rounding would
	Relations  TierName = "relations"  // scaled inputs give scaled outputs
	Invariance TierName = "invariance" // the same bits when repeated, and with other workers, alignments and neighbours
)

// TierNames is the closed list of the kinds of checks.
var TierNames = []TierName{Structure, Bits, Set, Grid, Statistics, Relations, Invariance}

// Contract is what a lowering promises.
type Contract string

const (
	ContractBits    Contract = "bits"    // the reference's bits
	ContractBounded Contract = "bounded" // a value in the admissible set
)

// Contracts, Levels and DTypes list the values of the fields contract, level and dtype.
var (
	Contracts = []Contract{ContractBits, ContractBounded}
	Levels    = []string{"smoke", "quick", "full", "exhaustive", levelCase, levelCall}
	DTypes    = []string{"f16", "bf16", "f32", "i32", "e4m3", "e5m2", "i8", "i64"}
)

const (
	levelCase = "case" // one case alone
	levelCall = "call" // on the caller's own data
)

// Summary is the result for one lowering of one definition in one storage format. The
// program prints Summaries with --json.
type Summary struct {
	Op       string   `json:"op"`
	Lowering string   `json:"lowering"` // its id: definition, slash, name
	DType    string   `json:"dtype"`
	Device   string   `json:"device"`
	Level    string   `json:"level"`
	Params   []string `json:"params,omitempty"` // that have one value in every case, as they were given: eps=1e-3
	Contract Contract `json:"contract"`
	Model    string   `json:"model"` // how sums round: the accumulation rule, fma or mma(16,25), or the declared order. Committed reports have the name

	Cases      int   `json:"cases"`
	Elements   int64 `json:"elements"`   // outputs compared
	Mismatches int64 `json:"mismatches"` // outputs that are not admissible

	MeanAdmissible   *float64 `json:"mean_admissible"` // values that would have been accepted, per output; 1 under contract bits
	MedianAdmissible *float64 `json:"median_admissible"`
	WorstAdmissible  *int64   `json:"worst_admissible"`
	ShareOverOne     *float64 `json:"share_over_one"` // of outputs for which more than one value would have been accepted

	TruthElements   int64    `json:"truth_elements"`    // outputs that were also compared with the truth
	WorstErrorULP   *float64 `json:"worst_error_ulp"`   // of the storage format, against truth
	WorstErrorShare *float64 `json:"worst_error_share"` // of what the definition promises for the output, whose error may be large in ulp where terms cancel
	ErrorDType      string   `json:"error_dtype"`       // format of these ulps: DType, or that of the outputs if none is stored in it
	Misrounded      *float64 `json:"misrounded"`        // share of those that are not the correctly rounded truth
	Undecided       int64    `json:"undecided"`         // of those, the ones whose correct rounding is not known
	ErrorUndefined  int64    `json:"error_undefined"`   // of those, the ones with no distance to the truth

	Terms

	Coverage  Coverage   `json:"coverage"`
	Unchecked *Unchecked `json:"unchecked,omitempty"` // cases that a budget left out; nil if none
	LeftOut   string     `json:"left_out,omitempty"`  // how many cases the kernel does not take, and why; "" if it takes all
	Tiers     []Tier     `json:"tiers"`

	// Scope is ScopeInvariance if no output was judged, and "" otherwise. Properties are those
	// that were asked for besides.
	Scope      string     `json:"scope,omitempty"`
	Properties []Property `json:"properties,omitempty"`

	Speed *Speed `json:"speed,omitempty"` // if it was measured

	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // "" if accepted
	Seconds float64 `json:"seconds"`
}

// Coverage is the number of outputs produced and judged, tile by tile.
type Coverage struct {
	Produced int64 `json:"produced"` // output elements of all cases
	Judged   int64 `json:"judged"`   // of these, those in a tile that was judged
	Tiles    int64 `json:"tiles"`

	// Compiled is how many of the judged outputs were compared with answers of compiled code
	// for the CPU alone. The answers to the others were interpreted.
	Compiled int64 `json:"compiled,omitempty"`

	// Freivalds is how many of the judged outputs were judged by Freivalds' check, which misses a
	// wrong row of a product with a probability of at most 2^-40.
	Freivalds int64 `json:"freivalds,omitempty"`
}

// Tier is the result of one kind of check.
type Tier struct {
	Name   TierName `json:"name"` // one of TierNames
	Checks int64    `json:"checks"`
	Failed int64    `json:"failed"`
	Note   string   `json:"note,omitempty"` // why it did not apply, or figures
}

// Report is the evidence for one Summary.
type Report struct {
	Schema  string    `json:"schema"` // SchemaID
	Tool    string    `json:"tool"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	Host    Host      `json:"host"`

	Summary

	Formats       []string      `json:"formats"` // the storage formats that were run, operand by operand
	Machine       Machine       `json:"machine"`
	Toolchain     Toolchain     `json:"toolchain"`
	Fingerprints  []Fingerprint `json:"fingerprints"`
	Definition    Definition    `json:"definition"`
	Generator     Generator     `json:"generator"`
	CaseList      []Case        `json:"case_list"`
	DigestSHA256  string        `json:"digest_sha256"`        // DigestOf(CaseList)
	Algorithms    []Algorithm   `json:"algorithms,omitempty"` // of a lowering that is a vendor's library
	WorstCases    []WorstCase   `json:"worst_cases"`
	Histogram     *Histogram    `json:"histogram,omitempty"`
	Failure       *Failure      `json:"failure,omitempty"`
	KernelSeconds *float64      `json:"kernel_seconds"` // time in the kernel, summed over all cases
	Candidates    []Candidate   `json:"candidates,omitempty"`
	Evidence      []string      `json:"evidence"`   // what this report shows
	NonClaims     []string      `json:"non_claims"` // what it does not

	// Obtained says how every other field was obtained, by JSON name.
	Obtained map[string]string `json:"obtained"`

	// Signatures are left to an envelope around the report (DSSE). The list is empty.
	Signatures []string `json:"signatures"`
}

// Host is the machine that ran the verification.
type Host struct {
	OS            string `json:"os"`
	Arch          string `json:"arch"`
	CPU           string `json:"cpu"`
	Cores         int    `json:"cores"`
	MemoryBytes   int64  `json:"memory_bytes"`
	ProgramSHA256 string `json:"program_sha256,omitempty"` // of the executable
}

// Machine is the device that was judged.
type Machine struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Driver       string `json:"driver"`
	MemoryBytes  int64  `json:"memory_bytes"`
	Workers      int    `json:"workers"`
}

// Toolchain is the compiler of the kernel.
type Toolchain struct {
	Compiler string `json:"compiler"`
	Version  string `json:"version"`
	Options  string `json:"options"`
}

// Fingerprint is the SHA-256 of something that determines the kernel.
type Fingerprint struct {
	Of     string `json:"of"`             // one of fingerprintKinds
	SHA256 string `json:"sha256"`         // "" if there is none
	Note   string `json:"note,omitempty"` // what exactly was hashed, or why there is no hash
}

// fingerprintKinds lists the Fingerprints of every report.
var fingerprintKinds = []string{"definition", "source", "compiler", "artifact"}

// Definition is the definition that the lowering was verified against.
type Definition struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of Text
	Text   string `json:"text"`
}

// Generator says how the inputs were generated.
type Generator struct {
	Name string  `json:"name"`
	Seed *uint64 `json:"seed"` // null for a caller's own data
}

// Case is one run of the kernel on one set of inputs.
type Case struct {
	Name          string     `json:"name"`   // without white space; with the seed it determines the case
	Shapes        []string   `json:"shapes"` // x f16[4,4097], operand by operand
	Params        []string   `json:"params"` // eps=1e-05, in the order of the definition
	Tiers         []TierName `json:"tiers"`
	Elements      int64      `json:"elements"`
	Mismatches    int64      `json:"mismatches"`
	InputsSHA256  string     `json:"inputs_sha256"`
	OutputsSHA256 string     `json:"outputs_sha256"` // with every NaN replaced by the canonical one

	// Digest is the CaseDigest in a compact report, which has no shapes, parameters, tiers
	// and hashes; "" otherwise.
	Digest string `json:"-"`
}

// Algorithm is one that a vendor's library chose, and how its first results in the cases
// that it computed compare with a model to the bit.
type Algorithm struct {
	Name      string   `json:"name"`       // by the library's own numbers
	Parts     int      `json:"parts"`      // into which it divides a sum, as it says; 1 is a whole sum
	Model     string   `json:"model"`      // that results are compared with: mma(16,25)
	Cases     int      `json:"cases"`      // that it computed
	SameCases int      `json:"same_cases"` // of these, those whose outputs all have the model's bits
	Elements  int64    `json:"elements"`   // outputs
	SameBits  int64    `json:"same_bits"`  // of these, those with the model's bits
	Others    []string `json:"others"`     // the first cases with other bits
}

// WorstCase is the output at which a figure was largest, with its inputs.
type WorstCase struct {
	Figure string   `json:"figure"` // error_ulp, error_share or admissible
	Value  float64  `json:"value"`
	Case   string   `json:"case"`
	Place  string   `json:"place"` // y[3,17]
	Got    string   `json:"got"`
	Truth  string   `json:"truth"`  // "" if unknown
	Inputs []string `json:"inputs"` // x[3,17] = 0x3c00 (1), the inputs at that place
}

// The figures of a WorstCase.
const (
	FigureErrorULP   = "error_ulp"
	FigureErrorShare = "error_share"
	FigureAdmissible = "admissible"
)

// Failure is the first rejection, shrunk to a small case.
type Failure struct {
	Tier         TierName `json:"tier"`
	Case         string   `json:"case"` // the smallest that still fails
	Seed         uint64   `json:"seed"`
	OriginalCase string   `json:"original_case"` // in case_list, or "" for a check that ran no case
	Place        string   `json:"place"`         // dx[3,4095], or dx if the failure is not at one element
	Got          string   `json:"got"`           // 0x3c11 (1.0166016)
	Want         string   `json:"want"`
	Truth        string   `json:"truth"` // "" if unknown
	Inputs       []string `json:"inputs"`
	Row          []string `json:"row"`              // the row around the place: inputs, then the output, got and want
	Clause       string   `json:"clause,omitempty"` // that says what the output should be: crossentropy.forward.C5; "" if it is a matter of arithmetic
	Message      string   `json:"message"`          // one line
	Replay       string   `json:"replay"`           // a command that reproduces it; "" if only the calling program can
	Note         string   `json:"note,omitempty"`

	Kinds []string `json:"kinds,omitempty"` // the tiers that failed, with counts, if there are several
	When  string   `json:"when,omitempty"`  // what the failing cases have in common, and the others do not
	Where string   `json:"where,omitempty"` // which elements of the output fail, in the original case
	Terms []string `json:"terms,omitempty"` // of a sum: the terms that seem to be lost or counted wrongly, or else the largest
	Maps  []Map    `json:"maps,omitempty"`  // of the output with the place, in the original case and in the smallest
}

// Candidate is a model that a matrix instruction was held to. Reports of other verifications
// have none.
type Candidate struct {
	Model      string `json:"model"`
	Elements   int64  `json:"elements"`   // outputs compared: a candidate with enough mismatches is dropped
	Mismatches int64  `json:"mismatches"` // outputs that differ from the candidate's
}

// Run is the JSON output of a verification.
type Run struct {
	Tool    string    `json:"tool"`
	Version string    `json:"version"`
	Host    Host      `json:"host"`
	Seed    *uint64   `json:"seed"` // null for a caller's own data
	Results []Summary `json:"results"`

	// Failures has the counterexample of every result that is rejected.
	Failures []RunFailure `json:"failures"`
}

// RunFailure is the first rejection of one result.
type RunFailure struct {
	Lowering string  `json:"lowering"`
	DType    string  `json:"dtype"`
	Failure  Failure `json:"failure"`
}

// Index lists the reports in a folder.
type Index struct {
	Schema  string        `json:"schema"` // IndexSchemaID
	Tool    string        `json:"tool"`
	Version string        `json:"version"`
	Time    time.Time     `json:"time"` // of the latest report
	Host    Host          `json:"host"`
	Counts  VerdictCounts `json:"counts"`
	Totals  Totals        `json:"totals"`
	Reports []IndexEntry  `json:"reports"`

	// Signatures are left to an envelope around the index (DSSE), which has the hashes
	// of all reports. The list is empty.
	Signatures []string `json:"signatures"`
}

// VerdictCounts holds the number of reports with each verdict.
type VerdictCounts struct {
	Accepted     int `json:"accepted"`
	Rejected     int `json:"rejected"`
	Inadmissible int `json:"inadmissible"`
	Interrupted  int `json:"interrupted"`
	Undecided    int `json:"undecided,omitempty"`
	Unfinished   int `json:"unfinished,omitempty"`
	Skipped      int `json:"skipped"`
}

// String lists the counts. Verdicts that few runs can have are left out if there are none.
func (c VerdictCounts) String() string {
	text := fmt.Sprintf("%d accepted, %d rejected, %d undecided, %d interrupted,", c.Accepted, c.Rejected, c.Inadmissible+c.Undecided, c.Interrupted)
	if c.Unfinished > 0 {
		text += fmt.Sprintf(" %d unfinished,", c.Unfinished)
	}
	return text + fmt.Sprintf(" %d skipped", c.Skipped)
}

// Totals are sums over all reports.
type Totals struct {
	Reports    int     `json:"reports"`
	Cases      int     `json:"cases"`
	Elements   int64   `json:"elements"`
	Mismatches int64   `json:"mismatches"`
	Seconds    float64 `json:"seconds"`
}

// IndexEntry describes one report and its files, which are in the folder of the index.
type IndexEntry struct {
	Op         string   `json:"op"`
	Lowering   string   `json:"lowering"`
	DType      string   `json:"dtype"`
	Device     string   `json:"device"`
	Level      string   `json:"level"`
	Contract   Contract `json:"contract"`
	Cases      int      `json:"cases"`
	Elements   int64    `json:"elements"`
	Mismatches int64    `json:"mismatches"`
	Verdict    Verdict  `json:"verdict"`
	Reason     string   `json:"reason"`
	JSON       string   `json:"json"`     // file name
	Markdown   string   `json:"markdown"` // file name
	SHA256     string   `json:"sha256"`   // of the JSON file
}
