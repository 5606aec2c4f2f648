// Package browser opens pages in a Chromium without a screen, for tests.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokitai/internal/await"
	"tokitai/internal/tool"
)

// Window is a browser's window and the style that its user prefers.
type Window struct {
	Width  int // in pixels
	IsDark bool

	program string
}

// New returns a window. Where there is no Chromium the test is skipped: it takes hundreds of megabytes.
func New(t testing.TB, width int, isDark bool) *Window {
	t.Helper()
	return &Window{width, isDark, find(t)}
}

func find(t testing.TB) string {
	t.Helper()
	return tool.Need(t, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
}

// Command returns a command that opens an address with flags of Chromium's. Where there is none the test is skipped. The
// browser ends with the test.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return command(t, find(t), args)
}

func command(t testing.TB, program string, args []string) *exec.Cmd {
	t.Helper()
	profile, err := os.MkdirTemp("", "tokitai-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // its processes may write there until they notice that the first has ended
		await.For(t, "the browser leaves its profile", func() bool { return os.RemoveAll(profile) == nil })
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a hang, not slowness
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + profile}, args...)...)
}

// open opens a page and returns what the browser prints.
func (w *Window) open(t testing.TB, page []byte, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
	scheme := 1
	if w.IsDark {
		scheme = 0
	}
	args = append([]string{
		"--hide-scrollbars", fmt.Sprintf("--window-size=%d,800", w.Width), fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme),
	}, args...)
	c := command(t, w.program, append(args, "file://"+path))
	var notes bytes.Buffer
	c.Stderr = &notes
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", w.program, err, notes.String())
	}
	return out
}

// Picture returns what the window shows of a page.
func (w *Window) Picture(t testing.TB, page []byte) image.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.png")
	w.open(t, page, "--screenshot="+path)
	shot, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

var (
	policy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	answer = regexp.MustCompile(`<pre id="measured">(.*?)</pre>`)
)

// Measure runs a script at the end of a page and decodes into result what its expression is, as JSON.
// A policy of the page that would refuse the script is left out.
func (w *Window) Measure(t testing.TB, page []byte, script, expression string, result any) {
	t.Helper()
	scripted := strings.Replace(string(policy.ReplaceAll(page, nil)), "</body>",
		"<script>"+script+"\nparent.document.body.innerHTML = '<pre id=\"measured\">' + JSON.stringify("+expression+") + '</pre>';</script></body>", 1)
	// In a frame, since some browsers have no window as narrow as a telephone's.
	framed := fmt.Sprintf(`<!DOCTYPE html><html><body style="margin: 0"><iframe style="border: 0; width: %dpx; height: 800px" srcdoc="%s"></iframe></body></html>`, w.Width, html.EscapeString(scripted))
	dom := w.open(t, []byte(framed), "--dump-dom")
	found := answer.FindSubmatch(dom)
	if found == nil {
		t.Fatalf("nothing was measured:\n%s", dom)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), result); err != nil {
		t.Fatalf("%v in %s", err, found[1])
	}
}
