package agentalone

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
	"github.com/fleet-hub/fleet/e2e/bench/bundles"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// firstCluster is the name of the first agent's cluster. The names of further clusters start with it.
	firstCluster = "east"
	// agentAccount is the agent's ServiceAccount on its cluster.
	agentAccount = "system:serviceaccount:" + names.SystemNamespace + ":" + names.Agent
)

// site is a cluster with an agent, and what is observed there and on the hub.
type site struct {
	Options

	// on is the name of the cluster's control plane, cluster its Cluster on the hub.
	on      string
	cluster *fleet.Cluster
	logs    []*accessLog
	seen    *sights
	// pod and pid are the agent's current pod and process.
	pod string
	pid int

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// newSites installs the agents with helm, one after another. If it fails, it also returns the sites that
// exist so far.
func newSites(ctx context.Context, o Options) (sites []*site, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	values, err := o.World.TokenValues(ctx, "agent")
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, on := range o.Clusters() {
		o.Say("helm install fleet-agent on %s, with the token's values", on)
		if err := o.World.InstallAgent(ctx, on, values); err != nil {
			return sites, err
		}
		cluster, err := o.World.Joined(ctx, framework.Workspace, on, func(c *fleet.Cluster) bool { return !known[c.Name] })
		if err != nil {
			return sites, err
		}
		known[cluster.Name] = true
		s, err := newSite(ctx, o, on, cluster)
		if err != nil {
			return sites, err
		}
		sites = append(sites, s)
	}
	return sites, nil
}

// newSite waits until a registered agent has deployed its own Bundle.
func newSite(ctx context.Context, o Options, on string, cluster *fleet.Cluster) (*site, error) {
	s := &site{Options: o, on: on, cluster: cluster, seen: newSights(o.Clock)}
	if _, _, err := o.World.Managed(ctx, on, s.cluster); err != nil {
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
		{o.World.Plane.Hub.AuditLog, onHub, accountsIn(s.cluster.Status.Namespace)},
		{o.World.Cluster(on).AuditLog, onDownstream, func(user string) bool { return user == agentAccount }},
	} {
		opened, err := audit.NewLog(log.path)
		if err != nil {
			return nil, err
		}
		s.logs = append(s.logs, &accessLog{Log: opened, who: log.who, is: log.is})
	}
	s.watch()
	return s, nil
}

// locate waits until the agent's only pod has another process than but.
func (s *site) locate(ctx context.Context, but int) error {
	return hub.Every(ctx, 20*time.Millisecond, func() (bool, error) {
		pod, err := s.World.AgentPod(ctx, s.on)
		if err != nil {
			return false, nil //nolint:nilerr // while one is replaced there may be none, or two
		}
		pids, err := s.World.PodPIDs(s.on, pod.Namespace, pod.Name)
		if err != nil || len(pids) != 1 || pids[0] == but {
			return false, err
		}
		s.pod, s.pid = pod.Name, pids[0]
		return true, nil
	})
}

// watch starts to watch Bundles, BundleDeployments and the deployed objects.
func (s *site) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	begin := func(open func(context.Context) (watch.Interface, error), see func(watch.Event)) {
		s.ended.Go(func() { follow(ctx, open, see) })
	}
	begin(func(ctx context.Context) (watch.Interface, error) {
		return s.World.Hub.Fleet.Get().Namespace(s.cluster.Status.Namespace).Resource(client.BundleDeployments).Param("watch", "true").Watch(ctx)
	}, s.seeBundleDeployment)
	begin(func(ctx context.Context) (watch.Interface, error) {
		return s.World.Hub.Fleet.Get().Namespace(s.cluster.Namespace).Resource(client.Bundles).Param("watch", "true").Watch(ctx)
	}, s.seeBundle)
	labelled := metav1.ListOptions{LabelSelector: bundles.Label}
	east := s.World.On(s.on).Kube
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
func (s *site) stop() {
	s.cancel()
	s.ended.Wait()
}

// Events of a Bundle's deployment.
const (
	sawCreated  = "created "  // the BundleDeployment exists
	sawReady    = "ready "    // it reports Ready
	sawModified = "modified " // it reports a modified object
	sawClean    = "clean "    // it reports no modified object
	sawFailed   = "failed "   // it reports a failed deployment
	sawUp       = "up "       // the Deployment is available
	sawTold     = "told "     // the Bundle reports Ready
	sawObject   = "object "   // followed by the object's name, which starts with the Bundle's name
)

func (s *site) seeBundleDeployment(event watch.Event) {
	bd, ok := event.Object.(*fleet.BundleDeployment)
	if !ok || event.Type == watch.Deleted {
		return
	}
	s.seen.see(sawCreated + bd.Name)
	for _, kind := range []string{conditions.Deployed, conditions.Installed} {
		if condition := conditions.Get(bd.Status.Conditions, kind); condition != nil && condition.Status == corev1.ConditionFalse {
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

func (s *site) seeBundle(event watch.Event) {
	if bundle, ok := event.Object.(*fleet.Bundle); ok && event.Type != watch.Deleted && bundles.IsReadyOn(bundle, 1) {
		s.seen.see(sawTold + bundle.Name)
	}
}

func (s *site) seeObject(event watch.Event) {
	object, err := meta.Accessor(event.Object)
	if err != nil || event.Type == watch.Deleted {
		return
	}
	s.seen.see(sawObject + object.GetName())
	if deployment, ok := object.(*appsv1.Deployment); ok && isUp(deployment) {
		s.seen.see(sawUp + object.GetLabels()[bundles.Label])
	}
}

// isUp reports whether all pods of a Deployment are available and none has an older template.
func isUp(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Spec.Replicas != nil &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
}

// footprint returns the agent's current memory.
func (s *site) footprint() (usage.Footprint, error) { return usage.Of(s.pid) }

// rest waits while the agent has no work.
func (s *site) rest(ctx context.Context, d time.Duration) error {
	until := s.Clock().Add(d)
	if err := hub.Every(ctx, pollEvery, func() (bool, error) { return !s.Clock().Before(until), nil }); err != nil {
		return fmt.Errorf("waiting while the agent is idle: %w", err)
	}
	return nil
}
