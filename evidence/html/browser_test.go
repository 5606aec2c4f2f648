package html_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	stdhtml "html"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokitai/internal/tool"
)

// browser returns a Chromium that runs without a screen. Where there is none the test is
// skipped: it takes hundreds of megabytes.
func browser(t *testing.T) string {
	t.Helper()
	return tool.Need(t, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
}

// browse opens a page and returns what the browser prints.
func browse(t *testing.T, program, path string, width int, isDark bool, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a hang, not slowness
	defer cancel()
	scheme := 1
	if isDark {
		scheme = 0
	}
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
		fmt.Sprintf("--window-size=%d,800", width), fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme),
	}, args...)
	c := exec.CommandContext(ctx, program, append(args, "file://"+path)...)
	var notes bytes.Buffer
	c.Stderr = &notes
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, notes.String())
	}
	return out
}

// measure is a script that a copy of the page runs in a frame: it opens everything and writes down
// what the browser made of it.
const measure = `<script>
for (const d of document.querySelectorAll('details')) d.open = true;
const wide = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre, svg, .hidden, .skip') && e.getBoundingClientRect().right > innerWidth + 0.5);
parent.document.body.innerHTML = '<pre id="measured">' + JSON.stringify({
	page: document.documentElement.scrollWidth, window: innerWidth, wide: wide.map(e => e.tagName + '.' + e.className),
	fonts: [...document.querySelectorAll('svg[role=img]')].map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width),
}) + '</pre>';
</script></body>`

// TestInBrowser opens pages in a browser, narrow and wide, light and dark.
func TestInBrowser(t *testing.T) {
	program := browser(t)
	folder := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := full(t)
	light, dark := colours(t)
	for _, x := range []struct {
		name   string
		width  int
		isDark bool
		back   string
	}{{"narrow, dark", 390, true, dark["back"]}, {"wide, light", 1280, false, light["back"]}} {
		// As it is: the style applies although the page refuses scripts and everything else.
		picture := filepath.Join(folder, "page.png")
		browse(t, program, file("page.html", data), x.width, x.isDark, "--screenshot="+picture)
		shot, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(bytes.NewReader(shot))
		if err != nil {
			t.Fatal(err)
		}
		c := color.NRGBAModel.Convert(image.At(1, 1)).(color.NRGBA)
		if got := fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B); got != x.back || image.Bounds().Dx() != x.width {
			t.Errorf("%s: the background is %s on %d pixels, want %s on %d", x.name, got, image.Bounds().Dx(), x.back, x.width)
		}

		// With everything open, nothing is wider than the window.
		scripted := strings.Replace(string(data), "</body>", measure, 1)
		scripted = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(scripted, "")
		// In a frame, since some browsers have no window as narrow as a telephone's.
		framed := fmt.Sprintf(`<!DOCTYPE html><html><body style="margin: 0"><iframe style="border: 0; width: %dpx; height: 800px" srcdoc="%s"></iframe></body></html>`, x.width, stdhtml.EscapeString(scripted))
		dom := browse(t, program, file("measured.html", []byte(framed)), x.width, x.isDark, "--dump-dom")
		found := regexp.MustCompile(`<pre id="measured">(.*?)</pre>`).FindSubmatch(dom)
		if found == nil {
			t.Fatalf("%s: nothing was measured:\n%s", x.name, dom)
		}
		var m struct {
			Page, Window int
			Wide         []string
			Fonts        []float64
		}
		if err := json.Unmarshal(found[1], &m); err != nil {
			t.Fatal(err)
		}
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
