package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeModel trains a tiny run and serves it over HTTPS with a key, asks for an answer, and stops the server as a
// signal does, while an answer is under way, which ends well.
func TestServeModel(t *testing.T) {
	folder := t.TempDir()
	run := tinyRun(t)
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := write("keys", []byte("# ours\nsecret\n\n"))
	cert, key := certificate(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"serve", run, "--listen", "127.0.0.1:0", "--key-file", keys, "--tls-cert", write("cert.pem", cert), "--tls-key", write("key.pem", key), "--device", "cpu", "--name", "small"}, in, &log)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	name, url, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || !ok || name != "small" || !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Fatalf("the server says %q: %v", line, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	ask := func(body string) *http.Response {
		r, err := http.NewRequest(http.MethodPost, url+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer secret")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	response := ask(`{"model":"small","prompt":"ab","max_tokens":13,"seed":1,"ignore_eos":true,"stream":true}`)
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if _, err := reader.ReadString('\n'); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	cancel()
	rest, err := io.ReadAll(reader)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || !strings.Contains(string(rest), `"receipt":1`) {
		t.Errorf("the answer under way ends with %q, %v", rest, err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	if c := <-code; c != exitOK {
		t.Errorf("the server exits with %d: %s", c, log.String())
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "https://")); err == nil {
		t.Error("the server still listens")
	}
	for line := range strings.Lines(log.String()) {
		var entry struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
			t.Errorf("the log has the line %q: %v", line, err)
		}
	}
}

// tinyRun trains a run of one step, and returns its folder.
func tinyRun(t *testing.T) string {
	t.Helper()
	run := filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--data", "grammar:2000", "--out", run, "--device", "cpu"}
	for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=16", "batch=2", "steps=1", "warmup=0"} {
		args = append(args, "--set", s)
	}
	if code, _, stderr := program(t.Context(), args...); code != 0 {
		t.Fatal(stderr)
	}
	return run
}

// certificate returns a certificate of 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}
