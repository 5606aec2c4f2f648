package evidence

import (
	"slices"
	"strings"
	"time"
)

// hash stands for the SHA-256 of something that the samples do not have.
func hash(of string) string { return FingerprintOf([]byte(of)) }

const sampleText = "softmax.forward\n  y[r,c] = exp(x[r,c] - max) / sum | rounded <once>, `so`\n"

// base returns a report with two cases of 16 outputs each, without a verdict.
func base() *Report {
	r := &Report{
		Schema: SchemaID, Tool: "tokitai", Version: "v0.2.0", Time: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Host: Host{OS: "linux", Arch: "amd64", CPU: "Sample CPU 9000", Cores: 8, MemoryBytes: 1 << 34, ProgramSHA256: hash("program")},
		Summary: Summary{
			Op: "softmax.forward", Lowering: "softmax.forward/cpu.rowwise", DType: "f16", Device: "cpu", Level: "quick", Contract: ContractBits, Model: "fma",
			MeanAdmissible: new(1.0), MedianAdmissible: new(1.0), WorstAdmissible: new(int64(1)), ShareOverOne: new(0.0),
			Coverage: Coverage{Produced: 32, Judged: 32, Tiles: 2},
			Tiers: []Tier{
				{Name: Structure, Checks: 2},
				{Name: Bits, Checks: 32},
				{Name: Set, Note: "does not apply under contract bits"},
			},
			Seconds: 0.25,
		},
		Formats:   []string{"x f16, y f16"},
		Machine:   Machine{Name: "Sample CPU 9000", Architecture: "x86-64 with AVX2", MemoryBytes: 1 << 34, Workers: 8},
		Toolchain: Toolchain{Compiler: "gc", Version: "go1.26.0", Options: "GOAMD64=v1"},
		Fingerprints: []Fingerprint{
			{Of: "definition", SHA256: hash(sampleText), Note: "definition.text"},
			{Of: "source", Note: "interpreted from the definition: there is no source"},
			{Of: "compiler", Note: "the compiler of the program is not at hand"},
			{Of: "artifact", SHA256: hash("program"), Note: "the program"},
		},
		Definition:    Definition{Name: "softmax.forward", SHA256: hash(sampleText), Text: sampleText},
		Generator:     Generator{Name: "splitmix64", Seed: new(uint64(1<<64 - 1))},
		KernelSeconds: new(0.125),
		Evidence:      []string{"every output of 2 cases has the reference's bits"},
		NonClaims:     []string{"inputs other than those listed", "speed"},
		Obtained:      map[string]string{},
	}
	for _, name := range []string{"normal/R=2,C=8", "tail/R=2,C=8"} {
		r.CaseList = append(r.CaseList, Case{
			Name: name, Shapes: []string{"x f16[2,8]", "y f16[2,8]"}, Params: []string{}, Tiers: []TierName{Structure, Bits}, Elements: 16,
			InputsSHA256: hash("inputs " + name), OutputsSHA256: hash("outputs " + name),
		})
	}
	r.DigestSHA256 = DigestOf(r.CaseList)
	r.Cases, r.Elements = 2, 32
	return r
}

// tellAll says of every field that there is how it was obtained.
func tellAll(r *Report) {
	for _, field := range Fields() {
		if !r.IsAbsent(field) {
			r.Obtained[field] = "made up for a test"
		}
	}
}

// inStable makes a bounded report one of promise stable.
func inStable(r *Report) {
	r.Lowering, r.DType = "gemm.forward.accumulate/cuda.mine", "f16"
	r.Algorithms = nil
	r.Terms = Terms{
		Promise: "stable", Profile: "torch", Declared: "exp=2ulp", Honest: Yes, Accurate: No,
		Own:          &Errors{WorstErrorULP: new(0.5), WorstErrorShare: new(0.96), Misrounded: new(0.01)},
		MeanAllClose: new(41.5), MedianAllClose: new(40.0),
		Heights:    []Height{{LeastLength: 3, MostLength: 8, Height: 2, Share: 0.4, Outputs: 32, MeanValues: 1.25}},
		Decided:    []Decided{{Output: "c", Known: 16, Decided: 12, Share: 0.75, Needed: 0.5, Of: 32, OfThem: 20}},
		Clauses:    []Departure{{Clause: "gemm.forward.C3", Text: "NaN in, NaN out", Outputs: 2, IsWaived: true}},
		Allowances: []Allowance{{Text: "gemm: an error of 1", Outputs: 1}},
		Omitted:    []string{"d"},
	}
	r.Unchecked = &Unchecked{Cases: 12, BudgetSeconds: 2}
	r.WorstErrorShare = new(1.25)
	r.Histogram.Own = []Bin{{0, 16}, {0.5, 12}}
	r.WorstCases = append(r.WorstCases, WorstCase{Figure: FigureErrorShare, Value: 1.25, Case: "tail/R=2,C=8", Place: "c[1,7]", Got: "0x3f81 (1.0078125)"})
}

