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
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// restarted are the figures of a controller that was replaced, as in a rollout.
type restarted struct {
	// Leading is the time from the end of the old pod until the new one holds the lease, CaughtUp until the new
	// one has no more work.
	Leading  float64 `json:"secondsUntilLeading"`
	CaughtUp float64 `json:"secondsUntilCaughtUp"`
	// Writes is the number of the controller's writes without its lease: the hub document is signed again. Reads is the
	// number of its other requests.
	Writes int           `json:"writes"`
	Reads  int           `json:"reads"`
	Rows   []figures.Row `json:"rows"`
	// CPUSeconds is the processor time until there are no more writes.
	CPUSeconds float64         `json:"cpuSeconds"`
	Controller usage.Footprint `json:"controllerMemory"`
}

const (
	// controllerLease is the lease of the leading controller.
	controllerLease = names.ControllerLease
	// A process is idle when it has used at most the share calm of one processor for calmFor.
	calmFor = 2 * time.Second
	calm    = 0.02
	// choresDue is how long after everything else delayed writes may follow: counts of Contents and owners of
	// Secrets. If a process ends before, the next one writes them.
	choresDue = 7 * time.Second
)

// restart deletes the controller's pod and measures its successor.
func (b *bench) restart(ctx context.Context) (restarted, error) {
	b.Say("the controller is restarted")
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	before, err := b.Controller(ctx)
	if err != nil {
		return restarted{}, err
	}
	_, err = b.Count(ctx, func(lastWrite time.Time) bool { return b.Clock().Sub(lastWrite) >= max(b.quiet, choresDue) })
	if err != nil {
		return restarted{}, err
	}
	began := b.Clock()
	if err := b.World.Hub.Kube.CoreV1().Pods(names.SystemNamespace).Delete(ctx, before.Pod, metav1.DeleteOptions{}); err != nil {
		return restarted{}, fmt.Errorf("deleting the controller's pod: %w", err)
	}
	after, err := b.successor(ctx, before)
	if err != nil {
		return restarted{}, err
	}
	if err := b.leads(ctx, after.Pod); err != nil {
		return restarted{}, err
	}
	r := restarted{Leading: figures.Seconds(b.Clock().Sub(began))}
	caughtUp, err := b.calms(ctx, after.PID)
	if err != nil {
		return restarted{}, err
	}
	r.CaughtUp = figures.Seconds(caughtUp.Sub(began))
	counts, err := b.UntilQuiet(ctx)
	if err != nil {
		return restarted{}, err
	}
	r.count(counts)
	used, err := usage.ProcessorTime(after.PID)
	if err != nil {
		return restarted{}, err
	}
	r.CPUSeconds = figures.Seconds(used)
	r.Controller, err = usage.Of(after.PID)
	return r, err
}

// count sets the figures of the controller's requests.
func (r *restarted) count(counts audit.Counts) {
	own := counts.Only(func(k audit.Kind) bool { return k.Identity == audit.Controller && !k.IsLease() })
	r.Rows = figures.CostsOf(own, 1).Rows
	r.Writes = own.Only(audit.Kind.IsWrite).Total().Requests
	r.Reads = own.Total().Requests - r.Writes
}

// successor waits for the process that replaces another one.
func (b *bench) successor(ctx context.Context, before hub.Process) (after hub.Process, err error) {
	err = hub.Every(ctx, 20*time.Millisecond, func() (bool, error) {
		after, err = b.Controller(ctx)
		if errors.Is(err, hub.ErrNoController) {
			return false, nil
		}
		return err == nil && after.PID != before.PID, err
	})
	return after, err
}

// leads waits until a pod holds the controller's lease.
func (b *bench) leads(ctx context.Context, pod string) error {
	_, err := client.Until(ctx, client.Await{
		From: b.World.Hub.Kube.CoordinationV1().RESTClient(), Resource: "leases", Namespace: names.SystemNamespace, Name: controllerLease,
		For: "pod " + pod + " to hold the lease",
	}, func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && strings.HasPrefix(*l.Spec.HolderIdentity, pod)
	})
	return err
}

// calms waits until a process is idle, and returns since when.
func (b *bench) calms(ctx context.Context, pid int) (since time.Time, err error) {
	since = b.Clock()
	at, err := usage.ProcessorTime(pid)
	if err != nil {
		return since, err
	}
	err = hub.Every(ctx, 250*time.Millisecond, func() (bool, error) {
		now, err := usage.ProcessorTime(pid)
		if err != nil {
			return false, err
		}
		if now-at > time.Duration(float64(calmFor)*calm) {
			since, at = b.Clock(), now
		}
		return b.Clock().Sub(since) >= calmFor, nil
	})
	return since, err
}
