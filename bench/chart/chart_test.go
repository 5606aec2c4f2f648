package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/contrast"
)

// measured is what bench --json prints, shortened. The first operation has a hostile name.
const measured = `{"device": {"name": "A <GPU>", "driver": "CUDA 13"}, "results": [
	{"op": "</style>&", "shape": "R=1024,C=16", "dtype": "f16", "device": "cuda:0", "lowering": "x/cuda.rowwise", "ms": 0.5, "bytes": 65536, "gbps": 400, "share": 0.8},
	{"op": "</style>&", "shape": "R=1024,C=16", "dtype": "f16", "device": "cuda:0", "lowering": "x/cuda.other", "ms": 5, "bytes": 65536, "gbps": 40, "share": 0.08},
	{"op": "</style>&", "shape": "R=16,C=1024", "dtype": "f16", "device": "cuda:0", "lowering": "x/cuda.rowwise", "ms": 1, "bytes": 65536, "gbps": 200, "share": 0.4},
	{"op": "gemm.forward", "shape": "M=1024,K=1024,N=1024", "dtype": "e4m3", "device": "cuda:0", "lowering": "gemm.forward/cuda.mma", "ms": 2, "tflops": 1.073741824, "library": {"name": "cuBLASLt", "ratio": 0.5}},
	{"op": "gemm.forward", "shape": "M=512,K=512,N=512", "dtype": "e4m3", "device": "cuda:0", "lowering": "gemm.forward/cuda.mma", "ms": 1, "tflops": 0.268435456, "library": {"name": "cuBLASLt", "error": "not installed"}},
	{"op": "gelu.forward", "shape": "R=1,C=1", "dtype": "f16", "device": "cuda:0", "lowering": "gelu.forward/cuda.rowwise", "error": "wrong"}]}`

// besidePeers is what bench --peers --json prints, shortened.
const besidePeers = `{"host": {"cpu": "A CPU", "workers": [1, 2]}, "peers": [{"peer": "torch", "name": "PyTorch"}, {"peer": "numpy", "name": "NumPy"}], "rows": [
	{"op": "gemm.forward", "shape": "M=256,K=256,N=256", "dtype": "f32", "workers": 1, "lowering": "cpu.avx512", "ms": 0.6, "gflops": 60},
	{"op": "gemm.forward", "shape": "M=256,K=256,N=256", "dtype": "f32", "workers": 2, "lowering": "cpu.avx512", "ms": 0.3, "gflops": 100, "peers": [{"peer": "numpy", "ratio": 2, "least": 1, "most": 4}, {"peer": "torch", "ratio": 0.5, "least": 0.5, "most": 0.5}, {"peer": "torch-no-amx", "ratio": 0.1, "least": 0.1, "most": 0.5}, {"peer": "gonum", "error": "not built"}]}]}`

func parse(t *testing.T, text string) *Record {
	t.Helper()
	r, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := parse(t, measured)
	if r.Device != "A <GPU>" || r.Driver != "CUDA 13" || len(r.Points) != 4 {
		t.Fatalf("%+v", r)
	}
	p, product := r.Points[0], r.Points[2]
	if p.Lowering != "cuda.rowwise" || p.Speed != 400 || p.Limit() != 500 || p.columns() != 16 || p.OfCopy() != "0.80" {
		t.Errorf("rows: %+v", p)
	}
	if figure(product.Limit()) != "2,147" || product.columns() != 0 || product.OfPeers() != "0.50 of cuBLASLt" || figure(product.edge()) != "1,024" {
		t.Errorf("a product: %+v with an edge of %v", product, product.edge())
	}
	r = parse(t, "["+besidePeers+","+besidePeers+"]")
	if r.Device != "A CPU, 2 threads" || len(r.Points) != 1 || !slices.Equal(r.Points[0].Peers, []Peer{{"PyTorch", 200}, {"NumPy", 50}}) {
		t.Errorf("beside peers: %+v", r)
	}
	for text, want := range map[string]string{
		"x": "not a report of bench --json", "{}": "no figures", "[" + measured + "," + besidePeers + "]": "two devices",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
}

// texts returns the texts of an XML document, which must be well-formed.
func texts(t *testing.T, document string) (list []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if text, isText := token.(xml.CharData); isText && strings.TrimSpace(string(text)) != "" {
			list = append(list, strings.TrimSpace(string(text)))
		}
	}
}

