package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deletion is something that somebody deletes in the middle of a flow.
type deletion struct {
	// kind is of what is deleted, wherever there is one at that moment.
	kind string
	// force takes the finalizers off.
	force bool
	// ended says that no Cluster may be left but those that agents have joined as since.
	ended bool
}

func deletions() map[string]deletion {
	return map[string]deletion{
		"the Cluster":           {kind: "Cluster", ended: true},
		"the Cluster, by force": {kind: "Cluster", force: true, ended: true},
		"the token":             {kind: "ClusterRegistrationToken"},
		"the registration":      {kind: "ClusterRegistration"},
	}
}

// happen deletes; it says whether there was anything to delete.
func (d deletion) happen(w *world) (any bool) {
	var writes []func()
	for _, at := range w.places() {
		if at.cluster != onHub || at.kind != d.kind {
			continue
		}
		writes = append(writes, func() {
			if d.force {
				w.remove(at)
			} else {
				w.deleteAt(at)
			}
		})
	}
	if len(writes) == 0 {
		return false
	}
	for _, a := range w.agents {
		a.deaf, a.silent = false, false // that was another story
	}
	w.admin("deletes", writes...)
	return true
}

// TestDeletionAtEveryStage plays each flow up to each of its steps, deletes something there, lets everybody react, and
// time pass: nothing is left but what has a reason to be, and nothing is there twice. Everybody acts in turn, and then,
// for some of the steps, at random.
func TestDeletionAtEveryStage(t *testing.T) {
	for flowName, flow := range flows() {
		for what, deleted := range deletions() {
			t.Run(flowName+"/"+what, func(t *testing.T) {
				t.Parallel()
				steps := 1
				for deleted.after(steps, newWorld(t, nil), flow) {
					steps++
				}
				for order := range uint64(10) {
					chance := rand.New(rand.NewPCG(order, 0)) //nolint:gosec // an order, not a secret
					deleted.after(1+chance.IntN(steps), newWorld(t, chance), flow)
				}
			})
		}
	}
}

// after deletes after a step of a flow, and looks at what becomes of it. It says whether the flow is that long.
func (d deletion) after(step int, w *world, flow func(*world)) bool {
	w.t.Helper()
	if !w.playUntil(step, flow) {
		return false
	}
	stage := fmt.Sprintf("deleted after step %d: %s", step, w.last)
	if d.happen(w) {
		w.later(time.Hour)
		w.later(time.Hour)
		expectReasons(w, d, stage)
	}
	return true
}

// expectReasons looks for what is left without a reason to be.
func expectReasons(w *world, deleted deletion, stage string) {
	w.t.Helper()
	var wrong []string
	for _, at := range w.places() {
		if at.cluster == onHub {
			for _, why := range w.unreasonable(at) {
				wrong = append(wrong, at.String()+": "+why)
			}
		}
	}
	clients := map[string]string{}
	for _, cluster := range list[fleet.Cluster](w, onHub) {
		client := cluster.Namespace + "/" + cluster.Spec.ClientID
		if other := clients[client]; other != "" {
			wrong = append(wrong, fmt.Sprintf("Clusters %s and %s have the same client ID", other, cluster.Name))
		}
		clients[client] = cluster.Name
		if deleted.ended && !w.isServed(cluster) {
			wrong = append(wrong, fmt.Sprintf("Cluster %s was made anew for nobody", cluster.Name))
		}
	}
	for _, a := range w.agents {
		if a.serving && !slices.ContainsFunc(list[fleet.Cluster](w, onHub), func(c *fleet.Cluster) bool { return w.isServedBy(c, a) }) {
			wrong = append(wrong, "agent "+a.where+" serves nobody")
		}
	}
	if len(wrong) > 0 {
		w.t.Fatalf("%s:\n\t%s\nits story:\n%s", stage, strings.Join(wrong, "\n\t"), w.story.String())
	}
}

// unreasonable says why an object of the hub should not be there.
func (w *world) unreasonable(at place) (why []string) {
	object := w.objects[at]
	missing := func(what, kind, namespace, name string) {
		if name != "" && w.objects[place{onHub, kind, namespace, name}] == nil {
			why = append(why, fmt.Sprintf("its %s %s/%s is gone", what, namespace, name))
		}
	}
	if object.GetDeletionTimestamp() != nil {
		why = append(why, "it does not come to its end")
	}
	if owner, inSet := w.sets[at]; inSet {
		missing("owner", owner.kind, owner.namespace, owner.name)
	}
	if strings.HasPrefix(at.namespace, "cluster-") {
		missing("namespace", "Namespace", "", at.namespace)
	}
	annotations := object.GetAnnotations()
	workspace := annotations[fleet.AnnotationClusterRegistrationNamespace]
	missing("request", "ClusterRegistration", workspace, annotations[fleet.AnnotationClusterRegistration])
	if at.kind == "Namespace" {
		workspace = annotations[fleet.AnnotationClusterNamespace]
	}
	missing("Cluster", "Cluster", workspace, annotations[fleet.AnnotationCluster])
	if binding, is := object.(*rbacv1.ClusterRoleBinding); is {
		for _, account := range binding.Subjects {
			missing("account", "ServiceAccount", account.Namespace, account.Name)
		}
		if len(binding.Subjects) == 0 {
			why = append(why, "it is for nobody")
		}
	}
	request, is := object.(*fleet.ClusterRegistration)
	if is && request.Status.Granted {
		missing("Cluster", "Cluster", at.namespace, request.Status.ClusterName)
	}
	if is && len(request.Status.Conditions) > 0 && request.Status.Conditions[0].Reason == fleet.ReasonTakeoverPending && w.now.Sub(request.CreationTimestamp.Time) > grant.CredentialLife {
		why = append(why, "nobody waits for its answer any more")
	}
	return why
}

func (w *world) isServed(cluster *fleet.Cluster) bool {
	return slices.ContainsFunc(w.agents, func(a *agent) bool { return w.isServedBy(cluster, a) })
}

// isServedBy says whether an agent works for a Cluster, and for the very one.
func (w *world) isServedBy(cluster *fleet.Cluster, a *agent) bool {
	identity, err := protocol.ParseIdentity(a.secret(names.Agent))
	return err == nil && a.serving && identity.ClusterNamespace == cluster.Namespace && identity.ClusterName == cluster.Name &&
		identity.DeploymentNamespace == names.ClusterNamespace(cluster.Namespace, cluster.Name) && !cluster.Status.Agent.LastSeen.IsZero()
}
