package html

import (
	"fmt"
	"math"
	"strings"

	"tokitai/evidence"
)

// histogram is a chart of bars, whose heights are logarithms of numbers of outputs.
type histogram struct {
	Title  string
	Text   string // the same in words
	Note   string
	Axis   string // what the horizontal axis is
	Bars   []series
	Width  float64
	Base   float64 // of bars
	Left   float64
	Labels []label // below bars
	Ticks  []label // of the vertical axis
	Mark   *label  // a line at a bound
}

// series is bars of one kind, as one path.
type series struct{ Class, Path string }

// label is a text at a coordinate.
type label struct {
	At   float64
	Text string
}

// bar is one bar of a histogram.
type bar struct {
	name    string // on the axis
	words   string // in a sentence
	class   string
	outputs int64
	other   int64 // of the definition's own kernel
}

// Sizes of histograms. All are as wide as a narrow screen, at most.
const (
	plotWidth = 300.0
	mostBar   = 30.0 // with the gap beside it
	barHeight = 110.0
	chartLeft = 40.0
	chartTop  = 16.0
	textWidth = 30.0 // of a label
)

// draw lays out bars. Bars before mark are left of a line with the given text.
func draw(title, axis string, bars []bar, mark int, markText string) *histogram {
	h := &histogram{Title: title, Axis: axis, Base: chartTop + barHeight, Left: chartLeft}
	pitch := min(mostBar, plotWidth/float64(len(bars)))
	gap := pitch / 7
	width := pitch - gap
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.outputs, b.other)
	}
	// One output is a tenth of a decade high: it must be seen.
	decades := math.Ceil(max(math.Log10(float64(most)), 1))
	height := func(n int64) float64 {
		if n == 0 {
			return 0
		}
		return barHeight * (math.Log10(float64(n)) + 0.1) / (decades + 0.1)
	}
	paths := map[string]*strings.Builder{}
	add := func(class, format string, args ...any) {
		if paths[class] == nil {
			paths[class] = &strings.Builder{}
		}
		fmt.Fprintf(paths[class], format, args...)
	}
	var words []string
	step := int(math.Ceil(textWidth / pitch))
	for i, b := range bars {
		x := chartLeft + gap + float64(i)*pitch
		if b.outputs > 0 {
			y := height(b.outputs)
			add(b.class, "M%s %sv-%sh%sv%sz", px(x), px(h.Base), px(y), px(width), px(y))
			words = append(words, fmt.Sprintf("%s: %s", b.words, evidence.Integer(b.outputs)))
		}
		if b.other > 0 {
			add("own", "M%s %sh%s", px(x-gap/2), px(h.Base-height(b.other)), px(pitch))
		}
		if (len(bars)-1-i)%step == 0 {
			h.Labels = append(h.Labels, label{x + width/2, b.name})
		}
	}
	for _, class := range []string{"good", "fair", "bad", "own"} {
		if b := paths[class]; b != nil {
			h.Bars = append(h.Bars, series{class, b.String()})
		}
	}
	tick := max(1, math.Ceil(decades/4))
	for d := 0.0; d <= decades; d += tick {
		n := int64(math.Pow(10, d))
		h.Ticks = append(h.Ticks, label{h.Base - height(n), short(n)})
	}
	if mark > 0 && mark < len(bars) {
		h.Mark = &label{chartLeft + gap/2 + float64(mark)*pitch, markText}
	}
	h.Width = chartLeft + gap + float64(len(bars))*pitch
	h.Width = max(h.Width, 150) // the axis has a name
	h.Text = strings.Join(words, "; ")
	return h
}

// Height is that of the whole chart.
func (h *histogram) Height() float64 { return h.Base + 40 }

// Middle is the middle of the horizontal axis.
func (h *histogram) Middle() float64 { return (h.Left + h.Width) / 2 }

// LabelY and AxisY are the heights at which the texts below the bars stand.
func (h *histogram) LabelY() float64 { return h.Base + 14 }
func (h *histogram) AxisY() float64  { return h.Base + 32 }
func (h *histogram) Top() float64    { return chartTop }

// power formats a power of two: ½, 2, 2¹⁰, 2⁻⁷.
func power(x float64) string {
	switch x {
	case 0.125:
		return "⅛"
	case 0.25:
		return "¼"
	case 0.5:
		return "½"
	}
	if 1 <= x && x < 1000 {
		return fmt.Sprint(x)
	}
	return "2" + superscript(math.Ilogb(x))
}

