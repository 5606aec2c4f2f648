package machine

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func TestChooseSets(t *testing.T) {
	refused := errors.New("permission denied")
	both := []Set{AVX512, AVX2}
	for _, c := range []struct {
		limit   string
		have    []Set
		refused error
		want    []Set
		err     string
		note    string
	}{
		{"", both, nil, []Set{AVX512, AVX2, Plain}, "", ""},
		{"avx512", both, nil, []Set{AVX512, AVX2, Plain}, "", ""},
		{"avx2", both, nil, []Set{AVX2, Plain}, "", ""},
		{"plain", both, nil, []Set{Plain}, "", "TOKITAI_CPU=plain"},
		{"plain", both, refused, []Set{Plain}, "", "TOKITAI_CPU=plain"},
		{"", both, refused, []Set{Plain}, "", "permission denied"},
		{"", nil, nil, []Set{Plain}, "", "nothing generates it"},
		{"avx512", both[1:], nil, []Set{AVX2, Plain}, `got "avx512", want one of avx2, plain`, ""},
		{"sse", both, nil, []Set{AVX512, AVX2, Plain}, `got "sse"`, ""},
	} {
		got := chooseSets(c.limit, c.have, c.refused)
		if !slices.Equal(got.sets, c.want) || (got.err == nil) != (c.err == "") || got.err != nil && !strings.Contains(got.err.Error(), c.err) ||
			(got.note == "") != (c.note == "") || !strings.Contains(got.note, c.note) {
			t.Errorf("chooseSets(%q, %v, %v) = %+v", c.limit, c.have, c.refused, got)
		}
	}
	if !slices.Equal(both, []Set{AVX512, AVX2}) {
		t.Error("chooseSets changed its argument")
	}
}

func TestAvailable(t *testing.T) {
	sets := Available()
	if len(sets) == 0 || sets[len(sets)-1] != Plain {
		t.Errorf("Available() = %v, want Plain at the end", sets)
	}
	if (sets[0] == Plain) != (Note() != "") {
		t.Errorf("Available() = %v with the note %q", sets, Note())
	}
}

func TestLoadRefusesNothing(t *testing.T) {
	if c, err := Load(nil); c != nil || err == nil {
		t.Errorf("Load(nil) = %v, %v, want an error", c, err)
	}
}

// add is code that adds the second word of its frame to the first.
var add = map[string][]byte{
	"amd64": {0x48, 0x8b, 0x47, 0x08, 0x48, 0x01, 0x07, 0xc3},
	"arm64": {0x01, 0x08, 0x40, 0xa9, 0x21, 0x00, 0x02, 0x8b, 0x01, 0x00, 0x00, 0xf9, 0xc0, 0x03, 0x5f, 0xd6},
}

func loadAdd(t *testing.T) *Code {
	t.Helper()
	if Available()[0] == Plain {
		t.Skip("skipped: " + Note())
	}
	c, err := Load(add[runtime.GOARCH])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCall(t *testing.T) {
	c := loadAdd(t)
	frame := [2]int64{40, 2}
	c.Call(0, unsafe.Pointer(&frame))
	if frame != [2]int64{42, 2} {
		t.Errorf("the frame is %v, want 42 2", frame)
	}
	if !slices.Equal(c.Bytes(), add[runtime.GOARCH]) {
		t.Errorf("the code is %x", c.Bytes())
	}
	if n := testing.AllocsPerRun(100, func() { c.Call(0, unsafe.Pointer(&frame)) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// constant returns code that stores n into its frame.
func constant(n uint16) []byte {
	if runtime.GOARCH == "arm64" {
		code := binary.LittleEndian.AppendUint32(nil, 0xd2800001|uint32(n)<<5) // mov x1, #n
		return append(code, 0x01, 0x00, 0x00, 0xf9, 0xc0, 0x03, 0x5f, 0xd6)    // str x1, [x0]; ret
	}
	return append(binary.LittleEndian.AppendUint32([]byte{0x48, 0xc7, 0x07}, uint32(n)), 0xc3) // mov qword [rdi], n; ret
}

// TestReload runs code at addresses where other code was before, on several threads.
func TestReload(t *testing.T) {
	if Available()[0] == Plain {
		t.Skip("skipped: " + Note())
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 200 {
				want := uint64(g*1000 + i)
				c, err := Load(constant(uint16(want)))
				if err != nil {
					t.Error(err)
					return
				}
				var frame uint64
				c.Call(0, unsafe.Pointer(&frame))
				if frame != want {
					t.Errorf("code that stores %d stored %d", want, frame)
				}
				if i%50 == 0 {
					runtime.GC() // gives the memory of earlier code back
				}
			}
		})
	}
	group.Wait()
}
