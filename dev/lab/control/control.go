//go:build linux

// Package control connects the command lab with the process that runs a lab: HTTP over a Unix socket in the lab's
// directory. Only the socket's owner can open it.
//
//	lab restart east ─► POST /nodes/east/restart ─► nodes.Lab
package control

import (
	"errors"
	"path/filepath"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// Status describes a lab.
type Status struct {
	// Logs is the directory of all logs.
	Logs string `json:"logs"`
	// Seconds is the time the lab took to start.
	Seconds float64 `json:"secondsToStart"`
	// Nodes are in the order in which the user named them.
	Nodes []NodeStatus `json:"nodes"`
}

// NodeStatus describes a node.
type NodeStatus struct {
	Name       string `json:"name"`
	Up         bool   `json:"up"`
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	Logs       string `json:"logs"`
}

// ErrNone means that no lab is running.
var ErrNone = errors.New("no lab is running: start one with make lab-up")

// socketIn returns the path of the control socket in a lab's directory.
func socketIn(dir string) string { return filepath.Join(dir, "control.sock") }

// StatusOf returns the status of a lab.
func StatusOf(lab *nodes.Lab, seconds float64) Status {
	status := Status{Logs: lab.LogDir, Seconds: seconds}
	for _, n := range lab.Nodes {
		status.Nodes = append(status.Nodes, NodeStatus{Name: n.Name, Up: n.Up(), URL: n.URL, Kubeconfig: n.KubeconfigPath, Logs: n.LogDir})
	}
	return status
}