// truthChart draws the errors against the truth.
func truthChart(h *evidence.Histogram, dtype string) *histogram {
	if h == nil || len(h.Truth) == 0 {
		return nil
	}
	first, last := math.Inf(1), 0.0
	for _, list := range [][]evidence.Bin{h.Truth, h.Own} {
		for _, b := range list {
			if b.UpTo > 0 {
				first, last = min(first, b.UpTo), max(last, b.UpTo)
			}
		}
	}
	bars, half := []bar{{name: "0", words: "no error", class: "good"}}, 0
	for x := min(first, 0.5); x <= max(last, 0.5); x *= 2 {
		b := bar{name: power(x), words: "up to " + power(x) + " ulp", class: "good"}
		switch {
		case x > 1:
			b.class = "bad"
		case x > 0.5:
			b.class = "fair"
		}
		if x == evidence.MostBin {
			b.name, b.words = "more", "more than "+power(x/2)+" ulp"
		}
		if bars = append(bars, b); x == 0.5 {
			half = len(bars)
		}
	}
	at := func(x float64) *bar {
		if x == 0 {
			return &bars[0]
		}
		return &bars[1+math.Ilogb(x)-math.Ilogb(min(first, 0.5))]
	}
	for _, b := range h.Truth {
		at(b.UpTo).outputs = b.Outputs
	}
	for _, b := range h.Own {
		at(b.UpTo).other = b.Outputs
	}
	c := draw("Errors against the truth", "error, up to … ulp of "+dtype, bars, half, "½ ulp")
	c.Note = "Outputs by their distance from the exact result, on a logarithmic scale. A correctly rounded output is at most ½ ulp away."
	if len(h.Own) > 0 {
		c.Note += " The lines are the definition's own kernel on the same inputs."
	}
	return c
}

// setChart draws the distances from the admissible values; nil if all outputs are admissible.
func setChart(h *evidence.Histogram) *histogram {
	if h == nil || len(h.Set) == 0 && h.SetUndefined == 0 || len(h.Set) == 1 && h.Set[0].UpTo == 0 && h.SetUndefined == 0 {
		return nil
	}
	bars, outside := []bar{{name: "0", words: "admissible", class: "good"}}, h.Set
	if len(h.Set) > 0 && h.Set[0].UpTo == 0 {
		bars[0].outputs, outside = h.Set[0].Outputs, h.Set[1:]
	}
	if len(outside) > 0 {
		i := 0
		for x := outside[0].UpTo; x <= outside[len(outside)-1].UpTo; x *= 2 {
			b := bar{name: power(x), words: "up to " + power(x) + " ulp away", class: "bad"}
			if outside[i].UpTo == x {
				b.outputs, i = outside[i].Outputs, i+1
			}
			bars = append(bars, b)
		}
	}
	if h.SetUndefined > 0 {
		bars = append(bars, bar{name: "∗", words: "without a distance", class: "bad", outputs: h.SetUndefined})
	}
	c := draw("Distance from the admissible set", "distance, up to … ulp", bars, 1, "")
	c.Note = "Outputs by their distance from the nearest admissible value, on a logarithmic scale; 0 is an admissible output."
	if h.SetUndefined > 0 {
		c.Note += " ∗ has no distance: it is not a number, infinite, an integer, or a zero of the wrong sign."
	}
	return c
}

// admitted is a chart of how many values are admitted per output, by the promise and by
// allclose, on a logarithmic scale.
type admitted struct {
	Text  string
	Rows  []admittedRow
	Ticks []label
	Width float64
}

type admittedRow struct {
	Class, Name      string
	Y, Low, High     float64 // of the bar
	Median, MedianAt string
	Values           string
}

// Sizes of charts of admitted values.
const (
	admittedLeft  = 84.0
	admittedWidth = 260.0
	admittedRowY  = 34.0
)

