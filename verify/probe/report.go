package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/origin"
)

// instructionText is the definition in reports: what the instruction computes, up to the
// rounding of sums, which is the model.
func instructionText(i tensorcore.Instruction) string {
	return fmt.Sprintf("%v\n  d[m,n] = c[m,n] + sum over k of a[m,k] * b[k,n], m < %d, n < %d, k < %d\n  a, b %s; c, d f32\n", i, i.M, i.N, i.K, i.DType)
}

// report returns the evidence for what was found.
func (p *probe) report(ctx context.Context) *evidence.Report {
	i := p.instruction
	text := instructionText(i)
	r := &evidence.Report{
		Schema: evidence.SchemaID, Tool: p.o.Tool, Version: p.o.Version, Time: time.Now().UTC(), Host: origin.Host(p.o.Program),
		Summary: evidence.Summary{
			Op: operation, Lowering: fmt.Sprintf("%v/%s", i, p.device.Kind()), DType: i.DType.String(), Device: p.o.Device, Level: p.o.Level.String(),
			Contract: evidence.ContractBits, Model: "unknown",
		},
		Formats:   []string{fmt.Sprintf("a %s, b %s, c f32, d f32", i.DType, i.DType)},
		Machine:   origin.Machine(p.device.Describe()),
		Toolchain: origin.Toolchain(),
		Fingerprints: []evidence.Fingerprint{
			{Of: "definition", SHA256: evidence.FingerprintOf([]byte(text)), Note: "definition.text"},
			{Of: "source", Note: "nothing was compiled"},
			{Of: "compiler", Note: "the device has no compiler at run time"},
			{Of: "artifact", Note: "nothing was compiled"},
		},
		Definition: evidence.Definition{Name: i.String(), SHA256: evidence.FingerprintOf([]byte(text)), Text: text},
		Generator:  evidence.Generator{Name: "tokitai/internal/tensorcore, MurmurHash3 finalizer per element", Seed: new(p.o.Seed)},
	}
	if p.listing != "" {
		r.Fingerprints[1] = evidence.Fingerprint{Of: "source", SHA256: evidence.FingerprintOf([]byte(p.listing)), Note: "the kernel's source, without headers"}
		origin.SetCompiler(r, p.device, []string{p.artifact})
	}
	model := p.model()
	if model != nil {
		r.Model = model.name
		p.list(r, model)
	}
	r.DigestSHA256 = evidence.DigestOf(r.CaseList)
	p.decide(ctx, r, model)
	for _, name := range evidence.TierNames {
		tier := evidence.Tier{Name: name, Note: "does not apply: an instruction is held to a model, output by output"}
		if name == evidence.Bits && model != nil {
			tier = evidence.Tier{Name: name, Checks: r.Elements, Failed: r.Mismatches}
		}
		r.Tiers = append(r.Tiers, tier)
	}
	r.Seconds = time.Since(p.began).Seconds()
	origin.Finish(r)
	for field, how := range obtained {
		if r.Obtained[field] != "" || field == "candidates" && len(r.Candidates) > 0 {
			r.Obtained[field] = how
		}
	}
	return r
}

// model returns the candidate that the report is about, or nil if nothing was compared.
func (p *probe) model() *candidate {
	if p.err != nil || p.candidates[0].seen == 0 {
		return nil
	}
	for _, c := range p.candidates {
		if p.isKnown && c.name == p.declared.String() {
			return c
		}
	}
	return p.candidates[0]
}

