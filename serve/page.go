package serve

import (
	_ "embed"
	"net/http"
)

//go:embed page.html
var page []byte

// servePage writes the page for people. It asks for what it shows by the same requests as any client.
func (s *Server) servePage(x *exchange) error {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	x.WriteHeader(http.StatusOK)
	_, err := x.Write(page)
	return err
}
