package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// errNoController means that no pod of the controller has a process.
var errNoController = errors.New("the controller is not running")

// process is the controller's current process.
type process struct {
	pod string
	pid int
}

// controller returns the controller's only process that is not terminating.
func (b *bench) controller(ctx context.Context) (process, error) {
	pods, err := b.world.Hub.Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=fleet-controller"})
	if err != nil {
		return process{}, fmt.Errorf("finding the controller: %w", err)
	}
	for _, pod := range pods.Items {
		pids, err := b.world.PodPIDs(framework.HubName, pod.Namespace, pod.Name)
		if err != nil {
			return process{}, err
		}
		if pod.DeletionTimestamp == nil && len(pids) == 1 {
			return process{pod: pod.Name, pid: pids[0]}, nil
		}
	}
	return process{}, errNoController
}

// reading reads what the controller and the API server have used so far.
func (b *bench) reading(ctx context.Context) (growth.Reading, error) {
	here, err := b.controller(ctx)
	if err != nil {
		return growth.Reading{}, err
	}
	server := b.world.Plane.Hub.APIServerPID()
	m, err := newMeter(here.pid, server)
	if err != nil {
		return growth.Reading{}, err
	}
	controllerMemory, err := usage.MemoryOf(here.pid)
	if err != nil {
		return growth.Reading{}, err
	}
	serverMemory, err := usage.MemoryOf(server)
	if err != nil {
		return growth.Reading{}, err
	}
	now, err := machineSpeed(ctx)
	return growth.Reading{
		Controller: m.at[0], APIServer: m.at[1], ControllerResident: controllerMemory.Resident, APIServerResident: serverMemory.Resident,
		Speed: now,
	}, err
}

// meter measures the processor time of a step.
type meter struct {
	pid, self int
	at        [2]time.Duration
}

// used is the processor time of the controller, and of this process with all its agents, since the meter was
// started.
type used struct{ Controller, Simulator time.Duration }

func newMeter(controller, self int) (meter, error) {
	m := meter{pid: controller, self: self}
	now, err := m.read()
	m.at = now
	return m, err
}

func (m meter) read() (at [2]time.Duration, err error) {
	for i, pid := range []int{m.pid, m.self} {
		if at[i], err = usage.ProcessorTime(pid); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (m meter) used() (used, error) {
	now, err := m.read()
	return used{Controller: now[0] - m.at[0], Simulator: now[1] - m.at[1]}, err
}
