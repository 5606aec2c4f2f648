package serve_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// benchClients is how many answers BenchmarkServer computes together.
const benchClients = 64

// clientOf is the environment variable with the address that this process is to ask, as all clients of BenchmarkServer.
const clientOf = "TOKITAI_TEST_CLIENT_OF"

// benchPrompt returns the prompt of a client.
func benchPrompt(client int) []int32 {
	prompt := make([]int32, 16)
	for i := range prompt {
		prompt[i] = int32((client*31 + i*37) % 1000)
	}
	return prompt
}

// askServer is what the process of the clients does: each asks once. Standard input has further members of requests.
func askServer(url string) error {
	members, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	errs := make([]error, benchClients)
	var all sync.WaitGroup
	for i := range benchClients {
		all.Go(func() {
			prompt := strings.Join(strings.Fields(fmt.Sprint(benchPrompt(i))), ",")
			body := fmt.Sprintf(`{"prompt":%s,"ignore_eos":true,"seed":0%s}`, prompt, members)
			errs[i] = askOnce(url+"/v1/completions", body)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func askOnce(url, body string) error {
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"finish_reason":"length"`))) {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
