package huggingface_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tokitai/model/huggingface"
)

// TestPipe: pipes in a folder are refused at once.
func TestPipe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		shard int64
	}{{"config.json", 0}, {"generation_config.json", 0}, {"model.safetensors", 0}, {"model.safetensors.index.json", 700}, {"model-00002-of-00007.safetensors", 700}} {
		path := write(t, small, huggingface.WriteOptions{ShardBytes: c.shard})
		pipe := filepath.Join(path, c.name)
		os.Remove(pipe)
		if err := syscall.Mkfifo(pipe, 0o666); err != nil {
			t.Skip(err)
		}
		refused(t, path, c.name+" is a named pipe, want a regular file")
	}
}
