package host

import (
	"errors"
	"fmt"
	"regexp"
)

// Limits of a machine host.
const (
	// MaxMachines and MaxEndpoints limit what exists at once.
	MaxMachines  = 256
	MaxEndpoints = 256
	// MaxExtraPorts limits Machine.ExtraPorts.
	MaxExtraPorts = 8
	// MaxBootstrapData limits Machine.BootstrapData in bytes.
	MaxBootstrapData = 1 << 20
	// MaxLog limits the answer of Client.Log in bytes.
	MaxLog = 256 << 10
)

// Machine describes the wanted machine. It cannot change.
type Machine struct {
	// Endpoint is the ID of a reserved endpoint, whose port becomes the machine's port. At most one machine has an
	// endpoint. If Endpoint is empty, the host chooses a free port.
	Endpoint string `json:"endpoint,omitempty"`
	// ExtraPorts is the number of ports that the machine needs beside its port. They are free when the machine is
	// created and differ between machines, but they are not held, for programs that cannot share a port (kubelet).
	ExtraPorts int `json:"extraPorts,omitempty"`
	// BootstrapData is a text for package cloudconfig. An invalid text makes the machine Failed.
	BootstrapData []byte `json:"bootstrapData"`
}

// State is the state of a machine.
type State string

// The states of a machine.
const (
	// Pending means that the machine has not started. Status.Cause says what it waits for.
	Pending State = "Pending"
	// Bootstrapping means that the bootstrap data is being executed.
	Bootstrapping State = "Bootstrapping"
	// Running means that bootstrapping succeeded and the machine runs.
	Running State = "Running"
	// Failed means that bootstrapping failed, or that the host cannot read the machine's files. No process of the machine
	// runs. The state is final.
	Failed State = "Failed"
	// Stopped means that bootstrapping succeeded, but the machine does not run: it restarts, or is being deleted.
	Stopped State = "Stopped"
)

// Status describes a machine that exists.
type Status struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Address is 127.0.0.1.
	Address string `json:"address"`
	// Port is held for the machine until it is deleted. Commands find it in MACHINE_PORT. A program that listens on it
	// has to set SO_REUSEPORT (kube-apiserver: --permit-port-sharing).
	Port int `json:"port"`
	// ExtraPorts are further ports of the machine: MACHINE_PORT_1, MACHINE_PORT_2, …
	ExtraPorts []int `json:"extraPorts,omitempty"`
	// Bootstrapped reports whether bootstrapping succeeded: all commands ended with exit code 0, and the machine's
	// folder contains run/cluster-api/bootstrap-success.complete.
	Bootstrapped bool `json:"bootstrapped"`
	// Cause says why the machine is not Running. It contains no bootstrap data and no output of commands.
	Cause string `json:"cause,omitempty"`
	// Command is the number of the current or failed command, from 1 on. Line is its line in the bootstrap data, or
	// the line of an error in it. Without one, they are 0.
	Command int `json:"command,omitempty"`
	Line    int `json:"line,omitempty"`
	// Output is the end of the failed command's output.
	Output string `json:"output,omitempty"`
	// Services are the services that the bootstrap data has started.
	Services []Service `json:"services,omitempty"`
}

// Service describes a process that the machine restarts when it ends.
type Service struct {
	Name string `json:"name"`
	// PID is the process ID, or 0 if the process does not run at the moment.
	PID int `json:"pid,omitempty"`
	// Restarts counts how often the service has ended. LastEnd describes the last time: "exit status 1".
	Restarts int    `json:"restarts,omitempty"`
	LastEnd  string `json:"lastEnd,omitempty"`
}

// Endpoint is a reserved address for a cluster's API server.
type Endpoint struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	Port int    `json:"port"`
	// Machine is the ID of the machine that has the endpoint, or empty.
	Machine string `json:"machine,omitempty"`
}

// Errors of requests. Errors of a Client wrap them.
var (
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the ID exists with other wishes, or that the endpoint belongs to another machine.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that the request is invalid. Repeating it does not help.
	ErrInvalid = errors.New("invalid request")
	// ErrFull means that a limit is reached or no port is free. Delete something first.
	ErrFull = errors.New("the machine host is full")
	// ErrPortInUse means that another process uses a reserved port.
	ErrPortInUse = errors.New("port in use")
	// ErrUnavailable means that no machine host answers at the socket. Repeat the request later.
	ErrUnavailable = errors.New("the machine host does not answer")
)

// id allows names of objects and UIDs. It excludes every text with a meaning in paths.
var id = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?$`)

// CheckID returns an error that wraps ErrInvalid if the text cannot be the ID of a machine or an endpoint. IDs have up
// to 128 lower case letters, digits, hyphens and dots, and start and end with a letter or digit.
func CheckID(text string) error {
	if !id.MatchString(text) {
		return fmt.Errorf("%w: ID %.140q: use up to 128 lower case letters, digits, hyphens and dots, with a letter or digit at both ends", ErrInvalid, text)
	}
	return nil
}
