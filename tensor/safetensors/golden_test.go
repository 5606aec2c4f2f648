package safetensors

import (
	"bytes"
	"testing"

	"tokitai/num"
)

// golden is a file put together by hand from the format's description.
var golden = bytes.Join([][]byte{
	{0xe0, 0, 0, 0, 0, 0, 0, 0}, // 224 bytes of header
	[]byte(`{"__metadata__":{"by":"hand","format":"x<y"},`),
	[]byte(`"b.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},`),
	[]byte(`"label":{"dtype":"I32","shape":[1,1],"data_offsets":[8,12]},`),
	[]byte(`"a":{"dtype":"F16","shape":[],"data_offsets":[12,14]}`),
	[]byte(`}`),
	[]byte(`     `), // 219 bytes so far
	{0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0}, // b.weight: 1, -2
	{0x9c, 0xff, 0xff, 0xff},                         // label: -100
	{0x00, 0x38},                                     // a: 0.5
}, nil)

func goldenFile() *File {
	return &File{
		Entries: []Entry{
			{Name: "a", DType: num.F16, Shape: []int{}, Data: []byte{0x00, 0x38}},
			{Name: "b.weight", DType: num.F32, Shape: []int{2}, Data: []byte{0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0}},
			{Name: "label", DType: num.I32, Shape: []int{1, 1}, Data: []byte{0x9c, 0xff, 0xff, 0xff}},
		},
		Metadata: map[string]string{"format": "x<y", "by": "hand"},
	}
}

func TestGoldenRead(t *testing.T) {
	f, err := Read(bytes.NewReader(golden))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, f, goldenFile())
}

func TestGoldenWrite(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, goldenFile()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), golden) {
		t.Errorf("got\n%q\nwant\n%q", b.Bytes(), golden)
	}
}
