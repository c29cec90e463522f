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

// ip is the command of iproute2.
func ip(args ...string) error { return command("ip", args...) }

// command runs a short command and tells what it said, should it fail.
func command(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// makeBridge makes the network that joins this machine and the nodes.
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

// plug connects a node, known by its first process, with the bridge. The cable ends with the node.
func (p *place) plug(node string, pid int) error {
	if err := ip("link", "add", p.cable(node), "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)); err != nil {
		return err
	}
	return ip("link", "set", p.cable(node), "master", p.bridge(), "up")
}

// unplug removes the cable of a node that has ended: it would go by itself, but in the kernel's own time.
func (p *place) unplug(node string) error {
	if err := ip("link", "delete", p.cable(node)); err != nil && exists(filepath.Join(devices, p.cable(node))) {
		return err
	}
	return nil
}

// within runs a command in a node's network.
func within(pid int, name string, args ...string) error {
	return command("nsenter", append([]string{"--net", "--target", strconv.Itoa(pid), "--", name}, args...)...)
}

// deafness is the rule that makes a node drop all that comes from an address, pods' traffic included, before
// anything else sees it. Two nodes deaf to each other are cut off in both directions, silently, as by a broken line.
func deafness(action, address string) []string {
	return []string{"--wait", "--table", "raw", action, "PREROUTING", "--source", address, "--jump", "DROP"}
}