// inUndecided makes a report of promise stable one that decides too little.
func inUndecided(r *Report) {
	inStable(r)
	r.Lowering = "gemm.forward.accumulate/cuda.wide"
	r.Verdict, r.Reason, r.Honest, r.Evidence = Undecided, "c: 4 of 16 outputs are decided", Open, nil
	r.Unchecked = nil
	r.Decided[0] = Decided{Output: "c", Known: 16, Decided: 4, Share: 0.25, Needed: 0.5, Of: 32, OfThem: 20}
}

// inBounded makes a report one of a lowering that promises no bits, with its truth.
func inBounded(r *Report) {
	r.Op, r.Lowering, r.Definition.Name = "gemm.forward", "gemm.forward.accumulate/cuda.mma", "gemm.forward.accumulate"
	r.Contract, r.Model, r.Device, r.DType = ContractBounded, "mma(16,25)", "cuda:0", "bf16"
	r.Machine = Machine{Name: "Sample GPU", Architecture: "sm_90", Driver: "580.1", MemoryBytes: 1 << 37, Workers: 132}
	r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(1.03125), new(1.0), new(int64(2)), new(0.03125)
	r.Tiers = []Tier{{Name: Structure, Checks: 2}, {Name: Set, Checks: 32}, {Name: Statistics, Checks: 1, Note: "mean error 0.01 ulp"}}
	for i := range r.CaseList {
		r.CaseList[i].Tiers = []TierName{Structure, Set}
	}
	r.TruthElements, r.WorstErrorULP, r.Misrounded, r.Undecided, r.ErrorUndefined = 30, new(0.501953125), new(0.1), 1, 2
	r.ErrorDType = "bf16"
	r.Histogram = &Histogram{Set: []Bin{{0, 32}}, Truth: []Bin{{0, 12}, {0x1p-3, 4}, {0.5, 11}, {1, 1}}}
	r.WorstCases = []WorstCase{
		{Figure: FigureErrorULP, Value: 0.501953125, Case: "tail/R=2,C=8", Place: "c[1,7]", Got: "0x3f81 (1.0078125)", Truth: "1.0117493", Inputs: []string{"a[1,0] = 0x3f80 (1)", "b[0,7] = 0x3f81 (1.0078125)"}},
		{Figure: FigureAdmissible, Value: 2, Case: "normal/R=2,C=8", Place: "c[0,0]", Got: "0x0000 (0)"},
	}
	r.Algorithms = []Algorithm{
		{Name: "algorithm 66, tile 23", Parts: 1, Model: "mma(16,25)", Cases: 1, SameCases: 1, Elements: 16, SameBits: 16, Others: []string{}},
		{Name: "algorithm 21, tile 20", Parts: 4, Model: "mma(16,25)", Cases: 1, Elements: 16, SameBits: 9, Others: []string{"tail/R=2,C=8"}},
	}
	r.Verdict = Accepted
}

