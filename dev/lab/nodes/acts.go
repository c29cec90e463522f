//go:build linux

package nodes

import (
	"fmt"
	"strconv"
)

// Import imports the images of an archive on the node.
func (n *Node) Import(archive string) error {
	pid, err := n.pid()
	if err != nil {
		return err
	}
	return command("nsenter", "--mount", "--target", strconv.Itoa(pid), "--",
		"ctr", "--namespace", "k8s.io", "images", "import", "--snapshotter", n.spec.Snapshotter, archive)
}

// Cut cuts the network between two nodes, and their pods, in both directions. Packets are dropped, not rejected.
func (n *Node) Cut(other *Node) error { return n.line(other, "--insert") }

// Heal undoes Cut.
func (n *Node) Heal(other *Node) error { return n.line(other, "--delete") }

func (n *Node) line(other *Node, action string) error {
	for _, end := range []struct{ node, from *Node }{{n, other}, {other, n}} {
		pid, err := end.node.pid()
		if err != nil {
			return err
		}
		if err := within(pid, "iptables", deafness(action, end.from.Address)...); err != nil {
			return fmt.Errorf("changing the network between %s and %s: %w", n.Name, other.Name, err)
		}
	}
	return nil
}
