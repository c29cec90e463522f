package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// agentCluster is the cluster beside the hub whose agent is measured, and the beginning of the names of others.
	agentCluster = "east"
	// agentAccount is the account the chart gives it there.
	agentAccount = "system:serviceaccount:" + names.SystemNamespace + ":" + names.Agent
	// benchLabel names the Bundle that an object was deployed with.
	benchLabel = "fleet-bench"
)

// agentSite is a cluster with an agent, and what is seen of it there and on its hub.
type agentSite struct {
	*bench

	// on is the cluster's name among the control planes, cluster the object on the hub.
	on      string
	cluster *fleet.Cluster
	logs    []*agentLog
	seen    *sights
	// pod and pid are the agent's at present.
	pod string
	pid int

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// newAgentSites has agents join by `helm install`, one after another. Those that did are returned with an error, too.
func newAgentSites(ctx context.Context, b *bench) (sites []*agentSite, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	values, err := b.world.TokenValues(ctx, "agent")
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, on := range b.downstreams {
		b.say("helm install fleet-agent on %s, with the token's values", on)
		if err := b.world.InstallAgent(ctx, on, values); err != nil {
			return sites, err
		}
		cluster, err := b.world.Joined(ctx, framework.Workspace, on, func(c *fleet.Cluster) bool { return !known[c.Name] })
		if err != nil {
			return sites, err
		}
		known[cluster.Name] = true
		s, err := newAgentSite(ctx, b, on, cluster)
		if err != nil {
			return sites, err
		}
		sites = append(sites, s)
	}
	return sites, nil
}

// newAgentSite waits until an agent that has joined has deployed its own Bundle.
func newAgentSite(ctx context.Context, b *bench, on string, cluster *fleet.Cluster) (*agentSite, error) {
	s := &agentSite{bench: b, on: on, cluster: cluster, seen: newSights(b.clock)}
	if _, _, err := b.world.Managed(ctx, on, s.cluster); err != nil {
		return nil, err
	}
	if err := s.locate(ctx, 0); err != nil {
		return nil, err
	}
	for _, log := range []struct {
		path string
		who  audit.Identity
		is   func(string) bool
	}{
		{b.world.Plane.Hub.AuditLog, onHub, accountsIn(s.cluster.Status.Namespace)},
		{b.world.Cluster(on).AuditLog, onDownstream, func(user string) bool { return user == agentAccount }},
	} {
		opened, err := audit.NewLog(log.path)
		if err != nil {
			return nil, err
		}
		s.logs = append(s.logs, &agentLog{Log: opened, who: log.who, is: log.is})
	}
	s.watch()
	return s, nil
}

// locate waits until the agent's one pod has a process other than the given one.
func (s *agentSite) locate(ctx context.Context, but int) error {
	return s.every(ctx, 20*time.Millisecond, func() (bool, error) {
		pod, err := s.world.AgentPod(ctx, s.on)
		if err != nil {
			return false, nil //nolint:nilerr // while one is replaced there may be none, or two
		}
		pids, err := s.world.PodPIDs(s.on, pod.Namespace, pod.Name)
		if err != nil || len(pids) != 1 || pids[0] == but {
			return false, err
		}
		s.pod, s.pid = pod.Name, pids[0]
		return true, nil
	})
}

// watch begins to see BundleDeployments and what they deploy.
func (s *agentSite) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	begin := func(open func(context.Context) (watch.Interface, error), see func(watch.Event)) {
		s.ended.Go(func() { follow(ctx, open, see) })
	}
	begin(func(ctx context.Context) (watch.Interface, error) {
		return s.world.Hub.Fleet.Get().Namespace(s.cluster.Status.Namespace).Resource(client.BundleDeployments).Param("watch", "true").Watch(ctx)
	}, s.seeBundleDeployment)
	labelled := metav1.ListOptions{LabelSelector: benchLabel}
	east := s.world.On(s.on).Kube
	for _, open := range []func(context.Context) (watch.Interface, error){
		func(ctx context.Context) (watch.Interface, error) {
			return east.CoreV1().ConfigMaps("").Watch(ctx, labelled)
		},
		func(ctx context.Context) (watch.Interface, error) {
			return east.CoreV1().ServiceAccounts("").Watch(ctx, labelled)
		},
		func(ctx context.Context) (watch.Interface, error) {
			return east.CoreV1().Services("").Watch(ctx, labelled)
		},
		func(ctx context.Context) (watch.Interface, error) {
			return east.AppsV1().Deployments("").Watch(ctx, labelled)
		},
	} {
		begin(open, s.seeObject)
	}
}

// stop ends the watches.
func (s *agentSite) stop() {
	s.cancel()
	s.ended.Wait()
}

// What is seen of a Bundle's deployment.
const (
	sawCreated  = "created "  // the BundleDeployment
	sawReady    = "ready "    // it says that all is ready
	sawModified = "modified " // it says that something was changed
	sawClean    = "clean "    // it says that nothing was
	sawFailed   = "failed "   // it says that it could not be deployed
	sawUp       = "up "       // what takes time to be ready is
	sawObject   = "object "   // followed by the object's name, which begins with the Bundle's
)

func (s *agentSite) seeBundleDeployment(event watch.Event) {
	bd, ok := event.Object.(*fleet.BundleDeployment)
	if !ok || event.Type == watch.Deleted {
		return
	}
	s.seen.see(sawCreated + bd.Name)
	for _, kind := range []string{fleet.ConditionDeployed, fleet.ConditionInstalled} {
		if condition := fleet.GetCondition(bd.Status.Conditions, kind); condition != nil && condition.Status == corev1.ConditionFalse {
			s.seen.see(sawFailed + bd.Name)
		}
	}
	if bd.Status.AppliedDeploymentID == "" || bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
		return
	}
	if bd.Status.Ready {
		s.seen.see(sawReady + bd.Name)
	}
	if bd.Status.NonModified {
		s.seen.see(sawClean + bd.Name)
	} else {
		s.seen.see(sawModified + bd.Name)
	}
}

func (s *agentSite) seeObject(event watch.Event) {
	object, err := meta.Accessor(event.Object)
	if err != nil || event.Type == watch.Deleted {
		return
	}
	s.seen.see(sawObject + object.GetName())
	if deployment, ok := object.(*appsv1.Deployment); ok && isUp(deployment) {
		s.seen.see(sawUp + object.GetLabels()[benchLabel])
	}
}

// isUp tells whether all pods of a Deployment run, and none are left of another template.
func isUp(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Spec.Replicas != nil &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
}

// footprint is what the agent uses now.
func (s *agentSite) footprint() (footprint, error) { return footprintOf(s.pid) }

// rest lets time pass in which nobody asks anything of the agent.
func (s *agentSite) rest(ctx context.Context, d time.Duration) error {
	until := s.clock().Add(d)
	if err := s.every(ctx, pollEvery, func() (bool, error) { return !s.clock().Before(until), nil }); err != nil {
		return fmt.Errorf("letting time pass: %w", err)
	}
	return nil
}
