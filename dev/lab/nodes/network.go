//go:build linux

package nodes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// devices has an entry for each network device of this machine.
const devices = "/sys/class/net"

// ip runs the iproute2 command.
func ip(args ...string) error { return command("ip", args...) }

// command runs a short command. The error contains the command's output.
func command(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// makeBridge creates the network between this machine and the nodes.
func (p *place) makeBridge() error {
	for _, args := range [][]string{
		{"link", "add", p.bridge(), "type", "bridge"},
		{"address", "add", p.gateway() + "/24", "dev", p.bridge()},
		{"link", "set", p.bridge(), "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

// plug connects a node with the bridge. pid is the node's first process. The device is removed when the node
// ends.
func (p *place) plug(node string, pid int) error {
	if err := ip("link", "add", p.cable(node), "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)); err != nil {
		return err
	}
	return ip("link", "set", p.cable(node), "master", p.bridge(), "up")
}

// unplug removes the network device of a node that has ended. The kernel would remove it too, but only later.
func (p *place) unplug(node string) error {
	if err := ip("link", "delete", p.cable(node)); err != nil && exists(filepath.Join(devices, p.cable(node))) {
		return err
	}
	return nil
}

// within runs a command in a node's network namespace.
func within(pid int, name string, args ...string) error {
	return command("nsenter", append([]string{"--net", "--target", strconv.Itoa(pid), "--", name}, args...)...)
}

// deafness returns the arguments of the iptables rule that drops all packets from an address, also those to pods,
// before other rules see them. With the rule on two nodes, the network between them is cut silently, as by a
// broken cable.
func deafness(action, address string) []string {
	return []string{"--wait", "--table", "raw", action, "PREROUTING", "--source", address, "--jump", "DROP"}
}