func inRejected(r *Report) {
	r.Op, r.Lowering, r.Definition.Name = "softmax.backward", "softmax.backward/cpu.rowwise", "softmax.backward"
	r.CaseList[1].Mismatches, r.Mismatches = 2, 2
	r.Tiers[1].Failed = 2
	r.Verdict, r.Reason = Rejected, "dx[1,7] differs"
	r.Evidence = nil
	r.Failure = &Failure{
		Tier: Bits, Case: "tail/R=1,C=5", Seed: 7, OriginalCase: "tail/R=2,C=8", Place: "dx[0,4]",
		Got: "0x3c11 (1.0166016)", Want: "0x3c10 (1.015625)", Truth: "1.01571", Inputs: []string{"dy[0,4] = 0x3c00 (1)", "y[0,4] = 0x3c10 (1.015625)"},
		Message: "softmax.backward/cpu.rowwise: dx[0,4] differs",
		Replay:  "tokitai verify softmax.backward --lowering cpu.rowwise --case tail/R=1,C=5 --seed 7 --device cpu",
		When:    "only where C > 4: 1 of 1 such case fails, none of the 1 other",
		Where:   "dx: the last column, and no other element (2 of 16 differ)",
		Terms:   []string{"changing only y[0,4] changes nothing in dx[0,0], and should", "y[0,4]·dy[0,4] = 1.015625·1"},
		Maps: []Map{{
			Case: "tail/R=2,C=8", Output: "dx", Rows: 2, Cols: 8, RowAxis: "R", ColAxis: "C", CellRows: 1, CellCols: 1, Wrong: 2,
			Cells: []string{".......9", ".......9"},
		}},
	}
	r.Histogram = &Histogram{Set: []Bin{{0, 30}, {1, 1}}, SetUndefined: 1}
}

// inNothing takes everything away that a run would have brought.
func inNothing(r *Report) {
	r.Cases, r.Elements, r.CaseList, r.DigestSHA256 = 0, 0, nil, DigestOf(nil)
	r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = nil, nil, nil, nil
	r.Coverage, r.Tiers, r.KernelSeconds, r.Evidence = Coverage{}, nil, nil, nil
}

// samples returns one consistent report of each kind, under different file names.
func samples() map[string]*Report {
	accepted, rejected, inadmissible, skipped, bounded, stable, undecided, hurried := base(), base(), base(), base(), base(), base(), base(), base()
	accepted.Verdict = Accepted
	inRejected(rejected)
	inNothing(inadmissible)
	inadmissible.DType, inadmissible.Verdict, inadmissible.Reason = "bf16", Inadmissible, "compile: the lowering does not apply"
	inNothing(skipped)
	skipped.DType, skipped.Verdict, skipped.Reason = "f32", Skipped, "no such device"
	skipped.Toolchain, skipped.Machine, skipped.Formats = Toolchain{}, Machine{}, nil
	inBounded(bounded)
	inBounded(stable)
	inStable(stable)
	inBounded(undecided)
	inUndecided(undecided)
	hurried.Lowering, hurried.Verdict, hurried.Reason, hurried.Evidence = "softmax.forward/cpu.slow", Unfinished, "no fault in 2 of the 30 cases of level smoke; the budget of 1s was spent", nil
	hurried.Unchecked = &Unchecked{Cases: 100, Smoke: 28, BudgetSeconds: 1}
	hurried.Params = []string{"eps=1e-3", "size.V=7"}
	all := map[string]*Report{
		"accepted": accepted, "rejected": rejected, "inadmissible": inadmissible, "skipped": skipped, "bounded": bounded, "stable": stable, "undecided": undecided, "hurried": hurried,
	}
	for _, r := range all {
		tellAll(r)
	}
	return all
}

func sampleNames() []string {
	return []string{"accepted", "rejected", "inadmissible", "skipped", "bounded", "stable", "undecided", "hurried"}
}

func sampleList() []*Report {
	var list []*Report
	for _, name := range sampleNames() {
		list = append(list, samples()[name])
	}
	return list
}

// damage is something wrong with a report, and words of the complaint.
type damage struct {
	name   string
	sample string
	do     func(r *Report)
	want   string
}

