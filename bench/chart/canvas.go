package chart

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// canvas is SVG so far.
type canvas struct {
	strings.Builder
	hasTips bool // the picture shows figures where a pointer is
}

// svg returns the picture as an element of the given size.
func (c *canvas) svg(label string, width, height float64, inside string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n%s%s</svg>\n", width, height, width, height, escape(label), inside, c.String())
}

// tip shows lines at x, y while a pointer is over the area that d, a path, encloses.
func (c *canvas) tip(d string, x, y, right float64, lines []string) {
	if !c.hasTips {
		return
	}
	const letter, room, leading = 5.9, 9.0, 16.0
	width := 0.0
	for _, line := range lines {
		width = max(width, letter*float64(utf8.RuneCountInString(line))+2*room)
	}
	x = min(x, right-width)
	fmt.Fprintf(c, "<g class=\"hit\" tabindex=\"0\"><path class=\"area\" d=\"%s\"/><g class=\"tip\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\"/>\n", d, x, y, width, leading*float64(len(lines))+room)
	for i, line := range lines {
		class := "start"
		if i == 0 {
			class = "strong"
		}
		c.text(class, x+room, y+leading*float64(i+1)+1, line)
	}
	c.WriteString("</g></g>\n")
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2)
}

func (c *canvas) dot(class string, x, y, radius float64) {
	fmt.Fprintf(c, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", class, x, y, radius)
}

func (c *canvas) text(class string, x, y float64, text string) {
	fmt.Fprintf(c, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, escape(text))
}

// path draws a line through marks.
func (c *canvas) path(class string, x, y scale, marks []mark) {
	fmt.Fprintf(c, "<path class=\"%s\" d=\"", class)
	for i, m := range marks {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(c, "%s%.1f %.1f", command, x.at(m.x), y.at(m.y))
	}
	c.WriteString("\"/>\n")
}

func (c *canvas) group(x, y float64, draw func()) {
	fmt.Fprintf(c, "<g transform=\"translate(%.1f %.1f)\">\n", x, y)
	draw()
	c.WriteString("</g>\n")
}

func escape(text string) string { return html.EscapeString(text) }
