package driver

import (
	"slices"
	"sync"
)

// ReplayGraphs sets the functions of graphs in t, for a driver that has none or none that
// will do: a graph's nodes are launched one after the other in a stream, so that each runs
// after all those that it depends on.
func ReplayGraphs(t *Table) {
	r := &replay{launch: t.Launch, graphs: map[Graph][]Node{}}
	t.NewGraph, t.LaunchGraph, t.SetNode, t.DestroyGraph = r.newGraph, r.launchGraph, r.setNode, r.destroyGraph
}

type replay struct {
	launch func(f Function, grid, block [3]uint32, shared uint32, s Stream, params []byte) error

	mu     sync.Mutex
	last   Graph
	graphs map[Graph][]Node
}

func (r *replay) newGraph(nodes []Node) (Graph, error) {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Params = slices.Clone(nodes[i].Params)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.graphs[r.last] = nodes
	return r.last, nil
}

func (r *replay) nodes(g Graph) []Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.graphs[g]
}

func (r *replay) launchGraph(g Graph, s Stream) error {
	nodes := r.nodes(g)
	for i := range nodes {
		n := &nodes[i]
		if err := r.launch(n.Function, n.Grid, n.Block, n.Shared, s, n.Params); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) setNode(g Graph, number int, n *Node) error {
	copy(r.nodes(g)[number].Params, n.Params)
	return nil
}

func (r *replay) destroyGraph(g Graph) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.graphs, g)
	return nil
}
