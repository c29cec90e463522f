package clusterimport

import (
	"context"
	"time"
)

// Limits of the work downstream. Unreachable or slow clusters must not block the others. Probes are cheap, so many
// run in parallel. Only clusters that answer get a worker slot. Slow clusters, and those that did not answer the last
// time, share a part of these slots.
const (
	// parallel is the number of clusters that are worked on at once. At most patient of them may be slow.
	parallel, patient = 20, 10
	// asking is the number of probes at once. At most askingAgain of them may be of clusters that did not answer the
	// last time.
	asking, askingAgain = 1000, 500
	// absentAtOnce is the number of new, unreachable clusters whose objects on the hub are created at once.
	absentAtOnce = 4
	// firstConnect and laterConnect are the time limits for a connection at the first probe and at later ones. The
	// time limit for an answer is another one: see kube.Reach.
	firstConnect, laterConnect = 5 * time.Second, 15 * time.Second
	// slowAnswer is the response time from which a cluster counts as slow.
	slowAnswer = 2 * time.Second
)

// lane is a semaphore: its capacity is the number of slots.
type lane chan struct{}

// lanes are the semaphores that all clusters share.
type lanes struct{ parallel, patient, asking, askingAgain, absent lane }

func newLanes() lanes {
	return lanes{
		parallel: make(lane, parallel), patient: make(lane, patient),
		asking: make(lane, asking), askingAgain: make(lane, askingAgain), absent: make(lane, absentAtOnce),
	}
}

// ask returns the semaphores for a probe.
func (l lanes) ask(again bool) []lane {
	if again {
		return []lane{l.askingAgain, l.asking}
	}
	return []lane{l.asking}
}

// work returns the semaphores for work on a cluster.
func (l lanes) work(slow bool) []lane {
	if slow {
		return []lane{l.patient, l.parallel}
	}
	return []lane{l.parallel}
}

// enter acquires a slot of each semaphore in this order: the smaller one first, so that no caller waits for it while
// it holds a slot of the larger one. The caller must call leave.
func enter(ctx context.Context, way []lane) (leave func(), err error) {
	entered := 0
	leave = func() {
		for _, l := range way[:entered] {
			<-l
		}
	}
	for _, l := range way {
		select {
		case l <- struct{}{}:
			entered++
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

// ask waits for a slot, probes the cluster, and returns the response time. A cluster that did not answer the last
// time gets more time. If it does not answer, the error is that of app.Reach.
func (h *handler) ask(ctx context.Context, key string, kubeconfig []byte) (took time.Duration, err error) {
	again, connect := h.jobs.dead(key), firstConnect
	if again {
		connect = laterConnect
	}
	leave, err := enter(ctx, h.lanes.ask(again))
	if err != nil {
		return 0, err
	}
	defer leave()
	asked := h.app.Clock()
	err = h.app.Reach(ctx, kubeconfig, connect, h.isLocal(key))
	return h.app.Clock().Sub(asked), err
}

// approach waits for a slot to work on a cluster. It probes the cluster first: an unreachable one gets no slot. Work
// that can wait uses the slots for slow clusters. Without a kubeconfig there is nothing to probe.
func (h *handler) approach(ctx context.Context, key string, kubeconfig []byte, canWait bool) (leave func(), err error) {
	if kubeconfig == nil {
		return func() {}, nil
	}
	again := h.jobs.dead(key)
	took, err := h.ask(ctx, key, kubeconfig)
	if err != nil {
		return nil, err
	}
	return enter(ctx, h.lanes.work(canWait || again || took > slowAnswer))
}
