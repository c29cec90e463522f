//go:build linux

// Package inside runs a node. It is the first process in the node's network, mount and PID namespaces. It sets
// the namespaces up as a machine and runs Kubernetes in them.
//
//	mounts ─► network ─► etcd, kube-apiserver, containerd ─► images ─► controller-manager, scheduler, kubelet, kube-proxy
//
// When one component ends, the node ends: a node never runs partly.
package inside

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Spec describes a node. It is stored in a file, so that the node can be restarted with its data.
type Spec struct {
	// Name is the name of the node and of its host.
	Name string `json:"name"`
	// Address is the node's address with the prefix length, for example 10.99.0.2/24. Gateway is the default
	// route.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
	// Dir holds the node's data and keys (package pki). It is kept across restarts.
	Dir string `json:"dir"`
	// LogDir gets one log per component.
	LogDir string `json:"logDir"`
	// Programs is the directory of the Kubernetes executables, Plugins that of the CNI plugins.
	Programs string `json:"programs"`
	Plugins  string `json:"plugins"`
	// CgroupRoot is the path of the node's own cgroup in every hierarchy: /name.
	CgroupRoot string `json:"cgroupRoot"`
	// Snapshotter is containerd's snapshotter for image layers.
	Snapshotter string `json:"snapshotter"`
	// Pause is the name of the image that holds a pod's namespaces.
	Pause string `json:"pause"`
	// Archives are image archives to import before the first pod starts.
	Archives []string `json:"archives"`
}

// fileSpec is the name of the spec's file in Dir.
const fileSpec = "node.json"

// Save writes the spec to Dir and returns the file's path.
func (s Spec) Save() (string, error) {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("saving the spec of node %s: %w", s.Name, err)
	}
	file := filepath.Join(s.Dir, fileSpec)
	if err := os.WriteFile(file, append(content, '\n'), 0o600); err != nil {
		return "", fmt.Errorf("saving the spec of node %s: %w", s.Name, err)
	}
	return file, nil
}

// Load reads a spec from a file.
func Load(file string) (Spec, error) {
	var s Spec
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("reading the node's spec: %w", err)
	}
	return s, nil
}

// in returns a path in the node's directory.
func (s Spec) in(parts ...string) string { return filepath.Join(append([]string{s.Dir}, parts...)...) }
