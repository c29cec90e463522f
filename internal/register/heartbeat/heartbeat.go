// Package heartbeat reports to the hub that the agent is alive.
//
//	at once, then every interval: PATCH clusters/<name>/status  add /status/agent {lastSeen, namespace, facts,
//	                                                                            credentialExpires, recovery…}
//
// The agent has no other rights on its Cluster: it may neither read nor update it.
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

// DefaultInterval is the time between two heartbeats if none is configured.
const DefaultInterval = 15 * time.Minute

// The pauses after a failed heartbeat double from firstRetry to lastRetry. Each is up to 50 % longer or shorter
// at random, so that agents do not retry together after an outage. requestTimeout limits one request.
const (
	firstRetry     = time.Second
	lastRetry      = 30 * time.Second
	requestTimeout = 15 * time.Second
)

// minFactsPause is the minimum time between a heartbeat and an early one that is caused by changed facts. Nodes that
// come and go must not keep the hub busy.
const minFactsPause = 5 * time.Minute

// Options configures Run.
type Options struct {
	// Hub is the client configuration for the agent's identity on the hub.
	Hub *rest.Config
	// ClusterNamespace and ClusterName identify the agent's Cluster.
	ClusterNamespace, ClusterName string
	// AgentNamespace is the namespace of the agent in the downstream cluster. It is part of the heartbeat.
	AgentNamespace string
	// Interval is the time between two heartbeats, each up to 10 % longer or shorter at random. Zero or less means
	// DefaultInterval.
	Interval time.Duration
	// Facts returns the facts about the cluster for the heartbeat. Nil means no facts.
	Facts func() fleet.ClusterFacts
	// Status returns what else the heartbeat reports. Nil means nothing.
	Status func() fleet.AgentStatus
	// FactsChanged signals that Facts may have changed, so that the next heartbeat is sent early. Nil means never.
	FactsChanged <-chan struct{}
	// Pulse is shared by all runs of a process, so that no two heartbeats report the same second. Nil means that
	// there is only one run.
	Pulse *Pulse
	// Clock returns the current time. Required.
	Clock func() time.Time
	// Random is the source of jitter. Nil means no jitter.
	Random io.Reader
	// Log receives the log lines. Nil disables logging.
	Log *slog.Logger
	// OnBeat is called after each heartbeat with its time, and with the error if the hub did not accept it. Nil
	// disables the callback.
	OnBeat func(at time.Time, err error)
	// OnFirst is called once, when the hub has accepted the first heartbeat. Nil disables the callback.
	OnFirst func()
}

// Run sends heartbeats until ctx ends. It retries a failed heartbeat, whatever the hub's error. It returns an
// error only if the configuration is not valid for a client.
func Run(ctx context.Context, o Options) error {
	client, err := kube.FleetClient(o.Hub, nil)
	if err != nil {
		return fmt.Errorf("preparing the heartbeat: %w", err)
	}
	manager := protocol.HeartbeatManager(o.Hub.BearerToken)
	return run(ctx, o.withDefaults(), func(ctx context.Context, body []byte) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		beat := client.Patch(types.JSONPatchType).Namespace(o.ClusterNamespace).Resource("clusters").
			Name(o.ClusterName).SubResource("status").Body(body).MaxRetries(0). // run retries
			Param("fieldValidation", metav1.FieldValidationIgnore)              // a hub whose CRD has no facts drops them
		if manager != "" {
			beat.Param("fieldManager", manager) // tells the hub which credential is in use
		}
		return beat.Do(ctx).Error()
	})
}

// run implements Run. send sends one heartbeat.
func run(ctx context.Context, o Options, send func(context.Context, []byte) error) error {
	failed := 0
	hasReported := false
	for {
		if !wait(ctx, o.Pulse.left(o.Clock())) {
			return nil
		}
		now := o.Clock()
		facts := o.Facts()
		body, err := patch(o.status(now, facts))
		if err != nil {
			return err
		}
		err = send(ctx, body)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the context was canceled: the agent stops
		}
		o.OnBeat(now, err)
		if err != nil {
			failed++
			o.Log.Warn("sending the heartbeat failed, trying again", "error", err, "failures", failed)
		} else {
			o.Pulse.beat(now)
			o.Log.Debug("heartbeat sent", "cluster", o.ClusterNamespace+"/"+o.ClusterName)
			failed = 0
			if !hasReported && o.OnFirst != nil {
				o.OnFirst()
			}
			hasReported = true
		}
		if !o.rest(ctx, o.next(failed, err), facts) {
			return nil
		}
	}
}

// rest waits until the next heartbeat is due: after d, or earlier if the facts differ from those sent last,
// whether the hub stored them or not. It returns false when ctx has ended.
func (o Options) rest(ctx context.Context, d time.Duration, reported fleet.ClusterFacts) bool {
	due, early := time.NewTimer(d), time.NewTimer(minFactsPause)
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
		if mayBeEarly && !reflect.DeepEqual(o.Facts(), reported) {
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
	if o.Status == nil {
		o.Status = func() fleet.AgentStatus { return fleet.AgentStatus{} }
	}
	if o.OnBeat == nil {
		o.OnBeat = func(time.Time, error) {}
	}
	return o
}

// status returns what a heartbeat reports. lastSeen has a precision of one second, as every Kubernetes time.
func (o Options) status(now time.Time, facts fleet.ClusterFacts) fleet.AgentStatus {
	status := o.Status()
	status.LastSeen, status.Namespace, status.ClusterFacts = metav1.NewTime(now), o.AgentNamespace, facts
	return status
}

// patch returns the body of a heartbeat. It replaces status.agent as a whole.
func patch(status fleet.AgentStatus) ([]byte, error) {
	operation := struct {
		Op    string            `json:"op"`
		Path  string            `json:"path"`
		Value fleet.AgentStatus `json:"value"`
	}{
		Op:    "add",
		Path:  "/status/agent",
		Value: status,
	}
	body, err := json.Marshal([]any{operation})
	if err != nil {
		return nil, fmt.Errorf("encoding the heartbeat: %w", err)
	}
	return body, nil
}

// pause returns the time to the next heartbeat after this many consecutive failures. It never exceeds the
// interval.
func pause(interval time.Duration, failed int) time.Duration {
	retry := firstRetry
	for i := 1; i < failed && retry < lastRetry; i++ {
		retry *= 2
	}
	return min(retry, lastRetry, interval)
}

// next returns the time to the next heartbeat after this many consecutive failures. err is the last of them.
func (o Options) next(failed int, err error) time.Duration {
	if failed == 0 {
		return jitter(o.Interval, o.Random)
	}
	return again(pause(o.Interval, failed), kube.RetryAfter(err), o.Random)
}

// again returns the time to the next attempt: the pause, up to 50 % longer or shorter, but at least what the hub
// asked for.
func again(pause, asked time.Duration, random io.Reader) time.Duration {
	byChance := 5 * (jitter(pause, random) - pause)
	return max(pause+byChance, asked+max(byChance, -byChance))
}

// jitter returns d, up to 10 % longer or shorter at random. Without a random source it returns d.
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

// wait reports whether d has passed. It returns false when ctx has ended.
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