// admittedChart draws how many values are admitted; nil if that was not measured.
func admittedChart(r *evidence.Report) *admitted {
	if r.MeanAllClose == nil || r.MeanAdmissible == nil {
		return nil
	}
	most := max(*r.MeanAllClose, *r.MedianAllClose, *r.MeanAdmissible, *r.MedianAdmissible, 2)
	decades := math.Ceil(math.Log10(most))
	at := func(x float64) float64 { return admittedLeft + admittedWidth*math.Log10(max(x, 1))/decades }
	a := &admitted{Width: admittedLeft + admittedWidth + 14}
	for i, row := range []struct {
		class, name  string
		mean, median float64
	}{{"good", "the promise", *r.MeanAdmissible, *r.MedianAdmissible}, {"bad", "allclose", *r.MeanAllClose, *r.MedianAllClose}} {
		y := 8 + float64(i)*admittedRowY
		a.Rows = append(a.Rows, admittedRow{
			Class: row.class, Name: row.name, Y: y, Low: admittedLeft, High: max(at(row.mean)-admittedLeft, 3), MedianAt: px(at(row.median)),
			Values: fmt.Sprintf("mean %s, median %s", number(row.mean), number(row.median)),
		})
	}
	for d := 0.0; d <= decades; d += max(1, math.Ceil(decades/5)) {
		a.Ticks = append(a.Ticks, label{at(math.Pow(10, d)), short(int64(math.Pow(10, d)))})
	}
	a.Text = fmt.Sprintf("the promise: %s; allclose(rtol = atol = 1e-2): %s", a.Rows[0].Values, a.Rows[1].Values)
	return a
}

// heatMap is a map of the wrong elements of an output.
type heatMap struct {
	evidence.Map
	Text          string
	Shades        []series
	Left, Top     float64 // of the cells
	Width, Height float64 // of the cells
	IsCoarse      bool    // cells have several elements
	Legend        []legendCell
}

type legendCell struct {
	Class string
	X     float64
}

// newHeatMap draws a map, which is as wide as a narrow screen, at most.
func newHeatMap(m evidence.Map) *heatMap {
	const most, mostCell = 300, 20
	rows, cols := len(m.Cells), len(m.Cells[0])
	width, height := min(mostCell, most/float64(cols)), min(mostCell, most/float64(rows))
	h := &heatMap{Map: m, Left: 44, Top: 22, Width: float64(cols) * width, Height: float64(rows) * height, IsCoarse: m.CellRows*m.CellCols > 1}
	var paths [10]strings.Builder
	for i, line := range m.Cells {
		for k := 0; k < len(line); {
			n := 1
			for k+n < len(line) && line[k+n] == line[k] {
				n++
			}
			if line[k] != '.' {
				x, y, far, low := h.Left+float64(k)*width, h.Top+float64(i)*height, h.Left+float64(k+n)*width, h.Top+float64(i+1)*height
				fmt.Fprintf(&paths[line[k]-'0'], "M%s %sH%sV%sH%sz", px(x), px(y), px(far), px(low), px(x))
			}
			k += n
		}
	}
	for shade := range paths {
		if paths[shade].Len() > 0 {
			h.Shades = append(h.Shades, series{fmt.Sprintf("shade%d", shade), paths[shade].String()})
		}
	}
	if h.IsCoarse {
		for shade := 1; shade <= 9; shade++ {
			h.Legend = append(h.Legend, legendCell{fmt.Sprintf("shade%d", shade), float64(shade-1) * 14})
		}
	}
	of := int64(m.Rows) * int64(m.Cols)
	h.Text = fmt.Sprintf("%s of the %s of %s are wrong in case %s.", evidence.Integer(m.Wrong), counted(of, "element"), m.Output, m.Case)
	if m.IsPart {
		h.Text = fmt.Sprintf("At least %s of the %s of %s are wrong in case %s; these are the first.", evidence.Integer(m.Wrong), counted(of, "element"), m.Output, m.Case)
	}
	if h.IsCoarse {
		h.Text += fmt.Sprintf(" A cell is %d × %d elements: the darker, the more of them are wrong.", m.CellRows, m.CellCols)
	}
	return h
}

// FullWidth and FullHeight are those of the picture.
func (h *heatMap) FullWidth() float64  { return h.Left + max(h.Width, 60) + 12 }
func (h *heatMap) FullHeight() float64 { return h.Top + h.Height + 10 }

// LastRow and LastCol are the indices at the ends of the axes.
func (h *heatMap) LastRow() int     { return h.Rows - 1 }
func (h *heatMap) LastCol() int     { return h.Cols - 1 }
func (h *heatMap) Right() float64   { return h.Left + h.Width }
func (h *heatMap) Bottom() float64  { return h.Top + h.Height }
func (h *heatMap) MiddleX() float64 { return h.Left + h.Width/2 }
func (h *heatMap) MiddleY() float64 { return h.Top + h.Height/2 }
