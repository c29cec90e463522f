// Package facts finds out what an agent says of its cluster: how many nodes there are and how many of them are ready,
// and the version and platform of its API server.
//
//	GET /version ───────────────► version, platform ─┐
//	nodes: list, then watch ────► counts ────────────┴─► Facts, with each heartbeat
//
// Nodes come as the rows of a table, as kubectl prints them: a few hundred bytes for a node instead of many thousand.
// At rest nothing is asked for but the version, once an hour.
package facts

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// sayable is what the hub's CRD takes for a version or platform; anything else would cost the whole heartbeat.
var sayable = regexp.MustCompile(`^[0-9A-Za-z.+_~/-]{0,64}$`)

// Options of New.
type Options struct {
	// Local reaches the cluster as the agent.
	Local *rest.Config
	// AgentVersion is said as it is.
	AgentVersion string
	// Random spreads pauses and watches, in [0,1). Nil: by chance.
	Random func() float64
	// Log is told what cannot be found out. Nil: nobody is told.
	Log *slog.Logger
}

// Watcher knows the facts. It is safe for concurrent use.
type Watcher struct {
	Options
	client  rest.Interface
	pauses  pauses
	known   chan struct{}
	changed chan struct{}

	mu    sync.Mutex
	facts fleet.ClusterFacts
}

// New makes a Watcher that knows nothing but the agent's own version until Run.
func New(options Options) (*Watcher, error) {
	config := rest.CopyConfig(options.Local)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Timeout = 0 // it also watches
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to look at the cluster's nodes: %w", err)
	}
	if options.Random == nil {
		options.Random = rand.Float64
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		Options: options, client: client, pauses: usualPauses(),
		known: make(chan struct{}), changed: make(chan struct{}, 1),
		facts: fleet.ClusterFacts{AgentVersion: said(options.AgentVersion)},
	}, nil
}

// Facts are what is known now.
func (w *Watcher) Facts() fleet.ClusterFacts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.facts.DeepCopy()
}

// Changed says that Facts may be others than before; several changes may be one signal. It is for one reader.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Await returns once everything was asked for, whatever the answer, or after patience, or when ctx ends.
func (w *Watcher) Await(ctx context.Context, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.known:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// note changes the facts, and tells so if they are others now.
func (w *Watcher) note(change func(*fleet.ClusterFacts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := *w.facts.DeepCopy()
	change(&w.facts)
	if reflect.DeepEqual(before, w.facts) {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default: // there is a signal that nobody has taken yet
	}
}

// askVersion finds out what the API server is. What it said before stays true while it says nothing.
func (w *Watcher) askVersion(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := w.client.Get().AbsPath("/version").Do(ctx).Raw()
	var found version.Info
	if err == nil {
		err = decode(text, &found)
	}
	if err != nil {
		w.Log.Debug("asking the API server for its version", "error", err)
		return
	}
	w.note(func(f *fleet.ClusterFacts) {
		f.KubernetesVersion, f.Platform = said(found.GitVersion), said(found.Platform)
	})
}

// said is a text that the hub takes, "" for any other.
func said(text string) string {
	if !sayable.MatchString(text) {
		return ""
	}
	return text
}
