// Package chart draws measured speeds over sizes, beside a copy and the fastest peer: as a picture
// in SVG, and as one HTML page on which a pointer shows the figures. Neither needs a script, a
// network or another file. The package knows only records, not how they were measured.
//
// Start with [Parse] and [Record.Picture].
package chart

import _ "embed"

//go:embed chart.css
var style string

const (
	pictureWidth = 900.0
	margin       = 18.0
	perRow       = 3
	columnPitch  = panelWidth + 5
	rowPitch     = panelHeight + 15
)

// Picture returns a record as SVG.
func (r *Record) Picture() string {
	var c canvas
	bottom := margin + 14
	c.text("heading", margin, bottom, r.Device)
	if r.Driver != "" {
		c.text("soft end", pictureWidth-margin, bottom, r.Driver)
	}
	bottom += 10
	r.legend(&c, margin, bottom+12)
	bottom += 34
	for _, o := range r.overviews() {
		c.group(margin, bottom, func() { o.draw(&c, pictureWidth-2*margin) })
		bottom += o.height()
	}
	bottom += 6
	panels := r.panels()
	for i, p := range panels {
		x, y := margin+float64(i%perRow)*columnPitch, bottom+float64(i/perRow)*rowPitch
		xs, ys := common(panels, p)
		c.group(x, y, func() { p.draw(&c, xs, ys) })
	}
	bottom += float64((len(panels)+perRow-1)/perRow) * rowPitch
	return c.svg("speeds on "+r.Device, pictureWidth, bottom, "<style>\n"+style+"</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n")
}

// common returns the ranges of all panels with the axes of one.
func common(panels []*panel, like *panel) (x, y span) {
	x, y = spanOf(), spanOf()
	for _, p := range panels {
		xs, ys := p.spans()
		if p.x == like.x {
			x = x.and(xs)
		}
		if p.points[0].isProduct == like.points[0].isProduct {
			y = y.and(ys)
		}
	}
	return x, y
}

// legend says what the colours and lines are.
func (r *Record) legend(c *canvas, x, y float64) {
	for _, format := range formatsOf(r.Points) {
		c.dot(format, x+4, y-4, 3.8)
		c.text("label strong "+format, x+13, y, format)
		x += 60
	}
	for _, key := range []struct {
		class, text string
		width       float64
	}{{"ours key", "tokitai", 95}, {"peer key", "fastest peer", 125}, {"copy", "copy of as many bytes", 0}} {
		if key.class == "peer key" {
			c.dot("hollow key", x-10, y-4, 3.2)
		}
		c.line(key.class, x, y-4, x+26, y-4)
		c.text("soft", x+33, y, key.text)
		x += key.width
	}
}
