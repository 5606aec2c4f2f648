package cpu

import (
	"sync"

	"tokitai/def"
	"tokitai/lower"
)

// Tiling divides the result of a contraction into tiles, which workers compute independently.
// W holds the working memory of one worker.
type Tiling[W any] struct {
	Rows, Cols int                                 // size of a tile
	New        func(*lower.Call) *W                // allocates a worker's memory
	Do         func(*W, *lower.Tiles, *lower.Tile) // computes a tile

	jobs sync.Pool
}

type tilingJob[W any] struct {
	t       *Tiling[W]
	tiles   lower.Tiles
	started bool
	workers []*tilingWorker[W]
}

type tilingWorker[W any] struct {
	memory *W
	tile   lower.Tile
}

// Bind prepares the job that computes a call.
func (t *Tiling[W]) Bind(d *def.Definition, c *lower.Call, workers int) Job {
	j, _ := t.jobs.Get().(*tilingJob[W])
	if j == nil {
		j = &tilingJob[W]{t: t}
	}
	j.tiles.Set(d, c, t.Rows, t.Cols)
	j.started = false
	for len(j.workers) < workers {
		j.workers = append(j.workers, &tilingWorker[W]{memory: t.New(c)})
	}
	return j
}

// Next implements Job.
func (j *tilingJob[W]) Next() (int, bool) {
	if j.started {
		return 0, false
	}
	j.started = true
	return j.tiles.Len(), true
}

// Do implements Job: one tile of the result.
func (j *tilingJob[W]) Do(worker, item int) {
	w := j.workers[worker]
	if j.tiles.At(&w.tile, item) {
		j.t.Do(w.memory, &j.tiles, &w.tile)
	}
	w.tile = lower.Tile{} // the pool must not keep operands alive
}

// Release implements Job.
func (j *tilingJob[W]) Release() {
	j.tiles = lower.Tiles{} // the pool must not keep operands alive
	j.t.jobs.Put(j)
}
