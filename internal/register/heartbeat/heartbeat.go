// Package heartbeat tells the hub that the agent lives.
//
//	at once, then every interval: PATCH clusters/<name>/status  add /status/agent {lastSeen, namespace, facts}
//
// The agent may do nothing else with its Cluster: not read it, not update it.
package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultInterval is the time between two heartbeats where none is configured.
const DefaultInterval = 15 * time.Minute

// The pauses after a heartbeat that did not arrive, doubling from the first to the last, each up to half longer or
// shorter by chance, so that those whom one outage has met do not come back together; and the time one request may
// take.
const (
	firstRetry     = time.Second
	lastRetry      = 30 * time.Second
	requestTimeout = 15 * time.Second
)

// newsPause is the least time between a heartbeat and one that comes early because the facts have changed: nodes that
// come and go are no reason to keep the hub busy.
const newsPause = 5 * time.Minute

// Options of Run.
type Options struct {
	// Hub reaches the hub as the agent.
	Hub *rest.Config
	// ClusterNamespace and ClusterName are the agent's Cluster.
	ClusterNamespace, ClusterName string
	// AgentNamespace is where the agent runs downstream; the hub is told.
	AgentNamespace string
	// Interval is the time between two heartbeats, each a tenth longer or shorter by chance. Zero or less:
	// DefaultInterval.
	Interval time.Duration
	// Facts are what is said of the cluster besides. Nil: nothing.
	Facts func() fleet.ClusterFacts
	// FactsChanged says that they may be others than before: then the next heartbeat comes early. Nil: it never does.
	FactsChanged <-chan struct{}
	// Pulse is shared by all runs of a process, so that no two heartbeats say the same second. Nil: this run
	// is the only one.
	Pulse *Pulse
	// Clock says what time it is. Required.
	Clock func() time.Time
	// Random is the chance in the intervals. Nil: they are all the same.
	Random io.Reader
	// Log is told what happens. Nil: nobody is told.
	Log *slog.Logger
	// OnBeat is called after each heartbeat with the time it says, and the error if the hub did not take it. Nil:
	// nobody is told.
	OnBeat func(at time.Time, err error)
	// OnFirst is called once, when the hub has accepted the first heartbeat. Nil: nobody is told.
	OnFirst func()
}

// Run sends heartbeats until ctx ends. What the hub says to them ends nothing: a heartbeat that fails is
// tried again. The error is of a configuration no client can be made from.
func Run(ctx context.Context, o Options) error {
	client, err := kube.FleetClient(o.Hub, nil)
	if err != nil {
		return fmt.Errorf("preparing the heartbeat: %w", err)
	}
	speaker := protocol.HeartbeatManager(o.Hub.BearerToken)
	return run(ctx, o.withDefaults(), func(ctx context.Context, body []byte) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		beat := client.Patch(types.JSONPatchType).Namespace(o.ClusterNamespace).Resource("clusters").
			Name(o.ClusterName).SubResource("status").Body(body).MaxRetries(0). // run tries again
			Param("fieldValidation", metav1.FieldValidationIgnore)              // a hub that knows no facts drops them
		if speaker != "" {
			beat.Param("fieldManager", speaker) // by which the hub knows which credential is the one in use
		}
		return beat.Do(ctx).Error()
	})
}

// run is Run with the one request as an argument.
func run(ctx context.Context, o Options, send func(context.Context, []byte) error) error {
	failed := 0
	told := false
	for {
		if !wait(ctx, o.Pulse.left(o.Clock())) {
			return nil
		}
		now := o.Clock()
		facts := o.Facts()
		body, err := patch(now, o.AgentNamespace, facts)
		if err != nil {
			return err
		}
		err = send(ctx, body)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it broke off because the agent leaves
		}
		o.OnBeat(now, err)
		if err != nil {
			failed++
			o.Log.Warn("the hub did not take the heartbeat, trying again", "error", err, "failures", failed)
		} else {
			o.Pulse.beat(now)
			o.Log.Debug("heartbeat sent", "cluster", o.ClusterNamespace+"/"+o.ClusterName)
			failed = 0
			if !told && o.OnFirst != nil {
				o.OnFirst()
			}
			told = true
		}
		if !o.rest(ctx, o.next(failed, err), facts) {
			return nil
		}
	}
}

// rest waits until the next heartbeat is due: after d, or earlier if the facts are no longer those that were said.
// What the hub made of them does not matter. It reports false when ctx has ended.
func (o Options) rest(ctx context.Context, d time.Duration, said fleet.ClusterFacts) bool {
	due, early := time.NewTimer(d), time.NewTimer(newsPause)
	defer due.Stop()
	defer early.Stop()
	mayBeEarly := false
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-early.C:
			mayBeEarly = true
		case <-o.FactsChanged:
		}
		if mayBeEarly && !reflect.DeepEqual(o.Facts(), said) {
			return true
		}
	}
}

func (o Options) withDefaults() Options {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Pulse == nil {
		o.Pulse = &Pulse{}
	}
	if o.Facts == nil {
		o.Facts = func() fleet.ClusterFacts { return fleet.ClusterFacts{} }
	}
	if o.OnBeat == nil {
		o.OnBeat = func(time.Time, error) {}
	}
	return o
}

// patch is the one thing a heartbeat says: it replaces status.agent as a whole. lastSeen has the precision
// of seconds, as every Kubernetes time.
func patch(now time.Time, agentNamespace string, facts fleet.ClusterFacts) ([]byte, error) {
	operation := struct {
		Op    string            `json:"op"`
		Path  string            `json:"path"`
		Value fleet.AgentStatus `json:"value"`
	}{
		Op:    "add",
		Path:  "/status/agent",
		Value: fleet.AgentStatus{LastSeen: metav1.NewTime(now), Namespace: agentNamespace, ClusterFacts: facts},
	}
	body, err := json.Marshal([]any{operation})
	if err != nil {
		return nil, fmt.Errorf("encoding the heartbeat: %w", err)
	}
	return body, nil
}

// pause is the time to the next heartbeat after this many failures in a row; never more than the interval.
func pause(interval time.Duration, failed int) time.Duration {
	retry := firstRetry
	for i := 1; i < failed && retry < lastRetry; i++ {
		retry *= 2
	}
	return min(retry, lastRetry, interval)
}

// next is the time to the next heartbeat, after so many failures in a row of which err is the last.
func (o Options) next(failed int, err error) time.Duration {
	if failed == 0 {
		return jitter(o.Interval, o.Random)
	}
	return again(pause(o.Interval, failed), kube.RetryAfter(err), o.Random)
}

// again is the time to the next try: the pause, up to half longer or shorter, and no less than the hub asked for.
func again(pause, asked time.Duration, random io.Reader) time.Duration {
	byChance := 5 * (jitter(pause, random) - pause)
	return max(pause+byChance, asked+max(byChance, -byChance))
}

// jitter is d, up to a tenth longer or shorter. Without randomness it is d.
func jitter(d time.Duration, random io.Reader) time.Duration {
	if random == nil {
		return d
	}
	var one [1]byte
	if _, err := io.ReadFull(random, one[:]); err != nil {
		return d
	}
	return d + d/10*time.Duration(int(one[0])-128)/128
}

// wait says whether d is over; false means that ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
