//go:build linux

// Package inside is a node from inside: the first process in the node's own network, mount and PID namespaces,
// which makes them a machine and runs Kubernetes on it.
//
//	mounts ─► network ─► etcd, kube-apiserver, containerd ─► images ─► controller-manager, scheduler, kubelet, kube-proxy
//
// It ends when one of these ends: a node is whole or it is off.
package inside

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Spec says what the node is. It is a file, so that a node can be started again from its data.
type Spec struct {
	// Name is the node's, and its host's.
	Name string `json:"name"`
	// Address is the node's with the length of the prefix, 10.99.0.2/24; Gateway is where all else is.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
	// Dir holds the node's data, and its keys (package pki). It lasts over restarts.
	Dir string `json:"dir"`
	// LogDir gets a log of each component.
	LogDir string `json:"logDir"`
	// Programs is the folder of Kubernetes' executables, Plugins that of the CNI plugins.
	Programs string `json:"programs"`
	Plugins  string `json:"plugins"`
	// CgroupRoot is the node's own cgroup, below all hierarchies: /name.
	CgroupRoot string `json:"cgroupRoot"`
	// Snapshotter is how containerd lays images over one another.
	Snapshotter string `json:"snapshotter"`
	// Pause is the name of the image that holds a pod's namespaces.
	Pause string `json:"pause"`
	// Archives are image files to have on the node before the first pod.
	Archives []string `json:"archives"`
}

// fileSpec is the spec's name in its Dir.
const fileSpec = "node.json"

// Save writes the spec to its folder, and says where.
func (s Spec) Save() (string, error) {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing down node %s: %w", s.Name, err)
	}
	file := filepath.Join(s.Dir, fileSpec)
	if err := os.WriteFile(file, append(content, '\n'), 0o600); err != nil {
		return "", fmt.Errorf("writing down node %s: %w", s.Name, err)
	}
	return file, nil
}

// Load reads a spec.
func Load(file string) (Spec, error) {
	var s Spec
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("reading what the node is: %w", err)
	}
	return s, nil
}

// in is a path in the node's folder.
func (s Spec) in(parts ...string) string { return filepath.Join(append([]string{s.Dir}, parts...)...) }
