//go:build linux

// Package control is how the command lab talks to the process that holds a lab: HTTP over a Unix socket in the
// lab's folder, which only its user can open.
//
//	lab restart east ─► POST /nodes/east/restart ─► nodes.Lab
package control

import (
	"errors"
	"path/filepath"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// Status is what is to be known of a lab.
type Status struct {
	// Logs is the folder of all logs.
	Logs string `json:"logs"`
	// Seconds it took to start.
	Seconds float64 `json:"secondsToStart"`
	// Nodes in the order in which they were named.
	Nodes []NodeStatus `json:"nodes"`
}

// NodeStatus is what is to be known of a node.
type NodeStatus struct {
	Name       string `json:"name"`
	Up         bool   `json:"up"`
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	Logs       string `json:"logs"`
}

// ErrNone means that no lab runs.
var ErrNone = errors.New("no lab is up: start one with make lab-up")

// socketIn is the socket in a lab's folder.
func socketIn(dir string) string { return filepath.Join(dir, "control.sock") }

// StatusOf says how a lab is.
func StatusOf(lab *nodes.Lab, seconds float64) Status {
	status := Status{Logs: lab.LogDir, Seconds: seconds}
	for _, n := range lab.Nodes {
		status.Nodes = append(status.Nodes, NodeStatus{Name: n.Name, Up: n.Up(), URL: n.URL, Kubeconfig: n.KubeconfigPath, Logs: n.LogDir})
	}
	return status
}