// damages break one rule each.
var damages = []damage{
	{"other schema", "accepted", func(r *Report) { r.Schema = "urn:other" }, "schema is"},
	{"no version", "accepted", func(r *Report) { r.Version = "" }, "version"},
	{"no time", "accepted", func(r *Report) { r.Time = time.Time{} }, "time is not set"},
	{"unknown dtype", "accepted", func(r *Report) { r.DType = "f64" }, "dtype is"},
	{"unknown level", "accepted", func(r *Report) { r.Level = "thorough" }, "level is"},
	{"unknown contract", "accepted", func(r *Report) { r.Contract = "close" }, "contract is"},
	{"unknown verdict", "skipped", func(r *Report) { r.Verdict = "fine" }, "verdict is"},
	{"device with a path", "accepted", func(r *Report) { r.Device = "/dev/gpu" }, "device is"},
	{"op with a space", "accepted", func(r *Report) { r.Op = "soft max" }, "op is"},
	{"parameter without a value", "hurried", func(r *Report) { r.Params[1] = "k=" }, `params[1] is "k="`},
	{"parameter of two lines", "hurried", func(r *Report) { r.Params[0] = "p=7\nk=4" }, "params[0] is"},
	{"no model", "accepted", func(r *Report) { r.Model = "" }, "model is empty"},
	{"lowering without a slash", "accepted", func(r *Report) { r.Lowering = "cpu.rowwise" }, "want the form"},
	{"lowering of another definition", "accepted", func(r *Report) { r.Lowering = "gelu.forward/cpu.rowwise" }, "before the slash"},
	{"definition with a space", "accepted", func(r *Report) { r.Definition.Name = "soft max" }, "definition.name is"},
	{"bad program hash", "accepted", func(r *Report) { r.Host.ProgramSHA256 = "abc" }, "program_sha256"},
	{"text is not the definition's", "accepted", func(r *Report) { r.Definition.Text += " " }, "definition.sha256"},
	{"other definition fingerprint", "accepted", func(r *Report) { r.Fingerprints[0].SHA256 = hash("other") }, "want definition.sha256"},
	{"fingerprint in upper case", "accepted", func(r *Report) { r.Fingerprints[3].SHA256 = strings.ToUpper(r.Fingerprints[3].SHA256) }, "fingerprints[3].sha256"},
	{"fingerprint missing", "accepted", func(r *Report) { r.Fingerprints = r.Fingerprints[:3] }, "none of the artifact"},
	{"fingerprint of another instead", "accepted", func(r *Report) { r.Fingerprints[0] = r.Fingerprints[3] }, "none of the definition"},
	{"fingerprint unknown", "accepted", func(r *Report) {
		r.Fingerprints = append(r.Fingerprints, Fingerprint{Of: "weather", SHA256: hash("w")})
	}, "fingerprints[4].of"},
	{"fingerprint empty without why", "accepted", func(r *Report) { r.Fingerprints[1].Note = "" }, "neither sha256 nor a note"},
	{"digest of other cases", "accepted", func(r *Report) { r.DigestSHA256 = hash("other") }, "digest_sha256"},
	{"cases in another order", "accepted", func(r *Report) { slices.Reverse(r.CaseList) }, "digest_sha256"},
	{"output hash changed", "accepted", func(r *Report) { r.CaseList[0].OutputsSHA256 = hash("other") }, "digest_sha256"},
	{"cases miscounted", "accepted", func(r *Report) { r.Cases = 3 }, "cases is 3"},
	{"elements miscounted", "accepted", func(r *Report) { r.Elements = 33 }, "elements is 33"},
	{"mismatches miscounted", "rejected", func(r *Report) { r.Mismatches = 1 }, "mismatches is 1"},
	{"two cases of one name", "accepted", func(r *Report) { r.CaseList[1].Name = r.CaseList[0].Name; r.DigestSHA256 = DigestOf(r.CaseList) }, "earlier case"},
	{"case with a line feed", "accepted", func(r *Report) { r.CaseList[1].Name = "a\nb"; r.DigestSHA256 = DigestOf(r.CaseList) }, "white space"},
	{"case without shapes", "accepted", func(r *Report) { r.CaseList[0].Shapes = nil }, "shapes is empty"},
	{"case with a short hash", "accepted", func(r *Report) { r.CaseList[0].InputsSHA256 = "00"; r.DigestSHA256 = DigestOf(r.CaseList) }, "inputs_sha256"},
	{"case with a short output hash", "accepted", func(r *Report) { r.CaseList[0].OutputsSHA256 = "00"; r.DigestSHA256 = DigestOf(r.CaseList) }, "outputs_sha256 is"},
	{"case with more mismatches than elements", "rejected", func(r *Report) { r.CaseList[1].Mismatches, r.Mismatches = 17, 17 }, "17 mismatches in 16"},
	{"case of a tier that is not listed", "accepted", func(r *Report) { r.CaseList[0].Tiers[0] = Grid }, "not in tiers"},
	{"more judged than produced", "inadmissible", func(r *Report) { r.Coverage.Judged = 33 }, "coverage: 33 judged of 0"},
	{"more compiled than judged", "inadmissible", func(r *Report) { r.Coverage.Compiled = 1 }, "coverage: 1 of 0 judged"},
	{"hardly anything interpreted", "accepted", func(r *Report) { r.Coverage.Compiled = 31 }, "31 of 32 judged by compiled answers alone"},
	{"negative count", "accepted", func(r *Report) { r.Coverage.Tiles = -1 }, "coverage.tiles is -1"},
	{"figures half measured", "accepted", func(r *Report) { r.MedianAdmissible = nil }, "measured together"},
	{"figures of nothing", "skipped", func(r *Report) {
		r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(1.0), new(1.0), new(int64(1)), new(0.0)
	}, "without elements"},
	{"mean below one", "bounded", func(r *Report) { r.MeanAdmissible = new(0.5) }, "at least 1"},
	{"share above one", "bounded", func(r *Report) { r.ShareOverOne = new(1.5) }, "share_over_one is 1.5"},
	{"bits with two admissible", "accepted", func(r *Report) { r.WorstAdmissible = new(int64(2)) }, "contract is bits"},
	{"more truth than elements", "bounded", func(r *Report) { r.TruthElements = 33 }, "truth_elements is 33"},
	{"more undecided than truth", "bounded", func(r *Report) { r.Undecided = 31 }, "undecided is 31"},
	{"more undefined than truth", "bounded", func(r *Report) { r.ErrorUndefined = 31 }, "error_undefined is 31"},
	{"misrounded without truth", "accepted", func(r *Report) { r.Misrounded = new(0.0) }, "misrounded is 0"},
	{"truth without misrounded", "bounded", func(r *Report) { r.Misrounded = nil }, "misrounded is null"},
	{"misrounded above one", "bounded", func(r *Report) { r.Misrounded = new(1.5) }, "misrounded is 1.5"},
	{"error without truth", "accepted", func(r *Report) { r.WorstErrorULP = new(0.5) }, "worst_error_ulp is 0.5"},
	{"tier unknown", "accepted", func(r *Report) { r.Tiers[2].Name = "vibes" }, "tiers[2].name"},
	{"tier twice", "accepted", func(r *Report) { r.Tiers[2].Name = Bits }, "earlier tier"},
	{"tier fails more than it checks", "rejected", func(r *Report) { r.Tiers[1].Failed = 33 }, "33 failed of 32"},
	{"accepted with mismatches", "accepted", func(r *Report) { r.Mismatches, r.CaseList[0].Mismatches = 1, 1 }, "no tier failed"},
	{"accepted with a failed tier", "accepted", func(r *Report) { r.Tiers[1].Failed = 1 }, "rejected if and only if one did"},
	{"accepted with a reason", "accepted", func(r *Report) { r.Reason = "because" }, "empty if and only if accepted"},
	{"accepted with a failure", "accepted", func(r *Report) { r.Failure = samples()["rejected"].Failure }, "there is a failure"},
	{"accepted without coverage", "accepted", func(r *Report) { r.Coverage.Judged = 31 }, "31 judged of 32"},
	{"accepted without cases", "skipped", func(r *Report) { r.Verdict, r.Reason = Accepted, "" }, "no output was compared"},
	{"accepted without evidence", "accepted", func(r *Report) { r.Evidence = nil }, "evidence is empty"},
	{"inadmissible without a reason", "inadmissible", func(r *Report) { r.Reason = "" }, "empty if and only if accepted"},
	{"inadmissible with a failed tier", "rejected", func(r *Report) { r.Verdict, r.Failure = Inadmissible, nil }, "rejected if and only if one did"},
	{"skipped with cases", "accepted", func(r *Report) { r.Verdict, r.Reason = Skipped, "late" }, "skipped, but there are 2 cases"},
	{"rejected without a failed tier", "rejected", func(r *Report) { r.Tiers[1].Failed = 0 }, "rejected if and only if one did"},
	{"rejected without a failure", "rejected", func(r *Report) { r.Failure = nil }, "there is a failure: false"},
	{"failure of a tier that held", "rejected", func(r *Report) { r.Failure.Tier = Structure }, "which did not fail"},
	{"failure of no known case", "rejected", func(r *Report) { r.Failure.OriginalCase = "other" }, "failure.original_case"},
	{"failure without a case", "rejected", func(r *Report) { r.Failure.Case = "" }, "failure.case is empty"},
	{"failure without a place", "rejected", func(r *Report) { r.Failure.Place = "" }, "failure.place is empty"},
	{"failure without a message", "rejected", func(r *Report) { r.Failure.Message = "" }, "failure.message is empty"},
	{"replay of two lines", "rejected", func(r *Report) { r.Failure.Replay = "a\nb" }, "failure.replay has more than one line"},
	{"predicate of two lines", "rejected", func(r *Report) { r.Failure.When = "a\nb" }, "failure.when has more than one line"},
	{"elements of two lines", "rejected", func(r *Report) { r.Failure.Where = "a\nb" }, "failure.where has more than one line"},
	{"failure with two lines", "rejected", func(r *Report) { r.Failure.Message = "a\nb" }, "more than one line"},
	{"worst case unknown", "bounded", func(r *Report) { r.WorstCases[0].Figure = "beauty" }, "worst_cases[0].figure"},
	{"worst case elsewhere", "bounded", func(r *Report) { r.WorstCases[0].Case = "other" }, "worst_cases[0].case"},
	{"worst case nowhere", "bounded", func(r *Report) { r.WorstCases[0].Place = "" }, "worst_cases[0].place"},
	{"share without error", "accepted", func(r *Report) { r.WorstErrorShare = new(0.5) }, "worst_error_share is 0.5, but"},
	{"farther than promised", "bounded", func(r *Report) {
		r.Contract, r.WorstErrorShare = ContractBits, new(1.5)
	}, "worst_error_share is 1.5, want at most 1"},
	{"worst error is not the worst", "bounded", func(r *Report) { r.WorstErrorULP = new(0.5) }, "worst_error_ulp is 0.5"},
	{"worst admissible is not the worst", "bounded", func(r *Report) { r.WorstAdmissible = new(int64(3)) }, "worst_admissible is 3"},
	{"algorithms of a lowering with bits", "bounded", func(r *Report) {
		r.Contract, r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = ContractBits, new(1.0), new(1.0), new(int64(1)), new(0.0)
	}, "algorithms: contract is bits"},
	{"algorithm twice", "bounded", func(r *Report) { r.Algorithms[1].Name, r.Algorithms[1].Parts = r.Algorithms[0].Name, 1 }, "that no other has"},
	{"algorithm without a name", "bounded", func(r *Report) { r.Algorithms[0].Name = "" }, "want a name"},
	{"algorithm of no case", "bounded", func(r *Report) { r.Algorithms[0] = Algorithm{Name: "x", Model: "fma", Parts: 1, Others: []string{}} }, "0 cases"},
	{"algorithm with more bits than outputs", "bounded", func(r *Report) { r.Algorithms[0].SameBits = 17 }, "17 of 16 elements"},
	{"algorithm whose other cases are not listed", "bounded", func(r *Report) { r.Algorithms[1].Others = nil }, "0 cases with others are listed"},
	{"algorithm with other bits of no known case", "bounded", func(r *Report) { r.Algorithms[1].Others[0] = "other" }, "algorithms[1].others"},
	{"algorithms of more cases than there are", "bounded", func(r *Report) { r.Algorithms[0].Cases, r.Algorithms[0].SameCases = 2, 2 }, "computed 3 cases of 2"},
	{"said of algorithms nothing", "bounded", func(r *Report) { delete(r.Obtained, "algorithms") }, "how algorithms was obtained"},
	{"unknown promise", "stable", func(r *Report) { r.Promise = "vague" }, "promise is"},
	{"promise of another contract", "stable", func(r *Report) { r.Promise = "bits" }, "under contract bounded"},
	{"honest although rejected", "undecided", func(r *Report) { r.Honest = Yes }, "honest is yes and verdict undecided"},
	{"accurate beyond the promise", "stable", func(r *Report) { r.Accurate = Yes }, "accurate is yes"},
	{"inaccurate without an error", "stable", func(r *Report) {
		r.WorstErrorShare, r.ErrorUndefined, r.WorstCases[2].Value = new(0.5), 0, 0.5
	}, "accurate is no"},
	{"allclose half measured", "stable", func(r *Report) { r.MedianAllClose = nil }, "measured together, but one"},
	{"more decided than known", "stable", func(r *Report) { r.Decided[0].Decided = 17 }, "decided[0]: 17 of 16"},
	{"share of decided above one", "stable", func(r *Report) { r.Decided[0].Share = 1.5 }, "share is 1.5"},
	{"accepted with too little decided", "stable", func(r *Report) { r.Decided[0].Share = 0.25 }, "accepted, but decided[0].share"},
	{"undecided with enough decided", "undecided", func(r *Report) { r.Decided[0].Share = 0.75 }, "enough outputs are decided"},
	{"undecided without a promise", "undecided", func(r *Report) { r.Terms = Terms{} }, "promise is empty"},
	{"nothing undone", "stable", func(r *Report) { r.Unchecked.Cases = 0 }, "unchecked: 0 cases"},
	{"more of smoke undone than undone", "hurried", func(r *Report) { r.Unchecked.Cases = 27 }, "no more of level smoke"},
	{"no time, and smoke undone", "hurried", func(r *Report) { r.Unchecked.BudgetSeconds = 0 }, "unchecked.budget_seconds is 0"},
	{"a negative budget", "stable", func(r *Report) { r.Unchecked.BudgetSeconds = -1 }, "unchecked.budget_seconds is -1"},
	{"accepted without all of smoke", "stable", func(r *Report) { r.Unchecked.Smoke = 1 }, "1 cases of level smoke were not run"},
	{"unfinished with all of smoke", "hurried", func(r *Report) { r.Unchecked.Smoke = 0 }, "verdict is unfinished, but unchecked has no cases of level smoke"},
	{"height above its sum", "stable", func(r *Report) { r.Heights[0].Height = 8 }, "heights[0]"},
	{"departure without a clause", "stable", func(r *Report) { r.Clauses[0].Clause = "" }, "clauses[0]"},
	{"allowance without a text", "stable", func(r *Report) { r.Allowances[0].Text = "" }, "allowances[0].text"},
	{"said of heights nothing", "stable", func(r *Report) { delete(r.Obtained, "heights") }, "how heights was obtained"},
	{"no non-claims", "accepted", func(r *Report) { r.NonClaims = nil }, "non_claims is empty"},
	{"an empty non-claim", "accepted", func(r *Report) { r.NonClaims[0] = "" }, "non_claims has an empty entry"},
	{"signed inside", "accepted", func(r *Report) { r.Signatures = []string{"me"} }, "signatures has 1"},
	{"not said how obtained", "accepted", func(r *Report) { delete(r.Obtained, "seconds") }, "how seconds was obtained"},
	{"said of a failure nothing", "rejected", func(r *Report) { delete(r.Obtained, "failure") }, "how failure was obtained"},
	{"model is no candidate", "accepted", func(r *Report) { r.Candidates = []Candidate{{Model: "mma(8,24)", Elements: 32}} }, "none of the candidates"},
	{"candidate twice", "accepted", func(r *Report) {
		r.Candidates = []Candidate{{Model: "fma", Elements: 32}, {Model: "fma", Elements: 32}}
	}, "earlier candidate"},
	{"candidate with other counts", "accepted", func(r *Report) { r.Candidates = []Candidate{{Model: "fma", Elements: 31}} }, "want those of the report"},
	{"said of what is not there", "accepted", func(r *Report) { r.Obtained["colour"] = "seen" }, `names "colour"`},
	{"not UTF-8", "accepted", func(r *Report) { r.NonClaims[0] = "\xff" }, "not UTF-8"},
}