func TestPicture(t *testing.T) {
	for text, want := range map[string][]string{
		measured: {"A <GPU>", "CUDA 13", "e4m3", "as fast as a copy", "</style>&", "0.40–0.80 of a copy", "as fast as the fastest peer", "0.50 of cuBLASLt",
			"columns of a row", "edge of a cube with as many products", "GB/s", "GFLOP/s", "½"},
		besidePeers: {"A CPU, 2 threads", "0.50 of PyTorch"},
	} {
		got := texts(t, parse(t, text).Picture())
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("the picture does not say %q but %q", w, got)
			}
		}
		if slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "NaN") || strings.Contains(s, "Inf") || strings.Contains(s, " ms")
		}) {
			t.Errorf("the picture says %q", got)
		}
	}
}

func TestPage(t *testing.T) {
	var b strings.Builder
	if err := parse(t, measured).WritePage(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "<script") {
		t.Errorf("the page has a script, or a coordinate that is no number:\n%s", b.String())
	}
	got := texts(t, b.String())
	for _, want := range []string{"</style>& R=1024,C=16", "f16: 0.5 ms, 400 GB/s, 0.80 of a copy", "e4m3: 2 ms, 1,074 GFLOP/s, 0.50 of cuBLASLt", "M=512,K=512,N=512", "All figures", "cuda.rowwise"} {
		if !slices.Contains(got, want) {
			t.Errorf("the page does not say %q but %q", want, got)
		}
	}
}

// What is wide apart has ticks at powers, what is near at round numbers.
func TestTicks(t *testing.T) {
	for _, x := range []struct {
		got  []float64
		want []float64
	}{
		{scale{100, 9000, 0, 1}.ticks(2, 5), []float64{256, 1024, 4096}},
		{scale{0.2, 1.3, 0, 1}.ticks(2, 8), []float64{0.25, 0.5, 1}},
		{scale{900, 5100, 0, 1}.roundTicks(5), []float64{1000, 2000, 5000}},
		{scale{0.3, 5100, 0, 1}.roundTicks(5), []float64{1, 10, 100, 1000}},
	} {
		if !slices.Equal(x.got, x.want) {
			t.Errorf("ticks at %v, want %v", x.got, x.want)
		}
	}
	for v, want := range map[float64]string{1: "1", 512: "512", 4096: "4 Ki", 1 << 27: "128 Mi"} {
		if got := binary(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	if got := figure(1234567); got != "1,234,567" {
		t.Errorf("a long figure is %q", got)
	}
}

// Labels of lines that end near each other do not touch.
func TestLabels(t *testing.T) {
	var l labels
	for i := range 4 {
		l.add("", "x", scale{1, 10, plotBottom, panelTop}, []mark{{1, 1}, {2, 5 + float64(i)/100}})
	}
	l.draw(&canvas{})
	for i := 1; i < len(l); i++ {
		if d := l[i].y - l[i-1].y; d < labelHeight-0.5 {
			t.Errorf("labels %d and %d are %.1f apart, want %v", i-1, i, d, labelHeight)
		}
	}
}

// Texts have the contrast that WCAG level AA asks for, 4.5, and lines 3, in both styles.
func TestContrast(t *testing.T) {
	light, dark := contrast.Colours(style)
	if len(dark) != len(light) {
		t.Fatalf("%d light colours and %d dark ones", len(light), len(dark))
	}
	for _, c := range []map[string]string{light, dark} {
		for _, name := range []string{"text", "soft", "f16", "bf16", "f32", "other", "limit"} {
			for _, back := range []string{"back", "card"} {
				if got := contrast.Ratio(c[name], c[back]); got < 4.5 {
					t.Errorf("%s %s on %s %s has a contrast of %.2f, want 4.5", name, c[name], back, c[back], got)
				}
			}
		}
	}
}
