package sim

import (
	"slices"

	"tokitai/device/gpu/driver"
)

func (s *simulator) newGraph(nodes []driver.Node) (driver.Graph, error) {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Params = slices.Clone(nodes[i].Params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := driver.Graph(s.handle())
	s.graphs[g] = nodes
	return g, nil
}

// launchGraph launches one node after another, so that each runs after all those that it
// has to.
func (s *simulator) launchGraph(width int, g driver.Graph) error {
	s.mu.Lock()
	nodes := s.graphs[g]
	s.mu.Unlock()
	for i := range nodes {
		n := &nodes[i]
		if err := s.launch(width, n.Function, n.Grid, n.Block, n.Shared, n.Params); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulator) setNode(g driver.Graph, number int, n *driver.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(s.graphs[g][number].Params, n.Params)
	return nil
}

func (s *simulator) destroyGraph(g driver.Graph) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.graphs, g)
	return nil
}
