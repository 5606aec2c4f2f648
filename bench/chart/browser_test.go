package chart

import (
	"bytes"
	"testing"

	"tokitai/internal/browser"
)

// TestInBrowser: in a narrow window and in a wide one, nothing but the overview is wider, texts can be
// read, and figures appear at what has the focus alone.
func TestInBrowser(t *testing.T) {
	var page bytes.Buffer
	if err := parse(t, measured).WritePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{390, 1280} {
		var m struct {
			Page          int
			Fonts         []float64
			Before, After []string
			Text          string
		}
		browser.New(t, width, false).Measure(t, page.Bytes(), `
			const tips = [...document.querySelectorAll('.tip')], seen = () => tips.map(e => getComputedStyle(e).visibility).filter(v => v == 'visible');
			const before = seen();
			document.querySelector('.hit').focus({focusVisible: true});`,
			`{page: document.documentElement.scrollWidth, fonts: [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width),
			before, after: seen(), text: document.querySelector('.hit .tip').textContent}`, &m)
		if m.Page > width {
			t.Errorf("the page is %d pixels wide in a window of %d", m.Page, width)
		}
		for i, scale := range m.Fonts {
			if scale < 0.85 {
				t.Errorf("in a window of %d, picture %d is scaled by %.2f: its texts cannot be read", width, i, scale)
			}
		}
		if len(m.Fonts) < 4 || len(m.Before) != 0 || len(m.After) != 1 || m.Text == "" {
			t.Errorf("in a window of %d: %+v, want figures at the focus alone", width, m)
		}
	}
}
