// Package facts collects what an agent reports about its cluster: the number of nodes and of ready nodes, and
// the version and platform of the API server.
//
//	GET /version ───────────────► version, platform ─┐
//	nodes: list, then watch ────► counts ────────────┴─► Facts, with each heartbeat
//
// Nodes are requested as table rows, as kubectl prints them: a few hundred bytes per node instead of many
// thousand. When nothing changes, the only request is the version, once an hour.
package facts

import (
	"context"
	"fmt"
	"log/slog"
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

// acceptable matches the versions and platforms that the hub's CRD accepts. Any other value would make the hub
// reject the whole heartbeat.
var acceptable = regexp.MustCompile(`^[0-9A-Za-z.+_~/-]{0,64}$`)

// Options configures New.
type Options struct {
	// Local is the client configuration for the agent's own cluster.
	Local *rest.Config
	// AgentVersion is reported unchanged.
	AgentVersion string
	// Log receives the errors. Nil disables logging.
	Log *slog.Logger
}

// Watcher keeps the facts up to date. It is safe for concurrent use.
type Watcher struct {
	Options
	client  rest.Interface
	pauses  pauses
	known   chan struct{}
	changed chan struct{}

	mu    sync.Mutex
	facts fleet.ClusterFacts
}

// New returns a Watcher. Before Run, its only fact is the agent's version.
func New(options Options) (*Watcher, error) {
	config := rest.CopyConfig(options.Local)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Timeout = 0 // the client also watches
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to watch the cluster's nodes: %w", err)
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		Options: options, client: client, pauses: usualPauses(),
		known: make(chan struct{}), changed: make(chan struct{}, 1),
		facts: fleet.ClusterFacts{AgentVersion: validOrEmpty(options.AgentVersion)},
	}, nil
}

// Facts returns a copy of the current facts.
func (w *Watcher) Facts() fleet.ClusterFacts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.facts.DeepCopy()
}

// Changed signals that Facts may have changed. Several changes may cause one signal. The channel is for one
// reader.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Await returns when Run has asked for every fact once, with or without success, after patience, or when ctx
// ends.
func (w *Watcher) Await(ctx context.Context, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.known:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// note applies a change and signals if the facts differ from before.
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
	default: // a signal is already pending
	}
}

// askVersion asks the API server for its version. If the request fails, the last known version remains.
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
		f.KubernetesVersion, f.Platform = validOrEmpty(found.GitVersion), validOrEmpty(found.Platform)
	})
}

// validOrEmpty returns text if the hub accepts it, otherwise an empty string.
func validOrEmpty(text string) string {
	if !acceptable.MatchString(text) {
		return ""
	}
	return text
}
