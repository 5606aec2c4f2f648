package stdio_test

import (
	"context"
	"fmt"
	"io"

	"tokitai/backend/cpu"
	"tokitai/kernelprocess/stdio"
)

// A client and a server, here in one program. The pipes are a child's standard input and
// output elsewhere.
func ExampleClient() {
	server, err := stdio.NewProcess("softmax", cpu.Queue(), stdio.Options{})
	if err != nil {
		panic(err)
	}
	requests, toServer := io.Pipe()
	answers, toClient := io.Pipe()
	go server.Serve(requests, toClient)

	client := stdio.NewClient(answers, toServer, toServer.Close)
	defer client.Close()
	half := []byte{0x00, 0x38} // of fp16
	response, err := client.Do(context.Background(), &stdio.Request{
		Kernel:   "softmax",
		Integers: []int64{0, 1, 2}, // MODE, R and C
		Lists:    [][]byte{append(half, half...)},
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("% x, %s columns\n", response.Results[0], response.Lines["N_COLS"])

	_, err = client.Do(context.Background(), &stdio.Request{Kernel: "softmax", Integers: []int64{2, 1, 2}, Lists: [][]byte{nil}})
	fmt.Println(err)
	// Output:
	// 00 38 00 38, 2 columns
	// the request was not sent: ERR 3 MODE is 2, want 0 to 1
}
