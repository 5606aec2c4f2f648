//go:build !unix

package huggingface

import "os"

// mapFile returns nil: weights are read instead.
func mapFile(*os.File) ([]byte, error) { return nil, nil }

func unmapFile([]byte) error { return nil }
