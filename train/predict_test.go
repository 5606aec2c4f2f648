package train

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
)

// TestPredict: a row has the same outputs alone, in pieces and among others, and the differences to the targets are the loss.
func TestPredict(t *testing.T) {
	t.Parallel()
	s, table := tinyFeatures()
	folder := t.TempDir()
	runFeatures(t, folder, s, table, s.Steps)
	start, err := ReadStart(cpu.Queue().Device(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var lists [][]Prediction
	for _, rows := range []int{1, 7, 64} {
		p, err := NewPredictor(cpu.Queue(), start, rows)
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.Predict(table.Features)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Predict(table.Features[:5]); err == nil || !strings.Contains(err.Error(), "want rows of 96") {
			t.Errorf("a part of a row: error %v", err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, list)
	}
	if !reflect.DeepEqual(lists[0], lists[1]) || !reflect.DeepEqual(lists[0], lists[2]) {
		t.Error("rows have other outputs among other rows")
	}
	tr, err := Load(cpu.Queue(), folder, table)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	evaluated := evaluatorOf(t, tr)
	if err := tr.task.put(evaluated.in, []int{3, 9}); err != nil {
		t.Fatal(err)
	}
	if err := evaluated.recording.Run(tr.queue); err != nil {
		t.Fatal(err)
	}
	outputs, err := evaluated.in.Tensor("outputs").Float32s()
	if want := slices.Concat(lists[0][3].Outputs, lists[0][9].Outputs); err != nil || !slices.Equal(outputs, want) {
		t.Errorf("evaluation has the outputs %v, want %v; error %v", outputs, want, err)
	}
	if n := len(lists[0][0].Weights); n != s.Features.Experts {
		t.Errorf("%d weights of experts, want %d", n, s.Features.Experts)
	}
	if _, err := NewPredictor(cpu.Queue(), &Start{}, 1); err == nil || !strings.Contains(err.Error(), "it is a decoder") {
		t.Errorf("a decoder: error %v", err)
	}
}
