package html_test

import (
	"fmt"
	"image/color"
	"testing"

	"tokitai/internal/browser"
)

// TestInBrowser opens pages in a browser, narrow and wide, light and dark.
func TestInBrowser(t *testing.T) {
	data := full(t)
	light, dark := colours(t)
	for _, x := range []struct {
		name   string
		width  int
		isDark bool
		back   string
	}{{"narrow, dark", 390, true, dark["back"]}, {"wide, light", 1280, false, light["back"]}} {
		window := browser.New(t, x.width, x.isDark)
		// As it is: the style applies although the page refuses scripts and everything else.
		picture := window.Picture(t, data)
		c := color.NRGBAModel.Convert(picture.At(1, 1)).(color.NRGBA)
		if got := fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B); got != x.back || picture.Bounds().Dx() != x.width {
			t.Errorf("%s: the background is %s on %d pixels, want %s on %d", x.name, got, picture.Bounds().Dx(), x.back, x.width)
		}

		// With everything open, nothing is wider than the window.
		var m struct {
			Page, Window int
			Wide         []string
			Fonts        []float64
		}
		window.Measure(t, data, `
			for (const d of document.querySelectorAll('details')) d.open = true;
			const wide = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre, svg, .hidden, .skip') && e.getBoundingClientRect().right > innerWidth + 0.5);`,
			`{page: document.documentElement.scrollWidth, window: innerWidth, wide: wide.map(e => e.tagName + '.' + e.className),
			fonts: [...document.querySelectorAll('svg[role=img]')].map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)}`, &m)
		if m.Window != x.width || m.Page > m.Window || len(m.Wide) > 0 {
			t.Errorf("%s: the page is %d pixels wide in a window of %d, want %d; wider are %v", x.name, m.Page, m.Window, x.width, m.Wide)
		}
		for i, scale := range m.Fonts {
			if scale < 0.85 {
				t.Errorf("%s: picture %d is scaled by %.2f: its texts cannot be read", x.name, i, scale)
			}
		}
		if len(m.Fonts) == 0 {
			t.Errorf("%s: there are no pictures", x.name)
		}
	}
}
