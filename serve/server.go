package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"tokitai/answer"
	"tokitai/answer/openai"
)

// Options configures a server.
type Options struct {
	Keys      []string      // one of which a request has to bring along; none for any request
	MaxTokens int           // of an answer
	MaxBody   int64         // bytes of a request
	MaxTime   time.Duration // for an answer; also for reading a request, and for writing to a client that does not read
	Guesses   int           // tokens to guess at a time
	Log       *slog.Logger
}

// DefaultOptions are those of a server for people who trust each other.
var DefaultOptions = Options{MaxTokens: 1 << 20, MaxBody: 4 << 20, MaxTime: 10 * time.Minute, Guesses: 4}

// stall is how long a client may take to send its request, or to take what is written to it.
const stall = 30 * time.Second

// gate is what all servers have in front of what they answer with: keys, limits, the log and metrics.
type gate struct {
	options Options
	keys    [][sha256.Size]byte
	started time.Time
	metrics metrics

	isStopping *atomic.Bool
	handler    http.Handler
}

func newGate(o Options) gate {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := gate{options: o, started: time.Now(), metrics: newMetrics(), isStopping: new(atomic.Bool)}
	for _, key := range o.Keys {
		g.keys = append(g.keys, sha256.Sum256([]byte(key)))
	}
	return g
}

// Server answers requests with an engine.
type Server struct {
	gate
	engine *answer.Engine
}

// New returns a server of an engine, which it does not close.
func New(e *answer.Engine, o Options) *Server {
	s := &Server{gate: newGate(o), engine: e}
	mux := http.NewServeMux()
	for path, h := range map[string]func(*exchange) error{
		"POST /v1/completions":      s.serveCompletions,
		"POST /v1/chat/completions": s.serveChat,
		"GET /v1/models":            s.serveModels,
		"GET /v1/models/{model...}": s.serveModel,
		"POST /tokenize":            s.serveTokenize,
		"POST /detokenize":          s.serveDetokenize,
		"POST /replay":              s.serveReplay,
		"GET /stats":                s.serveStats,
		"GET /metrics":              s.serveMetrics,
	} {
		mux.Handle(path, s.handle(h, true))
	}
	health := func(x *exchange) error { return s.serveHealth(x, s.model().Name) }
	for path, h := range map[string]func(*exchange) error{
		"GET /{$}":     s.servePage,
		"GET /health":  health,
		"GET /healthz": health,
		"/":            s.serveUnknown,
	} {
		mux.Handle(path, s.handle(h, false))
	}
	s.handler = mux
	return s
}

func (s *Server) model() *answer.Model { return s.engine.Model() }

// ServeHTTP answers a request.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// HTTP returns an http.Server that serves with a handler and times out clients that stall.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: stall, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Stop takes no more requests, and says so to whoever asks for the server's health.
func (g *gate) Stop() { g.isStopping.Store(true) }

// End ends the answers that are under way, whose clients get an error.
func (s *Server) End() { s.engine.Close() }

// exchange is a request with its response.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	body    []byte
	id      string
	salt    string // of the API key
	control *http.ResponseController

	status         int
	prompt, output int // tokens
}

// WriteHeader keeps the status for the log.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer below.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// write writes to a client, which may take its time, but not for ever.
func (x *exchange) write(data []byte) error {
	x.control.SetWriteDeadline(time.Now().Add(stall))
	if _, err := x.Write(data); err != nil {
		return err
	}
	return x.control.Flush()
}

// handle returns a handler with what all of them need: the key, the limits, the log.
func (g *gate) handle(h func(*exchange) error, needsKey bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		x := &exchange{ResponseWriter: w, request: r, id: newID(), control: http.NewResponseController(w)}
		x.Header().Set("X-Request-Id", x.id)
		x.Header().Set("X-Content-Type-Options", "nosniff")
		err := g.accept(x, needsKey)
		if err == nil {
			err = h(x)
		}
		isGone := r.Context().Err() != nil
		if err != nil && x.status == 0 && !isGone {
			x.control.SetWriteDeadline(time.Now().Add(stall))
			writeError(x, err)
		}
		took := time.Since(began)
		route, _, _ := strings.Cut(r.Pattern, " ")
		if _, path, ok := strings.Cut(r.Pattern, " "); ok {
			route = path
		}
		if isGone {
			x.status = 499 // as nginx writes it: the client has gone
		}
		g.metrics.count(route, x.status, took)
		attrs := []any{"id", x.id, "method", r.Method, "path", r.URL.Path, "status", x.status, "ms", took.Milliseconds(), "remote", remote(r)}
		if x.prompt > 0 {
			attrs = append(attrs, "prompt_tokens", x.prompt, "output_tokens", x.output)
		}
		if err != nil {
			attrs = append(attrs, "error", err.Error())
		}
		level := slog.LevelInfo
		if route == "/health" || route == "/healthz" || route == "/metrics" || route == "/stats" {
			level = slog.LevelDebug
		}
		g.options.Log.Log(context.WithoutCancel(r.Context()), level, "request", attrs...)
	})
}

