package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
)

func TestMachine_HasAStatusAndAnAction(t *testing.T) {
	spec := machine.Spec{ID: "one", Endpoint: "end", Port: 23000, ExtraPorts: []int{23001}}
	services := []host.Service{{Name: "etcd", PID: 7}}
	base := host.Status{ID: "one", Address: "127.0.0.1", Port: 23000, ExtraPorts: []int{23001}}
	with := func(change func(*host.Status)) host.Status {
		s := base
		change(&s)
		return s
	}
	tests := map[string]struct {
		observed observed
		want     host.Status
		action   action
	}{
		"folder was just created: start": {
			observed{spec: spec},
			with(func(s *host.Status) { s.State = host.Pending }), start,
		},
		"port is in use: start again later, with the cause": {
			observed{spec: spec, problem: "port in use"},
			with(func(s *host.Status) { s.State, s.Cause = host.Pending, "port in use" }), start,
		},
		"process has not written a record: wait": {
			observed{spec: spec, alive: true},
			with(func(s *host.Status) { s.State = host.Pending }), nothing,
		},
		"bootstrapping: wait": {
			observed{spec: spec, alive: true, record: machine.Record{Phase: machine.Bootstrapping, Command: 2, Line: 9, Services: services}},
			with(func(s *host.Status) { s.State, s.Command, s.Line, s.Services = host.Bootstrapping, 2, 9, services }), nothing,
		},
		"process ended during a command: failed, never started again": {
			observed{spec: spec, record: machine.Record{Phase: machine.Bootstrapping, Command: 2, Line: 9, Services: services}},
			with(func(s *host.Status) {
				s.State, s.Command, s.Line, s.Cause = host.Failed, 2, 9, "the machine ended while command 2 (line 9) ran"
			}), nothing,
		},
		"process ended before the first command: failed, never started again": {
			observed{spec: spec, record: machine.Record{Phase: machine.Bootstrapping}},
			with(func(s *host.Status) { s.State, s.Cause = host.Failed, "the machine ended before the first command ran" }), nothing,
		},
		"command failed: nothing": {
			observed{spec: spec, record: machine.Record{Phase: machine.Failed, Command: 3, Line: 12, Cause: "command 3", Output: "no"}},
			with(func(s *host.Status) {
				s.State, s.Command, s.Line, s.Cause, s.Output = host.Failed, 3, 12, "command 3", "no"
			}), nothing,
		},
		"bootstrapped and alive: running": {
			observed{spec: spec, alive: true, record: machine.Record{Phase: machine.Bootstrapped, Services: services}},
			with(func(s *host.Status) { s.State, s.Bootstrapped, s.Services = host.Running, true, services }), nothing,
		},
		"bootstrapped and not alive: start again": {
			observed{spec: spec, record: machine.Record{Phase: machine.Bootstrapped, Services: services}},
			with(func(s *host.Status) {
				s.State, s.Bootstrapped, s.Cause = host.Stopped, true, "the machine's process has ended and is restarted"
			}), start,
		},
		"bootstrapped and cannot start: start again later, with the cause": {
			observed{spec: spec, problem: "port in use", record: machine.Record{Phase: machine.Bootstrapped}},
			with(func(s *host.Status) { s.State, s.Bootstrapped, s.Cause = host.Stopped, true, "port in use" }), start,
		},
		"deletion has begun: do not start again": {
			observed{spec: spec, deleting: true, record: machine.Record{Phase: machine.Bootstrapped}},
			with(func(s *host.Status) {
				s.State, s.Bootstrapped, s.Cause = host.Stopped, true, "the machine is being deleted"
			}), nothing,
		},
		"files cannot be read: failed": {
			observed{spec: spec, broken: "not JSON"},
			with(func(s *host.Status) { s.State, s.Cause = host.Failed, "the machine's files cannot be read: not JSON" }), nothing,
		},
		"files cannot be read and deletion has begun: stopped": {
			observed{spec: spec, broken: "not JSON", deleting: true},
			with(func(s *host.Status) { s.State, s.Cause = host.Stopped, "the machine is being deleted" }), nothing,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.observed)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if got := decide(test.observed); got != test.action {
				t.Errorf("action %q, want %q", got, test.action)
			}
		})
	}
}
