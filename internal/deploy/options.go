package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// defaultWorkers is the default of Options.Workers.
	defaultWorkers = 5
	// defaultCollection is the default of Options.GarbageCollectionInterval.
	defaultCollection = 15 * time.Minute
)

// Options are the parameters of Run.
type Options struct {
	// Hub connects to the upstream API server with the agent's registered identity. Required.
	Hub *rest.Config
	// Namespace is the cluster's namespace on the hub. Required.
	Namespace string
	// Local connects to the downstream API server with the agent's own identity. Required.
	Local *rest.Config
	// AgentNamespace is the namespace in which the agent runs. Releases are marked with it, and service accounts are
	// read from it. Required.
	AgentNamespace string
	// OwnBundle is the name of the BundleDeployment that deploys the agent itself, see names.AgentBundle. Empty if
	// no BundleDeployment does.
	OwnBundle string
	// Scope separates the objects of several agents in one cluster. Usually empty.
	Scope string
	// Workers is the number of BundleDeployments that are reconciled at the same time; 0 means 5.
	Workers int
	// GarbageCollectionInterval is the pause between two searches for releases of deleted BundleDeployments. Up to the
	// same time is added at random; 0 means 15 minutes.
	GarbageCollectionInterval time.Duration
	// Journal is the directory in which running renderings are recorded. It has to outlive the process, but not its pod,
	// and to be the agent's own. Empty means that they are not recorded.
	Journal string
	// Log logs changes, and checks at debug level; nil discards the messages.
	Log *slog.Logger
	// Clock returns the time for conditions and pauses; nil means the system clock.
	Clock func() time.Time
	// Random returns numbers in [0,1) that spread pauses; nil means math/rand.
	Random func() float64
	// OnWatching is called once the cache of BundleDeployments has synced, with a function that lists them. The caller
	// must not change them. May be nil.
	OnWatching func(deployments func() []*fleet.BundleDeployment)
	// OnDeploy is called after each deployment of a bundle, and after each attempt that failed; may be nil. It is not called
	// for an attempt that waits for a dependency or that cannot be supported. After a deployment whose last step failed it
	// is called twice: the release succeeded, and the attempt did not.
	OnDeploy func(outcome outcome.Outcome, took time.Duration)
}

// complete checks the options and sets defaults.
func (o Options) complete() (Options, error) {
	switch {
	case o.Hub == nil || o.Local == nil:
		return o, errors.New("deploy: Hub and Local are required")
	case o.Namespace == "" || o.AgentNamespace == "":
		return o, errors.New("deploy: Namespace and AgentNamespace are required")
	case o.Workers < 0 || o.GarbageCollectionInterval < 0:
		return o, fmt.Errorf("deploy: Workers %d and GarbageCollectionInterval %s must not be negative", o.Workers, o.GarbageCollectionInterval)
	}
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.GarbageCollectionInterval = cmp.Or(o.GarbageCollectionInterval, defaultCollection)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now //nolint:forbidigo // of tests and tools; the agent passes its clock
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.OnWatching == nil {
		o.OnWatching = func(func() []*fleet.BundleDeployment) {}
	}
	if o.OnDeploy == nil {
		o.OnDeploy = func(outcome.Outcome, time.Duration) {}
	}
	return o, nil
}

// isAgent reports whether a BundleDeployment deploys the agent itself. The agent is never uninstalled: only its
// history is deleted. A name that begins like the agent's is not enough, because other bundles may have such
// names.
func (o Options) isAgent(name string) bool { return name != "" && name == o.OwnBundle }

// setOf returns the set of a BundleDeployment. The agent's own deployment uses the same set as an import, so that
// it recognizes the objects that the import has created.
func (o Options) setOf(name string) placement.Set {
	if o.isAgent(name) {
		return placement.AgentSet(o.Scope)
	}
	return placement.SetOf(name, o.Scope)
}
