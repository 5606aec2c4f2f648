// Command benchmark measures the ways to call a kernel in another process, each against
// the same call in this process in the same run:
//
//	go run ./kernelprocess/benchmark             # the table
//	go run ./kernelprocess/benchmark -model 8e8  # a step of AdamW on a whole model, once
//
// Every result is compared with that of this process, bit for bit. The program is its own
// kernel process, both for the protocol over a socket and for the formats over standard
// input and output.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"tokitai/backend/cpu"
	"tokitai/kernelprocess"
	"tokitai/kernelprocess/stdio"
)

func main() {
	kernelprocess.Main()
	if len(os.Args) > 2 && os.Args[1] == stdioRole {
		os.Exit(serveStdio(os.Args[2], len(os.Args) > 3))
	}
	model := flag.Float64("model", 0, "take steps of AdamW on a model of so many `parameters` instead, in 808 tensors")
	budget := flag.Duration("time", time.Second, "for each way")
	quick := flag.Bool("quick", false, "smaller tensors")
	flag.Parse()
	var err error
	if *model > 0 {
		err = stepModel(int(*model))
	} else {
		err = table(*budget, *quick)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// stdioRole is the first argument of a process that serves a kernel over standard input
// and output.
const stdioRole = "stdio"

func serveStdio(kernel string, isServer bool) int {
	p, err := stdio.NewProcess(kernel, cpu.Queue(), stdio.Options{})
	if err == nil {
		if isServer {
			err = p.Serve(os.Stdin, os.Stdout)
		} else {
			err = p.RunOnce(os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
