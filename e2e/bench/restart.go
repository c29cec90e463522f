package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// restarted are the figures of a controller that was replaced, as a rollout does it.
type restarted struct {
	// Leading is from the end of the old pod to the lease of the new one, CaughtUp to the time when it has nothing
	// to do any more.
	Leading  float64 `json:"secondsUntilLeading"`
	CaughtUp float64 `json:"secondsUntilCaughtUp"`
	// Writes are those of the controller beside its lease, Reads all else it asked for.
	Writes int   `json:"writes"`
	Reads  int   `json:"reads"`
	Rows   []row `json:"rows"`
	// CPUSeconds is processor time until it was quiet.
	CPUSeconds float64   `json:"cpuSeconds"`
	Controller footprint `json:"controllerMemory"`
}

const (
	// controllerLease is held by the controller that leads.
	controllerLease = names.ControllerLease
	// calmFor is how long a process that has caught up has next to nothing to do, and calm how much that may be of one
	// processor.
	calmFor = 2 * time.Second
	calm    = 0.02
	// choresDue is how long after everything else something may be written that nobody waits for: counts of Contents and
	// owners of Secrets. What one process leaves undone, the next one does.
	choresDue = 7 * time.Second
)

// restart deletes the controller's pod and sees what its successor does.
func (b *bench) restart(ctx context.Context) (restarted, error) {
	b.say("the controller is restarted")
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	before, err := b.controller(ctx)
	if err != nil {
		return restarted{}, err
	}
	_, err = b.count(ctx, func(lastWrite time.Time) bool { return b.clock().Sub(lastWrite) >= max(b.quiet, choresDue) })
	if err != nil {
		return restarted{}, err
	}
	began := b.clock()
	if err := b.world.Hub.Kube.CoreV1().Pods(names.SystemNamespace).Delete(ctx, before.pod, metav1.DeleteOptions{}); err != nil {
		return restarted{}, fmt.Errorf("deleting the controller's pod: %w", err)
	}
	after, err := b.successor(ctx, before)
	if err != nil {
		return restarted{}, err
	}
	if err := b.leads(ctx, after.pod); err != nil {
		return restarted{}, err
	}
	r := restarted{Leading: seconds(b.clock().Sub(began))}
	caughtUp, err := b.calms(ctx, after.pid)
	if err != nil {
		return restarted{}, err
	}
	r.CaughtUp = seconds(caughtUp.Sub(began))
	counts, err := b.untilQuiet(ctx)
	if err != nil {
		return restarted{}, err
	}
	r.count(counts)
	used, err := processorTime(after.pid)
	if err != nil {
		return restarted{}, err
	}
	r.CPUSeconds = seconds(used)
	r.Controller, err = footprintOf(after.pid)
	return r, err
}

// count takes over what the controller asked for.
func (r *restarted) count(counts audit.Counts) {
	own := counts.Only(func(k audit.Kind) bool { return k.Identity == audit.Controller && !k.IsLease() })
	r.Rows = costsOf(own, 1).Rows
	r.Writes = own.Only(audit.Kind.IsWrite).Total().Requests
	r.Reads = own.Total().Requests - r.Writes
}

// successor waits for the process that comes after another one.
func (b *bench) successor(ctx context.Context, before process) (after process, err error) {
	err = b.every(ctx, 20*time.Millisecond, func() (bool, error) {
		after, err = b.controller(ctx)
		if errors.Is(err, errNoController) {
			return false, nil
		}
		return err == nil && after.pid != before.pid, err
	})
	return after, err
}

// leads waits until a pod holds the controller's lease.
func (b *bench) leads(ctx context.Context, pod string) error {
	_, err := client.Until(ctx, client.Await{
		From: b.world.Hub.Kube.CoordinationV1().RESTClient(), Resource: "leases", Namespace: names.SystemNamespace, Name: controllerLease,
		For: "pod " + pod + " to lead",
	}, func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && strings.HasPrefix(*l.Spec.HolderIdentity, pod)
	})
	return err
}

// calms waits until a process has next to nothing to do, and returns since when.
func (b *bench) calms(ctx context.Context, pid int) (since time.Time, err error) {
	since = b.clock()
	at, err := processorTime(pid)
	if err != nil {
		return since, err
	}
	err = b.every(ctx, 250*time.Millisecond, func() (bool, error) {
		now, err := processorTime(pid)
		if err != nil {
			return false, err
		}
		if now-at > time.Duration(float64(calmFor)*calm) {
			since, at = b.clock(), now
		}
		return b.clock().Sub(since) >= calmFor, nil
	})
	return since, err
}

// every asks until the answer is yes or an error.
func (b *bench) every(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
