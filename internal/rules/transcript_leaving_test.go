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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// deletion is an object that a person deletes in the middle of a flow.
type deletion struct {
	// kind is the kind of the deleted objects, if any exist at that moment.
	kind string
	// force removes the finalizers.
	force bool
	// ended means that only Clusters may remain that agents have joined since.
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

// happen deletes the objects, and reports whether there were any.
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
		a.deaf, a.silent = false, false // ends the effects of the flow
	}
	w.admin("deletes", writes...)
	return true
}

// TestDeletionAtAnyStep_LeavesNoOrphans plays each flow up to each of its steps, deletes an object, and lets all controllers and
// the time proceed. Only objects with a reason may remain, and none twice. The controllers act in turn, and then, for
// some of the steps, in random order: five times, or twice with -short.
func TestDeletionAtAnyStep_LeavesNoOrphans(t *testing.T) {
	for flowName, flow := range flows() {
		for what, deleted := range deletions() {
			t.Run(flowName+"/"+what, func(t *testing.T) {
				t.Parallel()
				inTurn := newWorld(t, nil)
				inTurn.afterStep = func() { deleted.now(inTurn.fork()) }
				flow(inTurn)
				replays := *orders / 8
				if testing.Short() {
					replays = 2
				}
				for order := range replays {
					chance := rand.New(rand.NewPCG(order, 0)) //nolint:gosec // an order, not a secret
					w := newWorld(t, chance)
					if w.playUntil(1+chance.IntN(inTurn.steps+1), flow) {
						deleted.now(w)
					}
				}
			})
		}
	}
}

// now deletes after a step of a flow and checks the result.
func (d deletion) now(w *world) {
	w.t.Helper()
	stage := fmt.Sprintf("deleted after step %d: %s", w.steps, w.last)
	if d.happen(w) {
		w.later(time.Hour)
		w.later(time.Hour)
		expectReasons(w, d, stage)
	}
}

// expectReasons checks that only objects with a reason remain.
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

// unreasonable returns why an object of the hub should not exist.
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
	if is && len(request.Status.Conditions) > 0 && request.Status.Conditions[0].Reason == conditions.ReasonTakeoverPending && w.now.Sub(request.CreationTimestamp.Time) > grant.CredentialLife {
		why = append(why, "nobody waits for its answer any more")
	}
	return why
}

func (w *world) isServed(cluster *fleet.Cluster) bool {
	return slices.ContainsFunc(w.agents, func(a *agent) bool { return w.isServedBy(cluster, a) })
}

// isServedBy reports whether an agent serves exactly this Cluster.
func (w *world) isServedBy(cluster *fleet.Cluster, a *agent) bool {
	identity, err := protocol.ParseIdentity(a.secret(names.Agent))
	return err == nil && a.serving && identity.ClusterNamespace == cluster.Namespace && identity.ClusterName == cluster.Name &&
		identity.DeploymentNamespace == names.ClusterNamespace(cluster.Namespace, cluster.Name) && !cluster.Status.Agent.LastSeen.IsZero()
}
