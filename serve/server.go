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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/answer"
	"tokitai/answer/openai"
)

// Options configures a server.
type Options struct {
	Keys      []string      // API keys; a request must have one of them. None accepts every request
	MaxTokens int           // of an answer
	MaxBody   int64         // bytes of a request
	MaxTime   time.Duration // for an answer
	Stall     time.Duration // the time that a client has to send its request, and to take each part of the answer
	Guesses   int           // tokens to guess at a time
	Log       *slog.Logger
}

// DefaultOptions are those of a server for people who trust each other.
var DefaultOptions = Options{MaxTokens: 1 << 20, MaxBody: 4 << 20, MaxTime: 10 * time.Minute, Stall: 30 * time.Second, Guesses: 4}

// gate is what all servers have in front of what they answer with: keys, limits, the log and metrics.
type gate struct {
	options Options
	keys    [][sha256.Size]byte
	started time.Time
	metrics metrics
	work    *work
	handler http.Handler
}

// work counts the requests that are under way, but for those that came after the server was told to stop.
type work struct {
	mu         sync.Mutex
	running    int
	isStopping bool
	isDone     chan struct{} // closed when the server stops and none is under way
}

// begin reports whether a request may begin.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isStopping {
		w.running++
	}
	return !w.isStopping
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.isStopping {
		close(w.isDone)
	}
}

// stop has begin report false.
func (w *work) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isStopping && w.running == 0 {
		close(w.isDone)
	}
	w.isStopping = true
}

func (w *work) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isStopping
}

func newGate(o Options) gate {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := gate{options: o, started: time.Now(), metrics: newMetrics(), work: &work{isDone: make(chan struct{})}}
	for _, key := range o.Keys {
		g.keys = append(g.keys, sha256.Sum256([]byte(key)))
	}
	return g
}

// Requests that need a key, if there are keys. Others need none.
var keyed = []string{
	"POST /v1/completions", "POST /v1/chat/completions", "GET /v1/models", "GET /v1/models/{model...}",
	"POST /tokenize", "POST /detokenize", "POST /replay", "POST /infer", "GET /stats", "GET /metrics",
}

// Server answers requests with an engine.
type Server struct {
	gate
	engine   *answer.Engine
	reporter atomic.Pointer[reporter]
}

// New returns a server of an engine, which it does not close.
func New(e *answer.Engine, o Options) *Server {
	s := &Server{gate: newGate(o), engine: e}
	s.handle(map[string]func(*exchange) error{
		"POST /v1/completions":      s.serveCompletions,
		"POST /v1/chat/completions": s.serveChat,
		"GET /v1/models":            s.serveModels,
		"GET /v1/models/{model...}": s.serveModel,
		"POST /tokenize":            s.serveTokenize,
		"POST /detokenize":          s.serveDetokenize,
		"POST /replay":              s.serveReplay,
		"GET /stats":                s.serveStats,
		"GET /metrics":              s.serveMetrics,
		"GET /{$}":                  s.servePage,
		"GET /health":               s.serveHealth,
		"GET /healthz":              s.serveHealth,
		"/":                         s.serveUnknown,
	})
	return s
}

func (s *Server) model() *answer.Model { return s.engine.Model() }

// ServeHTTP answers a request.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Stop takes no more requests, and says so to whoever asks for the server's health. The channel is closed when those
// that came before have ended.
func (g *gate) Stop() <-chan struct{} {
	g.work.stop()
	return g.work.isDone
}

// End ends the answers that are under way, whose clients get an error.
func (s *Server) End() { s.engine.Close() }

// exchange is a request with its response.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	body    []byte
	id      string
	began   time.Time
	stall   time.Duration
	salt    string // of the API key
	control *http.ResponseController

	status         int
	isLogged       bool // by the process that has answered
	isBroken       bool // the answer breaks off where a client cannot see it
	prompt, output int  // tokens
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
	x.control.SetWriteDeadline(time.Now().Add(x.stall))
	if _, err := x.Write(data); err != nil {
		return err
	}
	return x.control.Flush()
}

// handle has the gate answer requests, by patterns of http.ServeMux. Each pattern but "/" has a method; other methods are an error
// that names it.
func (g *gate) handle(handlers map[string]func(*exchange) error) {
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		needsKey := slices.Contains(keyed, pattern)
		method, path, isOfMethod := strings.Cut(pattern, " ")
		if !isOfMethod {
			path = pattern
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { g.answer(w, r, path, needsKey, h) })
		if isOfMethod {
			mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				g.answer(w, r, path, needsKey, func(x *exchange) error { return refuseMethod(x, method) })
			})
		}
	}
	g.handler = mux
}

// refuseMethod is the answer to a request with another method than the one that the path has.
func refuseMethod(x *exchange, want string) error {
	x.Header().Set("Allow", want)
	return newError(http.StatusMethodNotAllowed, badRequest, "", "%s %s: want %s", x.request.Method, x.request.URL.Path, want)
}