// remote returns the address of a client, which an Isolated passes on.
func remote(r *http.Request) string {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return r.Header.Get("X-Forwarded-For")
	}
	return r.RemoteAddr
}

func newID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// accept checks the key, and reads the body.
func (g *gate) accept(x *exchange, needsKey bool) error {
	if needsKey && len(g.keys) > 0 {
		given, _ := strings.CutPrefix(x.request.Header.Get("Authorization"), "Bearer ")
		sum, found := sha256.Sum256([]byte(given)), 0
		for i := range g.keys { // all of them: the time says nothing
			found |= subtle.ConstantTimeCompare(sum[:], g.keys[i][:])
		}
		if found == 0 {
			x.Header().Set("WWW-Authenticate", "Bearer")
			return newError(http.StatusUnauthorized, "authentication_error", "invalid_api_key", "the API key is missing or not one of this server's")
		}
		x.salt = hex.EncodeToString(sum[:])
	}
	if x.request.Method != http.MethodPost {
		return nil
	}
	// Pages of other sites can make a browser send forms, but not JSON.
	if kind, _, err := mime.ParseMediaType(x.request.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return newError(http.StatusUnsupportedMediaType, badRequest, "", "the content type is %q, want application/json", x.request.Header.Get("Content-Type"))
	}
	var err error
	x.body, err = readBody(x, x.request, g.options.MaxBody)
	return err
}

// readBody reads the body of a request, which may have so many bytes and take its time, but not for ever.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(stall))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	control.SetReadDeadline(time.Time{})
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return nil, newError(http.StatusRequestTimeout, badRequest, "timeout", "the request did not come within %v", stall)
	}
	return body, err
}

func (s *Server) serveUnknown(x *exchange) error {
	path := x.request.URL.Path
	if strings.HasPrefix(path, "/v1/") {
		return newError(http.StatusNotFound, badRequest, "unknown_url", "%s %s is not supported by this server: it has /v1/completions, /v1/chat/completions and /v1/models", x.request.Method, path)
	}
	return newError(http.StatusNotFound, badRequest, "unknown_url", "there is no %s %s", x.request.Method, path)
}

func (g *gate) serveHealth(x *exchange, model string) error {
	if g.isStopping.Load() {
		return errStopping
	}
	return writeJSON(x, http.StatusOK, map[string]any{"status": "ok", "model": model})
}

// modelObject is a model as /v1/models has it.
func (s *Server) modelObject() map[string]any {
	m := s.model()
	return map[string]any{
		"id": m.Name, "object": "model", "created": s.started.Unix(), "owned_by": "tokitai",
		"max_model_len": m.Config.Block, "system_fingerprint": m.Identity.Fingerprint(), "identity": m.Identity, "chat": m.Template != nil,
	}
}

func (s *Server) serveModels(x *exchange) error {
	return writeJSON(x, http.StatusOK, map[string]any{"object": "list", "data": []any{s.modelObject()}})
}

func (s *Server) serveModel(x *exchange) error {
	if name := x.request.PathValue("model"); name != s.model().Name {
		return newError(http.StatusNotFound, badRequest, openai.UnknownModel, "the model %q does not exist; this server has %q", name, s.model().Name)
	}
	return writeJSON(x, http.StatusOK, s.modelObject())
}

func (s *Server) serveTokenize(x *exchange) error {
	m, err := openai.Parse(x.body)
	if err != nil {
		return err
	}
	var text, model string
	special := true
	m.Take("model", &model)
	m.Take("add_special_tokens", &special)
	if !m.Take("prompt", &text) {
		m.Fail("prompt", "is missing, want a text")
	}
	if err := m.End(); err != nil {
		return err
	}
	tokens, err := s.model().Vocabulary.Encode(text, special)
	if err != nil {
		m.Fail("prompt", "%v", err)
		return m.End()
	}
	return writeJSON(x, http.StatusOK, map[string]any{"tokens": append([]int32{}, tokens...), "count": len(tokens), "max_model_len": s.model().Config.Block})
}

func (s *Server) serveDetokenize(x *exchange) error {
	m, err := openai.Parse(x.body)
	if err != nil {
		return err
	}
	var tokens []int32
	var model string
	m.Take("model", &model)
	if !m.Take("tokens", &tokens) {
		m.Fail("tokens", "is missing, want an array of tokens")
	}
	if err := m.End(); err != nil {
		return err
	}
	text, all := s.model().Vocabulary.Text(), ""
	for _, t := range tokens {
		part, err := text.Next(t)
		if err != nil {
			m.Fail("tokens", "%v", err)
			return m.End()
		}
		all += part
	}
	return writeJSON(x, http.StatusOK, map[string]string{"prompt": all + text.End()})
}

func (s *Server) serveStats(x *exchange) error {
	x.Header().Set("Cache-Control", "no-store")
	return writeJSON(x, http.StatusOK, struct {
		answer.Stats
		Limits answer.Limits `json:"limits"`
		Uptime float64       `json:"uptime_seconds"`
	}{s.engine.Stats(), s.engine.Limits(), time.Since(s.started).Seconds()})
}
