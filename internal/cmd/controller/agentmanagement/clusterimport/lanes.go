package clusterimport

import (
	"context"
	"time"
)

// Bounds of the work downstream. Clusters that are not there, or slow, must not hold up the others: whether a cluster
// answers is asked of many at once, for that costs little; only those that do are worked on, and slow ones and
// those that did not answer the last time share a part of the slots for that.
const (
	// parallel is how many clusters are worked on at once, patient how many of them may be slow.
	parallel, patient = 20, 10
	// asking is how many clusters are asked at once whether they are there, askingAgain how many of them may
	// be ones that did not answer the last time.
	asking, askingAgain = 1000, 500
	// absentAtOnce is how many new clusters that are not there are given at once what every Cluster has on the hub.
	absentAtOnce = 4
	// firstConnect and laterConnect are how long a cluster may take to take a connection the first time, and when it
	// is asked again. What it takes to answer is another matter, see kube.Reach.
	firstConnect, laterConnect = 5 * time.Second, 15 * time.Second
	// slowAnswer is how long a cluster that is not slow takes at most until it answers.
	slowAnswer = 2 * time.Second
)

// lane is a number of slots.
type lane chan struct{}

// lanes are the slots for all clusters.
type lanes struct{ parallel, patient, asking, askingAgain, absent lane }

func newLanes() lanes {
	return lanes{
		parallel: make(lane, parallel), patient: make(lane, patient),
		asking: make(lane, asking), askingAgain: make(lane, askingAgain), absent: make(lane, absentAtOnce),
	}
}

// ask is the way to a cluster that is asked whether it is there.
func (l lanes) ask(again bool) []lane {
	if again {
		return []lane{l.askingAgain, l.asking}
	}
	return []lane{l.asking}
}

// work is the way to a cluster that is worked on.
func (l lanes) work(slow bool) []lane {
	if slow {
		return []lane{l.patient, l.parallel}
	}
	return []lane{l.parallel}
}

// enter waits for a slot in each lane, in this order: the narrow one first, so that nobody waits for it in a wide
// one. Whoever got in must leave.
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

// ask waits for its turn to ask whether a cluster is there, and says how long it took to answer. One that did not answer
// the last time is given more time; for one that does not answer now the error is that of app.Reach.
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

// approach waits until it is a cluster's turn to be worked on. One that is not there never gets a turn. What can wait
// gives way. Without a kubeconfig there is nobody to be asked.
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