// holding returns the names of the candidates that hold.
func (p *probe) holding() []string {
	var names []string
	for _, c := range p.candidates {
		if c.wrong == 0 && c.seen > 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// list lists the kinds of data as cases, with the counts of the model, and the candidates.
func (p *probe) list(r *evidence.Report, model *candidate) {
	i := p.instruction
	for n, b := range p.batches {
		count := model.byKind[n]
		r.CaseList = append(r.CaseList, p.hashes(b, evidence.Case{
			Name: fmt.Sprintf("%s/tiles=%d", tensorcore.KindsOf(i.DType)[n].Name, b.Tiles),
			Shapes: []string{
				fmt.Sprintf("a %s[%d,%d]", i.DType, b.Tiles*i.M, i.K), fmt.Sprintf("b %s[%d,%d]", i.DType, b.Tiles*i.N, i.K),
				fmt.Sprintf("c f32[%d,%d]", b.Tiles*i.M, i.N), fmt.Sprintf("d f32[%d,%d]", b.Tiles*i.M, i.N),
			},
			Params: []string{}, Tiers: []evidence.TierName{evidence.Bits}, Elements: count.seen, Mismatches: count.wrong,
		}))
		r.Coverage.Produced += int64(b.Outputs())
		r.Coverage.Judged += count.seen
		r.Coverage.Tiles++
	}
	r.Cases, r.Elements, r.Mismatches = len(r.CaseList), model.seen, model.wrong
	r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(1.0), new(1.0), new(int64(1)), new(0.0)
	for _, c := range p.candidates {
		r.Candidates = append(r.Candidates, evidence.Candidate{Model: c.name, Elements: c.seen, Mismatches: c.wrong})
	}
}

// hashes returns a case with the hashes of a batch.
func (p *probe) hashes(b *tensorcore.Batch, c evidence.Case) evidence.Case {
	c.InputsSHA256, c.OutputsSHA256 = evidence.FingerprintOf(slices.Concat(b.A, b.B, b.C)), evidence.FingerprintOf(canonical(b.D))
	return c
}

// canonical returns binary32 patterns with one NaN.
func canonical(d []byte) []byte {
	out := slices.Clone(d)
	for i := 0; i < len(out); i += 4 {
		binary.LittleEndian.PutUint32(out[i:], num.Canonical(num.F32, binary.LittleEndian.Uint32(out[i:])))
	}
	return out
}

// decide sets the verdict, with its reason and what it shows.
func (p *probe) decide(ctx context.Context, r *evidence.Report, model *candidate) {
	holding := p.holding()
	switch {
	case p.err != nil && ctx.Err() == nil:
		r.Verdict, r.Reason = evidence.Inadmissible, origin.FirstLine(p.err.Error())
	case model != nil && model.wrong > 0:
		r.Verdict, r.Failure = evidence.Rejected, p.failure(model)
		r.Reason = r.Failure.Message
	case ctx.Err() != nil:
		r.Verdict, r.Reason = evidence.Interrupted, "interrupted before all outputs were compared"
	case len(holding) > 1 && !p.isKnown:
		r.Verdict, r.Reason = evidence.Inadmissible, fmt.Sprintf("%s hold alike: the data do not tell them apart", strings.Join(holding, ", "))
	default:
		r.Verdict = evidence.Accepted
		r.Evidence = []string{
			fmt.Sprintf("every one of %d outputs of %d kinds of data, with subnormals, infinities and NaN among factors and accumulators, is what %s gives", r.Elements, r.Cases, r.Model),
			fmt.Sprintf("%d of %d candidates do not hold: each was dropped after %d mismatches or more, or has some", len(p.candidates)-len(holding), len(p.candidates), mostMismatches),
		}
		if !p.isKnown {
			r.Evidence = append(r.Evidence, fmt.Sprintf("the architecture %s is in no table: its lowerings by matrix instructions promise no bits", p.device.Describe().Architecture))
		}
	}
	r.NonClaims = []string{
		"inputs other than those of case_list were not run",
		"nothing is said of other instructions, architectures and compilers: a compiler may replace an instruction by others",
		"a fault that shows rarely at random, as of failing hardware, may not have shown",
	}
}

// failure describes the first mismatch of the model.
func (p *probe) failure(model *candidate) *evidence.Failure {
	m := model.first
	b := p.batches[m.kind]
	x, y := make([]uint32, b.K), make([]uint32, b.K)
	acc := b.Row(m.output, x, y)
	name := fmt.Sprintf("%s/tiles=%d", tensorcore.KindsOf(b.DType)[m.kind].Name, b.Tiles)
	tile, row, col := m.output/(b.M*b.N), m.output/b.N%b.M, m.output%b.N
	f := &evidence.Failure{
		Tier: evidence.Bits, Case: name, OriginalCase: name, Seed: p.o.Seed, Place: fmt.Sprintf("d[%d,%d] of tile %d", row, col, tile),
		Got: trial.PatternWithValue(num.F32, binary.LittleEndian.Uint32(b.D[4*m.output:])), Want: trial.PatternWithValue(num.F32, m.want), Row: []string{},
		Inputs: []string{fmt.Sprintf("c[%d,%d] = %s", row, col, trial.PatternWithValue(num.F32, acc))},
	}
	for k := range x {
		f.Inputs = append(f.Inputs, fmt.Sprintf("a[%d,%d] = %s", row, k, trial.PatternWithValue(b.DType, x[k])), fmt.Sprintf("b[%d,%d] = %s", k, col, trial.PatternWithValue(b.DType, y[k])))
	}
	verb := "is the best candidate, but"
	if p.isKnown {
		verb = "is declared, but"
	}
	f.Message = fmt.Sprintf("%v, %s: %s %s %d of %d outputs differ", b.Instruction, b.DType, model.name, verb, model.wrong, model.seen)
	if holding := p.holding(); len(holding) > 0 {
		f.Message += "; " + strings.Join(holding, ", ") + " holds"
	}
	f.Replay = fmt.Sprintf("tokitai verify mma --device %s --dtype %s --seed %d --level %s", p.o.Device, b.DType, p.o.Seed, p.o.Level)
	return f
}

// obtained has the entries that differ in the report of a probe.
var obtained = map[string]string{
	"op":         "mma: the probe of matrix instructions",
	"lowering":   "the instruction and the kind of device",
	"dtype":      "the format of the factors",
	"contract":   "an instruction is held to every bit of a model",
	"model":      "the model that lowerings declare for the architecture, or else the candidate with the fewest mismatches",
	"cases":      "counted: kinds of data",
	"elements":   "counted: outputs compared with the model",
	"mismatches": "counted: outputs that are not the model's",
	"coverage":   "counted",
	"formats":    "those of the instruction",
	"definition": "printed from the instruction",
	"generator":  "each input's bits depend on the seed, the format, the kind of data and the place alone",
	"case_list":  "hashes are of the factors and accumulators, tile by tile, and of the results",
	"failure":    "the first output that differs, in the order of kinds and tiles",
	"candidates": "counted: each candidate was compared output by output, in rounds over all kinds of data, until it was dropped",
	"reason":     "the first output that differs, or why nothing was decided",
	"verdict":    "accepted if every output is the model's; rejected if one is not",
}
