package amdemu

import (
	"errors"
	"testing"

	"tokitai/amdgpu/wave"
)

func TestTranslations(t *testing.T) {
	kept := translations{limit: 10}
	made := 0
	get := func(architecture string, entry uint64, code string) *wave.Code {
		c, err := kept.get(architecture, entry, []byte(code), func() (*wave.Code, error) {
			made++
			return new(wave.Code), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get("a", 1, "1234")
	if get("a", 1, "1234") != first || made != 1 {
		t.Error("a translation is not kept")
	}
	if get("b", 1, "1234") == first || get("a", 2, "1") == first || made != 3 {
		t.Error("a translation is used for another kernel")
	}
	if get("a", 1, "1234") != first || get("a", 1, "5678") == first || get("a", 1, "1234") != first || made != 4 {
		t.Error("the translation that was used last is not kept")
	}
	if get("b", 1, "1234"); made != 5 || kept.bytes > kept.limit {
		t.Errorf("%d translations for 4 kernels, %d bytes of %d", made, kept.bytes, kept.limit)
	}
	want := errors.New("unknown instruction")
	if _, err := kept.get("a", 9, nil, func() (*wave.Code, error) { return nil, want }); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
	if get("a", 3, "a code beyond the limit") == nil || kept.bytes != 0 || len(kept.list) != 0 {
		t.Errorf("%d bytes are kept of %d kernels", kept.bytes, len(kept.list))
	}
}
