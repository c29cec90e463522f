package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// defaultWorkers is how many BundleDeployments are worked on at a time where nothing is said.
	defaultWorkers = 5
	// defaultCollection is the pause between two looks for releases without a BundleDeployment.
	defaultCollection = 15 * time.Minute
)

// Options say what Run works on.
type Options struct {
	// Hub is the upstream API server under the agent's registered identity. Required.
	Hub *rest.Config
	// Namespace is the cluster's namespace on the hub. Required.
	Namespace string
	// Local is the downstream API server under the agent's own identity. Required.
	Local *rest.Config
	// AgentNamespace is where the agent runs: releases are marked with it, and service accounts looked up in
	// it. Required.
	AgentNamespace string
	// OwnBundle is the name of the BundleDeployment that deploys the agent itself, see names.AgentBundle. Empty means that
	// none does.
	OwnBundle string
	// Scope sets the objects of several agents in one cluster apart. Usually empty.
	Scope string
	// Workers is how many BundleDeployments are worked on at a time; 0 means 5.
	Workers int
	// GarbageCollectionInterval is the pause between two looks for releases whose BundleDeployment is gone,
	// up to twice as long by chance; 0 means 15 minutes.
	GarbageCollectionInterval time.Duration
	// Log is told what changed, and at debug level what was looked at; nil discards it.
	Log *slog.Logger
	// Clock is the time for conditions and pauses; nil means the real one.
	Clock func() time.Time
	// Random returns numbers in [0,1) that spread pauses; nil means real chance.
	Random func() float64
	// OnWatching is called once the BundleDeployments of the namespace are known and watched, with a way to list
	// them from then on; they must not be changed. May be nil.
	OnWatching func(deployments func() []*fleet.BundleDeployment)
	// OnDeploy is told of each attempt to deploy a bundle; may be nil.
	OnDeploy func(outcome Outcome, took time.Duration)
}

// complete fills in what was left empty.
func (o Options) complete() (Options, error) {
	switch {
	case o.Hub == nil || o.Local == nil:
		return o, errors.New("deploy: both API servers have to be given")
	case o.Namespace == "" || o.AgentNamespace == "":
		return o, errors.New("deploy: the namespaces of the cluster and of the agent have to be given")
	case o.Workers < 0 || o.GarbageCollectionInterval < 0:
		return o, fmt.Errorf("deploy: %d workers, collecting every %s: neither can be negative", o.Workers, o.GarbageCollectionInterval)
	}
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.GarbageCollectionInterval = cmp.Or(o.GarbageCollectionInterval, defaultCollection)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now //nolint:forbidigo // the one place where the clock is made
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.OnWatching == nil {
		o.OnWatching = func(func() []*fleet.BundleDeployment) {}
	}
	if o.OnDeploy == nil {
		o.OnDeploy = func(Outcome, time.Duration) {}
	}
	return o, nil
}

// Run deploys the BundleDeployments of one namespace of the hub, and reports on them, until ctx ends. It
// returns nil then, and an error only if it could not begin. It may be called again afterwards, also with
// another hub; two calls must not overlap.
func Run(ctx context.Context, options Options) error {
	options, err := options.complete()
	if err != nil {
		return err
	}
	d, err := newDeployer(options)
	if err != nil {
		return err
	}
	return d.run(ctx)
}
