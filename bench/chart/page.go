package chart

import (
	_ "embed"
	"html/template"
	"io"
	"sync"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// page is parsed when a page is written: a program that writes none starts faster.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{"figure": figure}).Parse(pageText))
})

// WritePage writes a record as one HTML page.
func (r *Record) WritePage(w io.Writer) error {
	const width = pictureWidth
	x := struct {
		*Record
		Style             template.CSS
		Legend            template.HTML
		Overviews, Panels []template.HTML
	}{Record: r, Style: template.CSS(style + pageStyle)}
	draw := func(label string, width, height float64, draw func(*canvas)) template.HTML {
		c := &canvas{hasTips: true}
		draw(c)
		return template.HTML(c.svg(label, width, height, ""))
	}
	x.Legend = draw("legend", width, 20, func(c *canvas) { r.legend(c, 0, 14) })
	for _, o := range r.overviews() {
		x.Overviews = append(x.Overviews, draw(o.limit, width, o.height(), func(c *canvas) { o.draw(c, width) }))
	}
	panels := r.panels()
	for _, p := range panels {
		xs, ys := common(panels, p)
		x.Panels = append(x.Panels, draw(p.op, panelWidth, panelHeight, func(c *canvas) { p.draw(c, xs, ys) }))
	}
	return page().Execute(w, x)
}
