package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// driftPatience limits the wait until a change of a deployed object is reported.
const driftPatience = 10 * time.Second

// deployFigures are the figures of an agent that deploys plain YAML Bundles of ten objects.
type deployFigures struct {
	// Existing is the time from the creation of a BundleDeployment until its ten objects exist, both seen by a
	// watch, while nothing else is deployed. Reporting is the time from the last object being ready until the
	// BundleDeployment reports it.
	Existing  spread `json:"createdToAllObjects"`
	Reporting spread `json:"readyToReported"`
	// Told is the time from the request that creates a Bundle until its own status says that it is ready.
	Told spread `json:"createdToBundleReady"`
	// Drift is the time from the edit of an object until the BundleDeployment reports it. Unreported is the
	// number of edits that were not reported within ten seconds.
	Drift      spread `json:"editedToReported"`
	Unreported int    `json:"editsUnreported"`
	// AllSeconds is the time for the other releases, deployed all at once, until the last one was ready.
	AllReleases int     `json:"releasesAtOnce"`
	AllSeconds  float64 `json:"releasesAtOnceSeconds"`
	// Agent is the agent's memory some time later.
	Agent footprint `json:"agentMemory"`
}

// deploys deploys some Bundles one after another, and then all others at once.
func (s *agentSite) deploys(ctx context.Context) (f deployFigures, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	s.say("%d Bundles of ten objects, one after another", s.agent.samples)
	var existing, reporting, told, drift []time.Duration
	for i := range s.agent.samples {
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
	f.Existing, f.Reporting, f.Told, f.Drift = spreadOf(existing), spreadOf(reporting), spreadOf(told), spreadOf(drift)
	f.AllReleases = s.agent.releases - s.agent.samples
	took, err := s.deployAll(ctx)
	if err != nil {
		return f, err
	}
	f.AllSeconds = seconds(took)
	return f, nil
}

// bundleName returns a name that is unique among the Bundles of all clusters.
func (s *agentSite) bundleName(i int) string { return fmt.Sprintf("%s-%03d", s.on, i) }

// one holds the times of one Bundle.
type one struct{ existing, reporting, told time.Duration }

func (s *agentSite) deployOne(ctx context.Context, name string) (one, error) {
	began := s.clock()
	if err := s.deploy(ctx, name, tenObjects(name)); err != nil {
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
	for _, name := range objectNames(bundle) {
		all = append(all, sawObject+name)
	}
	return all
}

// edit changes an object of a Bundle as `kubectl edit` does, and restores it. It returns the time until the
// change was reported, or 0 if it was not.
func (s *agentSite) edit(ctx context.Context, bundle string) (time.Duration, error) {
	if _, err := s.seen.last(ctx, sawClean+bundle); err != nil {
		return 0, err
	}
	configMaps := s.world.On(s.on).Kube.CoreV1().ConfigMaps(benchNamespace)
	write := func(text string) error {
		_, err := configMaps.Patch(ctx, objectNames(bundle)[0], types.MergePatchType, []byte(`{"data":{"text":"`+text+`"}}`), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("editing an object: %w", err)
		}
		return nil
	}
	s.seen.forget(sawModified + bundle)
	began := s.clock()
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
func (s *agentSite) deployAll(ctx context.Context) (time.Duration, error) {
	s.say("%d more at once", s.agent.releases-s.agent.samples)
	began := s.clock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.atOnce)
	var all []string
	for i := s.agent.samples; i < s.agent.releases; i++ {
		name := s.bundleName(i)
		all = append(all, sawReady+name)
		group.Go(func() error { return s.deploy(ctx, name, tenObjects(name)) })
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	_, err := s.seen.last(context.WithoutCancel(ctx), all...)
	return s.clock().Sub(began), err
}
