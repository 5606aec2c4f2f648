package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/internal/readfile"
	"tokitai/soak"
	"tokitai/train"
)

// evidenceKinds lists what can be signed and checked.
var evidenceKinds = []attest.Kind{
	{Schema: evidence.SchemaID, Subjects: reportSubjects, Describe: describeReport},
	{Schema: runSchema, Subjects: runSubjects, Describe: describeRun},
	{Schema: soak.Schema, Subjects: soakSubjects, Describe: describeSoak},
	{Schema: receiptSchema, Subjects: receiptSubjects, Describe: describeReceipt},
	{Schema: shardFileSchema, Subjects: shardSubjects, Describe: describeShard},
	{Schema: provenanceType, Describe: func([]byte) string { return "provenance of a release" }},
}

// provenanceType is the type of SLSA's statements about builds, which scripts/release writes.
const provenanceType = "https://slsa.dev/provenance/v1"

// reportSubjects returns what a report is about: the definition, the kernel, and its own file.
func reportSubjects(name string, data []byte) ([]attest.Subject, error) {
	r, err := evidence.Decode(name, data)
	if err != nil {
		return nil, err
	}
	file, err := r.JSON()
	if err != nil {
		return nil, err
	}
	subjects := []attest.Subject{attest.SHA256("definition:"+r.Definition.Name, r.Definition.SHA256)}
	hasKernel := false
	for _, f := range r.Fingerprints {
		if f.SHA256 != "" && (f.Of == "source" || f.Of == "artifact") {
			subjects = append(subjects, attest.SHA256("kernel:"+r.Lowering+":"+f.Of, f.SHA256))
			hasKernel = true
		}
	}
	if p := r.Host.ProgramSHA256; !hasKernel && p != "" { // which the kernel is part of
		subjects = append(subjects, attest.SHA256("kernel:"+r.Lowering+":program", p))
	}
	return append(subjects, attest.SHA256("report:"+r.FileName()+".json", evidence.FingerprintOf(file))), nil
}

func describeReport(data []byte) string {
	r, err := evidence.Decode("", data)
	if err != nil { // it was decoded before
		return err.Error()
	}
	return fmt.Sprintf("%s %s on %s, level %s: %s", r.Lowering, r.DType, r.Device, r.Level, r.Verdict.Word())
}

// runSchema is the schema of a runRecord.
const runSchema = "urn:tokitai:run:1"

// runRecord says what a training run is and how far it has come.
type runRecord struct {
	Schema  string       `json:"schema"`
	Origin  train.Origin `json:"origin"`
	Genesis string       `json:"genesis"` // SHA-256 of the origin
	Steps   int          `json:"steps"`   // that were taken
	Chain   string       `json:"chain"`   // the entry of the last one
	Weights string       `json:"weights"` // their digest after it
}

// readRunRecord returns the record of the run in a folder.
func readRunRecord(folder string) ([]byte, error) {
	d, err := train.ReadDescription(folder)
	if err != nil {
		return nil, err
	}
	lines, err := train.ReadMetrics(folder)
	if err != nil {
		return nil, err
	}
	r := runRecord{Schema: runSchema, Origin: d.Origin, Genesis: d.Genesis}
	for _, l := range lines {
		if l.Chain != "" {
			r.Steps, r.Chain, r.Weights = l.Step, l.Chain, l.Weights
		}
	}
	if r.Chain == "" {
		return nil, wrongUse("%s: the run has taken no step", folder)
	}
	return json.Marshal(r)
}

func runSubjects(name string, data []byte) ([]attest.Subject, error) {
	r, err := decodeRun(data)
	switch {
	case err != nil:
		return nil, &attest.FormatError{Path: name, Reason: err.Error()}
	case r.Origin.Genesis().String() != r.Genesis:
		return nil, &attest.RejectedError{Reasons: []string{name + ": genesis is not the SHA-256 of the origin"}}
	}
	return []attest.Subject{attest.SHA256("run:genesis", r.Genesis), attest.SHA256(fmt.Sprintf("run:step-%d", r.Steps), r.Chain)}, nil
}

func decodeRun(data []byte) (r runRecord, err error) {
	return r, decodeStrictly(data, &r)
}

func describeRun(data []byte) string {
	r, err := decodeRun(data)
	if err != nil { // it was decoded before
		return err.Error()
	}
	return fmt.Sprintf("training run, %s: chain %s", counted(r.Steps, "step"), r.Chain)
}

// namedReport is a report with the name of its file, for messages.
type namedReport struct {
	name string
	data []byte
}

// signable returns what a path holds that can be signed: the reports of a folder or archive, the run
// of a folder, the file of a shard, the receipts of an answer, or one JSON file.
func signable(path string) ([]namedReport, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	isRun := false
	if info.IsDir() {
		_, err := os.Stat(filepath.Join(path, "run.json"))
		isRun = err == nil
	}
	switch {
	case isRun:
		data, err := readRunRecord(path)
		return []namedReport{{path, data}}, err
	case info.IsDir() || evidence.IsArchive(path):
		_, reports, err := evidence.ReadRun(path)
		if err != nil {
			return nil, err
		}
		var list []namedReport
		for _, r := range reports {
			data, err := r.JSON()
			if err != nil {
				return nil, err
			}
			list = append(list, namedReport{path + ": " + r.FileName() + ".json", data})
		}
		return list, nil
	}
	if strings.HasSuffix(path, shardSuffix) {
		return signableLines(path)
	}
	data, err := readfile.Regular(path, evidence.MaxReportBytes)
	if err != nil {
		return nil, err
	}
	if receipts, err := receiptRecords(path, data); json.Valid(data) && (err != nil || len(receipts) > 0) {
		return receipts, err
	}
	return []namedReport{{path, data}}, nil
}
