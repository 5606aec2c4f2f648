package amdemu

import (
	"slices"
	"sync"

	"tokitai/amdgpu/wave"
)

// translations keeps the kernels that were translated last: a program may be loaded again and
// again, and a translation takes a hundred times the memory of the code.
type translations struct {
	limit int // bytes of code

	mu    sync.Mutex
	bytes int
	list  []translation // the last used is the last
}

// translation is a translated kernel with what it depends on.
type translation struct {
	architecture string
	entry        uint64
	code         string
	made         *wave.Code
}

var recent = translations{limit: 1 << 20}

// get returns the translation of a kernel, made by translate if it is not kept.
func (t *translations) get(architecture string, entry uint64, code []byte, translate func() (*wave.Code, error)) (*wave.Code, error) {
	is := func(k translation) bool {
		return k.entry == entry && k.architecture == architecture && k.code == string(code)
	}
	t.mu.Lock()
	if i := slices.IndexFunc(t.list, is); i >= 0 {
		found := t.list[i]
		t.list = append(slices.Delete(t.list, i, i+1), found)
		t.mu.Unlock()
		return found.made, nil
	}
	t.mu.Unlock()
	made, err := translate()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.list, is) {
		t.list = append(t.list, translation{architecture, entry, string(code), made})
		t.bytes += len(code)
	}
	for t.bytes > t.limit {
		t.bytes -= len(t.list[0].code)
		t.list = slices.Delete(t.list, 0, 1)
	}
	return made, nil
}
