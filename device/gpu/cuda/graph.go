package cuda

import (
	"sync"

	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
)

// graphs are the graphs of a library, by their handles.
type graphs struct {
	mu   sync.Mutex
	last driver.Graph
	all  map[driver.Graph]*graph
}

// graph is what the driver can launch, and the description that it was made from, whose
// nodes name the parameters to replace.
type graph struct {
	executable, description uintptr
	nodes                   []uintptr
}

// kernelNode is CUDA_KERNEL_NODE_PARAMS_v2.
type kernelNode struct {
	function    uintptr
	grid, block [3]uint32
	shared      uint32
	params      uintptr
	_           [3]uintptr // extra options; a library's kernel and a context, unused since function is set
}

// describe makes the node of f describe a kernel.
func describe(f *frame, n *driver.Node) {
	f.Structs.node = kernelNode{function: uintptr(n.Function), grid: n.Grid, block: n.Block, shared: n.Shared, params: f.List(n.Params)}
}

func (l *library) newGraph(nodes []driver.Node) (driver.Graph, error) {
	description, err := l.Create(&l.api.cuGraphCreate, 0)
	if err != nil {
		return 0, err
	}
	g := &graph{description: description, nodes: make([]uintptr, 0, len(nodes))}
	for i := range nodes {
		node, err := l.addNode(g, &nodes[i])
		if err != nil {
			l.Call1(&l.api.cuGraphDestroy, description)
			return 0, err
		}
		g.nodes = append(g.nodes, node)
	}
	if g.executable, err = l.Create(&l.api.cuGraphInstantiateWithFlags, description, 0); err != nil {
		l.Call1(&l.api.cuGraphDestroy, description)
		return 0, err
	}
	l.graphs.mu.Lock()
	defer l.graphs.mu.Unlock()
	if l.graphs.all == nil {
		l.graphs.all = map[driver.Graph]*graph{}
	}
	l.graphs.last++
	l.graphs.all[l.graphs.last] = g
	return l.graphs.last, nil
}

func (l *library) addNode(g *graph, n *driver.Node) (uintptr, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Out[0] = 0
	f.Args[0], f.Args[1], f.Args[2], f.Args[3] = clib.Address(&f.Out[0]), g.description, 0, uintptr(len(n.After))
	if len(n.After) > 0 {
		f.Structs.after = make([]uintptr, len(n.After))
		for i, k := range n.After {
			f.Structs.after[i] = g.nodes[k]
		}
		f.Args[2] = clib.Address(&f.Structs.after[0])
	}
	describe(f, n)
	f.Args[4] = clib.Address(&f.Structs.node)
	err := l.Call(&l.api.cuGraphAddKernelNode, f, 5)
	f.Structs.after = nil
	return uintptr(f.Out[0]), err
}

func (l *library) graph(g driver.Graph) *graph {
	l.graphs.mu.Lock()
	defer l.graphs.mu.Unlock()
	return l.graphs.all[g]
}

func (l *library) launchGraph(g driver.Graph, s driver.Stream) error {
	return l.Call2(&l.api.cuGraphLaunch, l.graph(g).executable, uintptr(s))
}

func (l *library) setNode(g driver.Graph, number int, n *driver.Node) error {
	known := l.graph(g)
	f := l.Frame()
	describe(f, n)
	f.Args[0], f.Args[1], f.Args[2] = known.executable, known.nodes[number], clib.Address(&f.Structs.node)
	err := l.Call(&l.api.cuGraphExecKernelNodeSetParams, f, 3)
	l.Done(f)
	return err
}

func (l *library) destroyGraph(g driver.Graph) error {
	known := l.graph(g)
	l.graphs.mu.Lock()
	delete(l.graphs.all, g)
	l.graphs.mu.Unlock()
	err := l.Call1(&l.api.cuGraphExecDestroy, known.executable)
	if e := l.Call1(&l.api.cuGraphDestroy, known.description); err == nil {
		err = e
	}
	return err
}
