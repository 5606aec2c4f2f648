package train

import "slices"

// node is a place in the tree of leaves: that of a height has 2^height leaves, from place*2^height on, or
// as many as there are.
type node struct{ height, place int }

// tree is the adjacent binary tree over the leaves of a step, as sums that grow together. It holds those that wait
// for their neighbours.
type tree struct {
	leaves int
	nodes  []node
}

// push takes a sum, whose leaves come behind all others. As long as the last two are neighbours, it calls add, which adds
// the sum number at+1 to number at.
func (t *tree) push(n node, add func(at int) error) error {
	t.nodes = append(t.nodes, n)
	for {
		last := len(t.nodes) - 1
		top := &t.nodes[last]
		switch {
		case top.place > 0 && top.place&1 == 0 && (top.place+1)<<top.height >= t.leaves: // its neighbour has no leaves
			*top = node{top.height + 1, top.place / 2}
		case last > 0 && top.place&1 == 1 && t.nodes[last-1] == (node{top.height, top.place - 1}):
			if err := add(last - 1); err != nil {
				return err
			}
			t.nodes = t.nodes[:last]
			t.nodes[last-1] = node{top.height + 1, top.place / 2}
		default:
			return nil
		}
	}
}

// sumsOf returns the sums to which some leaves of all grow together, and how many sums wait at most.
func sumsOf(leaves int, some []int) (nodes []node, most int) {
	t := tree{leaves: leaves}
	for _, leaf := range some {
		most = max(most, len(t.nodes)+1)
		t.push(node{0, leaf}, func(int) error { return nil })
	}
	return t.nodes, most
}

// ofRank is a sum of a rank, by its number there.
type ofRank struct {
	node
	rank, at int
}

// inOrder lists the sums of all ranks in the order of their leaves.
func inOrder(nodes [][]node) (list []ofRank) {
	for r, sums := range nodes {
		for i, n := range sums {
			list = append(list, ofRank{n, r, i})
		}
	}
	slices.SortFunc(list, func(a, b ofRank) int { return a.place<<a.height - b.place<<b.height })
	return list
}
