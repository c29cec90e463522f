package server

import (
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
)

// address is the address of all machines and endpoints.
const address = "127.0.0.1"

// observed is everything that decides about a machine.
type observed struct {
	spec   machine.Spec
	record machine.Record
	// alive reports whether the machine's process ran before the record was read. If it did not, the record is final.
	alive bool
	// deleting reports whether deletion has begun.
	deleting bool
	// problem says why the machine could not be started.
	problem string
	// broken says why the machine's files cannot be read.
	broken string
}

// statusOf returns the status that users see.
func statusOf(o observed) host.Status {
	record := o.record
	if record.Phase == machine.Bootstrapping && !o.alive {
		record = machine.Interrupted(record)
	}
	status := host.Status{ID: o.spec.ID, Address: address, Port: o.spec.Port, ExtraPorts: o.spec.ExtraPorts,
		Command: record.Command, Line: record.Line, Cause: record.Cause, Output: record.Output}
	switch record.Phase {
	case machine.NotStarted:
		status.State, status.Cause = host.Pending, o.problem
	case machine.Bootstrapping:
		status.State, status.Services = host.Bootstrapping, record.Services
	case machine.Failed:
		status.State = host.Failed
	case machine.Bootstrapped:
		status.State, status.Bootstrapped, status.Services = host.Running, true, record.Services
		if !o.alive {
			status.State, status.Services, status.Cause = host.Stopped, nil, "the machine's process has ended and is restarted"
			if o.problem != "" {
				status.Cause = o.problem
			}
		}
	}
	if o.broken != "" {
		status.State, status.Cause = host.Failed, "the machine's files cannot be read: "+o.broken
	}
	if o.deleting {
		status.State, status.Cause = host.Stopped, "the machine is being deleted"
	}
	return status
}

// action is what the host has to do for a machine.
type action string

const (
	nothing action = ""
	start   action = "start"
)

// decide returns what the host has to do for a machine. A machine that ended while it was bootstrapping never starts
// again.
func decide(o observed) action {
	switch {
	case o.deleting, o.alive, o.broken != "":
		return nothing
	case o.record.Phase == machine.NotStarted, o.record.Phase == machine.Bootstrapped:
		return start
	default:
		return nothing
	}
}