// answer answers a request with what all need: the key, the limits, the log.
func (g *gate) answer(w http.ResponseWriter, r *http.Request, path string, needsKey bool, h func(*exchange) error) {
	x := &exchange{ResponseWriter: w, request: r, id: newID(), began: time.Now(), stall: g.options.Stall, control: http.NewResponseController(w)}
	if id := r.Header.Get("X-Request-Id"); isPassed(r) && id != "" {
		x.id = id
	}
	x.Header().Set("X-Request-Id", x.id)
	x.Header().Set("X-Content-Type-Options", "nosniff")
	if r.ContentLength != 0 { // net/http reads what a handler leaves of it, before it sends a response
		x.control.SetReadDeadline(x.began.Add(x.stall))
	}
	var err error
	defer func() { g.note(x, path, err) }() // also of an answer that is abandoned
	if g.work.begin() {
		defer g.work.end()
	} else if x.Header().Set("Connection", "close"); r.Method == http.MethodPost {
		err = errStopping
	}
	if err == nil {
		err = g.accept(x, needsKey)
	}
	if err == nil {
		err = h(x)
	}
	if err != nil && x.status == 0 {
		x.control.SetWriteDeadline(time.Now().Add(2 * x.stall)) // also for what is left of the request
		writeError(x, err)
	}
	if x.isBroken {
		panic(http.ErrAbortHandler)
	}
}

// note counts a request that has been answered, and logs it.
func (g *gate) note(x *exchange, path string, err error) {
	r, took := x.request, time.Since(x.began)
	if r.Context().Err() != nil && x.status != http.StatusRequestTimeout {
		x.status = 499 // as nginx writes it: the client has gone
	}
	g.metrics.count(path, x.status, took)
	if x.isLogged {
		return
	}
	attrs := []any{"id", x.id, "method", r.Method, "path", r.URL.Path, "status", x.status, "ms", took.Milliseconds(), "remote", remote(r)}
	if x.prompt > 0 {
		attrs = append(attrs, "prompt_tokens", x.prompt, "output_tokens", x.output)
	}
	if err != nil {
		attrs = append(attrs, "error", err.Error())
	}
	level := slog.LevelInfo
	if path == "/health" || path == "/healthz" || path == "/metrics" || path == "/stats" {
		level = slog.LevelDebug
	}
	g.options.Log.Log(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// isPassed reports whether a request comes from an Isolated.
func isPassed(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && a.Network() == "unix"
}

// remote returns the address of a client, which an Isolated passes on.
func remote(r *http.Request) string {
	if isPassed(r) {
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
	if encoding := x.request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return newError(http.StatusUnsupportedMediaType, badRequest, "", "the content encoding is %q, want none", encoding)
	}
	// Pages of other sites can make a browser send forms, but not JSON.
	if kind, _, err := mime.ParseMediaType(x.request.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return newError(http.StatusUnsupportedMediaType, badRequest, "", "the content type is %q, want application/json", x.request.Header.Get("Content-Type"))
	}
	var err error
	x.body, err = readBody(x, g.options.MaxBody)
	return err
}

// mostUnread is how many bytes of a request that is too large are read and forgotten: most clients read no answer before
// they have sent all of their request.
const mostUnread = 64 << 20

// readBody reads the body of a request, which may have so many bytes.
func readBody(x *exchange, most int64) ([]byte, error) {
	r := x.request
	if r.ContentLength > most && r.Header.Get("Expect") != "" { // the client waits for an answer
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err == nil && int64(len(body)) > most {
		io.CopyN(io.Discard, r.Body, mostUnread)
		return nil, tooLarge(most)
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return nil, newError(http.StatusRequestTimeout, badRequest, "timeout", "the request did not come within %v", x.stall)
	}
	if err != nil {
		return nil, newError(http.StatusBadRequest, badRequest, "", "the body cannot be read: %v", err)
	}
	x.control.SetReadDeadline(time.Time{}) // the answer may take longer
	return body, nil
}

func (s *Server) serveUnknown(x *exchange) error {
	path := x.request.URL.Path
	if strings.HasPrefix(path, "/v1/") {
		return newError(http.StatusNotFound, badRequest, "unknown_url", "%s %s is not supported by this server: it has /v1/completions, /v1/chat/completions and /v1/models", x.request.Method, path)
	}
	return newError(http.StatusNotFound, badRequest, "unknown_url", "there is no %s %s", x.request.Method, path)
}

// health tells whether the server takes requests.
func (g *gate) health(x *exchange, model string) error {
	if g.work.isStopped() {
		return errStopping
	}
	return writeJSON(x, http.StatusOK, map[string]any{"status": "ok", "model": model})
}

func (s *Server) serveHealth(x *exchange) error {
	if err := s.model().Unchanged(); err != nil {
		return newError(http.StatusServiceUnavailable, "server_error", "changed", "%v", err)
	}
	return s.health(x, s.model().Name)
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
	text, err := answer.TextOf(s.model().Vocabulary, tokens)
	if err != nil {
		m.Fail("tokens", "%v", err)
		return m.End()
	}
	return writeJSON(x, http.StatusOK, map[string]string{"prompt": text})
}

func (s *Server) serveStats(x *exchange) error {
	x.Header().Set("Cache-Control", "no-store")
	return writeJSON(x, http.StatusOK, struct {
		answer.Stats
		Limits answer.Limits `json:"limits"`
		Uptime float64       `json:"uptime_seconds"`
	}{s.engine.Stats(), s.engine.Limits(), time.Since(s.started).Seconds()})
}
