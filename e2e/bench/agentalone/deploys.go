package agentalone

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/bench/bundles"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// driftPatience limits the wait until a change of a deployed object is reported.
const driftPatience = 10 * time.Second

// deployFigures are the figures of an agent that deploys plain YAML Bundles of ten objects.
type deployFigures struct {
	// Existing is the time from the creation of a BundleDeployment until its ten objects exist, both seen by a
	// watch, while nothing else is deployed. Reporting is the time from the last object being ready until the
	// BundleDeployment reports it.
	Existing  figures.Spread `json:"createdToAllObjects"`
	Reporting figures.Spread `json:"readyToReported"`
	// Told is the time from the request that creates a Bundle until its own status says that it is ready.
	Told figures.Spread `json:"createdToBundleReady"`
	// Drift is the time from the edit of an object until the BundleDeployment reports it. Unreported is the
	// number of edits that were not reported within ten seconds.
	Drift      figures.Spread `json:"editedToReported"`
	Unreported int            `json:"editsUnreported"`
	// AllSeconds is the time for the other releases, deployed all at once, until the last one was ready.
	AllReleases int     `json:"releasesAtOnce"`
	AllSeconds  float64 `json:"releasesAtOnceSeconds"`
	// Agent is the agent's memory some time later.
	Agent usage.Footprint `json:"agentMemory"`
}

// deploys deploys some Bundles one after another, and then all others at once.
func (s *site) deploys(ctx context.Context) (f deployFigures, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	s.Say("%d Bundles of ten objects, one after another", s.samples)
	var existing, reporting, told, drift []time.Duration
	for i := range s.samples {
		name := s.bundleName(i)
		one, err := s.deployOne(ctx, name)
		if err != nil {
			return f, err
		}
		existing, reporting, told = append(existing, one.existing), append(reporting, one.reporting), append(told, one.told)
		if f.Unreported > 0 {
			continue // the agent does not detect edits
		}
		took, err := s.edit(ctx, name)
		if err != nil {
			return f, err
		}
		if took == 0 {
			f.Unreported++
			continue
		}
		drift = append(drift, took)
	}
	f.Existing, f.Reporting, f.Told, f.Drift = figures.SpreadOf(existing), figures.SpreadOf(reporting), figures.SpreadOf(told), figures.SpreadOf(drift)
	f.AllReleases = s.releases - s.samples
	took, err := s.deployAll(ctx)
	if err != nil {
		return f, err
	}
	f.AllSeconds = figures.Seconds(took)
	return f, nil
}

// bundleName returns a name that is unique among the Bundles of all clusters.
func (s *site) bundleName(i int) string { return fmt.Sprintf("%s-%03d", s.on, i) }

// one holds the times of one Bundle.
type one struct{ existing, reporting, told time.Duration }

func (s *site) deployOne(ctx context.Context, name string) (one, error) {
	began := s.Clock()
	if err := s.deploy(ctx, name, bundles.TenObjects(name)); err != nil {
		return one{}, err
	}
	reported, err := s.seen.last(ctx, sawReady+name)
	if err != nil {
		return one{}, err
	}
	objects := seenOf(name)
	created, err := s.seen.last(ctx, sawCreated+name)
	if err != nil {
		return one{}, err
	}
	there, err := s.seen.last(ctx, objects...)
	if err != nil {
		return one{}, err
	}
	up, err := s.seen.last(ctx, append(objects, sawUp+name)...)
	if err != nil {
		return one{}, err
	}
	told, err := s.seen.last(ctx, sawTold+name)
	return one{existing: there.Sub(created), reporting: max(0, reported.Sub(up)), told: told.Sub(began)}, err
}

// seenOf returns the events of a Bundle's ten objects.
func seenOf(bundle string) (all []string) {
	for _, name := range bundles.ObjectNames(bundle) {
		all = append(all, sawObject+name)
	}
	return all
}

// edit changes an object of a Bundle as `kubectl edit` does, and restores it. It returns the time until the
// change was reported, or 0 if it was not.
func (s *site) edit(ctx context.Context, bundle string) (time.Duration, error) {
	if _, err := s.seen.last(ctx, sawClean+bundle); err != nil {
		return 0, err
	}
	configMaps := s.World.On(s.on).Kube.CoreV1().ConfigMaps(bundles.Namespace)
	write := func(text string) error {
		_, err := configMaps.Patch(ctx, bundles.ObjectNames(bundle)[0], types.MergePatchType, []byte(`{"data":{"text":"`+text+`"}}`), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("editing an object: %w", err)
		}
		return nil
	}
	s.seen.forget(sawModified + bundle)
	began := s.Clock()
	if err := write("other words"); err != nil {
		return 0, err
	}
	patient, cancel := context.WithTimeout(ctx, driftPatience)
	defer cancel()
	at, err := s.seen.last(patient, sawModified+bundle)
	s.seen.forget(sawClean + bundle)
	if undo := write("some words to begin with"); undo != nil {
		return 0, undo
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return 0, nil
	case err != nil:
		return 0, err
	}
	_, err = s.seen.last(ctx, sawClean+bundle)
	return at.Sub(began), err
}

// deployAll creates the other Bundles at once, and waits until the last one is ready.
func (s *site) deployAll(ctx context.Context) (time.Duration, error) {
	s.Say("%d more at once", s.releases-s.samples)
	began := s.Clock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.AtOnce)
	var all []string
	for i := s.samples; i < s.releases; i++ {
		name := s.bundleName(i)
		all = append(all, sawReady+name)
		group.Go(func() error { return s.deploy(ctx, name, bundles.TenObjects(name)) })
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	_, err := s.seen.last(context.WithoutCancel(ctx), all...)
	return s.Clock().Sub(began), err
}

// deploy creates a Bundle for the agent's cluster.
func (s *site) deploy(ctx context.Context, name string, resources []fleet.BundleResource) error {
	return s.World.Hub.Create(ctx, client.Bundles, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: bundles.Namespace},
			Resources:               resources,
			Targets:                 []fleet.BundleTarget{{ClusterName: s.cluster.Name}},
		},
	})
}
