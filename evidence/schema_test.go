package evidence

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaOf compiles the schema of a kind of document: "" for reports, or the
// fragment of another.
func schemaOf(t *testing.T, fragment string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(SchemaID, document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID + fragment)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

func mustJSON(t *testing.T, document interface{ JSON() ([]byte, error) }) []byte {
	t.Helper()
	data, err := document.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSamplesFollowTheSchema(t *testing.T) {
	s := schemaOf(t, "")
	for name, r := range samples() {
		if err := validate(t, s, mustJSON(t, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sampleRun() *Run {
	run := &Run{Tool: "tokitai", Version: "v0.2.0", Host: base().Host}
	for _, r := range sampleList() {
		run.Seed, run.Results = r.Generator.Seed, append(run.Results, r.Summary)
		if r.Failure != nil {
			run.Failures = append(run.Failures, RunFailure{r.Lowering, r.DType, *r.Failure})
		}
	}
	return run
}

func sampleIndex() *Index {
	var names, hashes []string
	for i, name := range sampleNames() {
		names, hashes = append(names, sampleList()[i].FileName()), append(hashes, hash(name))
	}
	return indexOf(sampleList(), names, hashes)
}

func TestRunAndIndexFollowTheSchema(t *testing.T) {
	if err := validate(t, schemaOf(t, "#/$defs/run"), mustJSON(t, sampleRun())); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := validate(t, schemaOf(t, "#/$defs/run"), mustJSON(t, &Run{Tool: "tokitai", Version: "v0.2.0"})); err != nil {
		t.Errorf("run without results: %v", err)
	}
	if err := validate(t, schemaOf(t, strings.TrimPrefix(IndexSchemaID, SchemaID)), mustJSON(t, sampleIndex())); err != nil {
		t.Errorf("index: %v", err)
	}
}

// arithmetic are the damages that take sums, hashes and look-ups to see, which a JSON
// Schema cannot do. Check finds them; the schema need not.
var arithmetic = []string{
	"lowering of another definition", "text is not the definition's", "other definition fingerprint",
	"digest of other cases", "cases in another order", "output hash changed", "cases miscounted", "elements miscounted", "mismatches miscounted",
	"two cases of one name", "case with more mismatches than elements", "case of a tier that is not listed", "more judged than produced", "more compiled than judged", "hardly anything interpreted",
	"figures half measured", "figures of nothing", "more truth than elements", "more undecided than truth", "more undefined than truth",
	"tier twice", "tier fails more than it checks", "accepted without coverage",
	"failure of a tier that held", "failure of no known case", "worst case elsewhere", "worst error is not the worst", "worst admissible is not the worst",
	"said of a failure nothing", "model is no candidate", "candidate twice", "candidate with other counts",
	"said of algorithms nothing", "said of heights nothing",
	"promise of another contract", "honest although rejected", "accurate beyond the promise", "inaccurate without an error", "allclose half measured",
	"more decided than known", "accepted with too little decided", "undecided with enough decided", "undecided without a promise", "more of smoke undone than undone", "unfinished with all of smoke", "height above its sum",
	"algorithms of a lowering with bits", "algorithm twice", "algorithm with more bits than outputs", "algorithm whose other cases are not listed",
	"algorithm with other bits of no known case", "algorithms of more cases than there are",
	"no time",   // year 1 is a time
	"not UTF-8", // encoding makes it so
}

func TestSchemaFindsDamage(t *testing.T) {
	s := schemaOf(t, "")
	for _, d := range damages {
		r := samples()[d.sample]
		d.do(r)
		err := validate(t, s, mustJSON(t, r))
		if isSilent := slices.Contains(arithmetic, d.name); (err == nil) != isSilent {
			t.Errorf("%s: got %v, want an error: %v", d.name, err, !isSilent)
		}
	}
	for _, name := range arithmetic {
		if !slices.ContainsFunc(damages, func(d damage) bool { return d.name == name }) {
			t.Errorf("there is no damage %q", name)
		}
	}
}

// TestSchemaFindsDamagedJSON damages what the Go types cannot express: fields that are
// missing, of another type, or too many, everywhere in every document.
func TestSchemaFindsDamagedJSON(t *testing.T) {
	for name, document := range map[string]struct {
		fragment string
		data     []byte
	}{
		"report": {"", mustJSON(t, everything())},
		"run": {"#/$defs/run", mustJSON(t, &Run{Tool: "t", Version: "v", Host: base().Host, Seed: new(uint64), Results: []Summary{everything().Summary},
			Failures: []RunFailure{{Lowering: "l", DType: "f32", Failure: *everything().Failure}}})},
		"index": {"#/$defs/index", mustJSON(t, sampleIndex())},
	} {
		s := schemaOf(t, document.fragment)
		if err := validate(t, s, document.data); err != nil {
			t.Fatalf("%s: the undamaged document does not follow the schema: %v", name, err)
		}
		root, err := jsonschema.UnmarshalJSON(bytes.NewReader(document.data))
		if err != nil {
			t.Fatal(err)
		}
		fails := func(what string) {
			t.Helper()
			if s.Validate(root) == nil {
				t.Errorf("%s with %s follows the schema", name, what)
			}
		}
		optional := []string{"note", "program_sha256", "candidates", "algorithms", "when", "where", "terms", "clause", "unchecked", "budget_seconds", "left_out", "histogram", "set_undefined", "own", "maps", "row_axis", "col_axis", "is_part"}
		isTerm := func(path, key string) bool {
			return (key == "undecided" || key == "unfinished") && strings.HasSuffix(path, ".counts") ||
				slices.Contains([]string{"report", "run.results[]", "report.obtained"}, path) && (key == "params" || slices.Contains(fieldsOf(reflect.TypeFor[Terms]()), key))
		}
		objects(root, name, func(path string, object map[string]any) {
			if !strings.HasSuffix(path, ".obtained") { // where every name is a field's
				object["extra"] = 1
				fails("an extra field in " + path)
				delete(object, "extra")
			}
			for key, value := range object {
				delete(object, key)
				if !slices.Contains(optional, key) && !isTerm(path, key) && path+"."+key != "report.obtained.failure" {
					fails("no " + path + "." + key)
				}
				object[key] = map[string]any{"of": "another type"}
				fails("another type of " + path + "." + key)
				object[key] = value
			}
		})
		if err := s.Validate(root); err != nil {
			t.Errorf("%s: not every damage was mended: %v", name, err)
		}
	}
}

// everything returns a report in which no list is empty and no field absent.
func everything() *Report {
	r := samples()["rejected"]
	b := samples()["bounded"]
	r.Contract = ContractBounded
	r.TruthElements, r.WorstErrorULP, r.Misrounded, r.WorstCases = b.TruthElements, b.WorstErrorULP, b.Misrounded, b.WorstCases
	r.ErrorDType = b.ErrorDType
	r.CaseList[0].Params = []string{"eps=1e-05"}
	r.WorstAdmissible, r.MeanAdmissible = b.WorstAdmissible, b.MeanAdmissible
	r.Failure.Note = "shrunk in 3 steps"
	r.Terms, r.Unchecked = samples()["stable"].Terms, samples()["stable"].Unchecked
	r.Honest = No
	r.Params = []string{"eps=1e-3"}
	r.Candidates = []Candidate{{Model: r.Model, Elements: r.Elements, Mismatches: r.Mismatches}}
	r.Algorithms = b.Algorithms
	r.Failure.Clause = "softmax.backward.C2"
	tellAll(r)
	return r
}

// objects calls visit for every object in value.
func objects(value any, path string, visit func(path string, object map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(path, v)
		for key, inner := range v {
			objects(inner, path+"."+key, visit)
		}
	case []any:
		for _, inner := range v {
			objects(inner, path+"[]", visit)
		}
	}
}

// TestSchemaAndTypesAgree: every JSON field of the Go types is a property of the
// schema with a description, and every property is a field. A field's name in Go is
// its name in JSON without underscores.
func TestSchemaAndTypesAgree(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema, &root); err != nil {
		t.Fatal(err)
	}
	defs := root["$defs"].(map[string]any)
	compared := map[string]bool{}

	var compare func(name string, goType reflect.Type, schema map[string]any)
	compare = func(name string, goType reflect.Type, schema map[string]any) {
		compared[name] = true
		properties := schema["properties"].(map[string]any)
		required := schema["required"].([]any)
		if schema["description"] == nil {
			t.Errorf("%s has no description", name)
		}
		if schema["additionalProperties"] != false && schema["unevaluatedProperties"] != false && name != "summary_fields" && name != "terms" {
			t.Errorf("%s allows other properties", name)
		}
		fields := map[string]bool{}
		for f := range goType.Fields() {
			if f.Anonymous {
				at := map[reflect.Type]string{reflect.TypeFor[Summary](): "summary_fields", reflect.TypeFor[Terms](): "terms"}[f.Type]
				if at == "" || schema["$ref"] != "#/$defs/"+at {
					t.Fatalf("%s: %s is embedded, and the schema refers to %v", name, f.Name, schema["$ref"])
				}
				compare(at, f.Type, defs[at].(map[string]any))
				continue
			}
			key := jsonName(f)
			if key == "-" { // has another form
				continue
			}
			fields[key] = true
			if !strings.EqualFold(strings.ReplaceAll(key, "_", ""), f.Name) {
				t.Errorf("%s: %s is %s in JSON", name, f.Name, key)
			}
			property, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s: the schema has no %s", name, key)
				continue
			}
			if text, _ := property["description"].(string); len(text) < 10 {
				t.Errorf("%s: %s has no description", name, key)
			}
			if isOptional := strings.Contains(f.Tag.Get("json"), "omitempty"); slices.Contains(required, any(key)) == isOptional {
				t.Errorf("%s: %s is required %v, but may be omitted %v", name, key, !isOptional, isOptional)
			}
			inner, of := f.Type, property
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				if inner.Kind() == reflect.Slice {
					of, _ = of["items"].(map[string]any)
				}
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != timeType {
				ref, _ := of["$ref"].(string)
				at := strings.TrimPrefix(ref, "#/$defs/")
				definition, ok := defs[at].(map[string]any)
				switch {
				case !ok:
					t.Errorf("%s: %s is an object, but refers to %q", name, key, ref)
				case definition["$ref"] == "#/$defs/summary_fields":
					compared[at] = true
					compare("summary_fields", inner, defs["summary_fields"].(map[string]any))
				default:
					compare(at, inner, definition)
				}
			}
		}
		for key := range properties {
			if !fields[key] {
				t.Errorf("%s: the schema has %s, %v has not", name, key, goType)
			}
		}
	}
	compare("report", reflect.TypeFor[Report](), root)
	compare("run", reflect.TypeFor[Run](), defs["run"].(map[string]any))
	compare("index", reflect.TypeFor[Index](), defs["index"].(map[string]any))
	for name := range defs {
		if !compared[name] {
			t.Errorf("no Go type is compared with %s", name)
		}
	}
}

// TestClosedListsAreTheSchemas compares enumerations.
func TestClosedListsAreTheSchemas(t *testing.T) {
	var root struct {
		Properties struct {
			Obtained struct {
				PropertyNames struct{ Enum []string } `json:"propertyNames"`
			}
		}
		Defs map[string]struct {
			Properties map[string]struct{ Enum []any }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema, &root); err != nil {
		t.Fatal(err)
	}
	for _, list := range []struct {
		at, property string
		want         any
	}{
		{"summary_fields", "dtype", DTypes},
		{"summary_fields", "level", Levels},
		{"summary_fields", "contract", Contracts},
		{"summary_fields", "verdict", Verdicts},
		{"index_entry", "verdict", Verdicts},
		{"tier", "name", TierNames},
		{"failure", "tier", TierNames},
		{"fingerprint", "of", fingerprintKinds},
		{"worst_case", "figure", []string{FigureErrorULP, FigureErrorShare, FigureAdmissible}},
	} {
		got, err := json.Marshal(root.Defs[list.at].Properties[list.property].Enum)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(list.want)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.%s: got %s, want %s", list.at, list.property, got, want)
		}
	}
	if got := root.Properties.Obtained.PropertyNames.Enum; !slices.Equal(got, Fields()) {
		t.Errorf("obtained: got %v, want %v", got, Fields())
	}
}
