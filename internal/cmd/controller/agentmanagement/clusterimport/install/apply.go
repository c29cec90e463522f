package install

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// ErrClassInUse means that the agent's Deployment still names the PriorityClass to be deleted. Without the class no
// pod of the agent could be created.
var ErrClassInUse = errors.New("the agent's Deployment still names its PriorityClass")

// agentPods selects the pods of an agent.
const agentPods = "app=" + names.Agent

// Apply writes the import's objects and removes the scheduling objects that are no longer wanted. It writes the
// PriorityClass before the Deployment that names it, and removes it only after the Deployment no longer names it.
func (d *Agent) Apply(ctx context.Context) error {
	if err := d.applyPullSecrets(ctx); err != nil {
		return err
	}
	replaced, err := d.replaceClass(ctx)
	if err != nil {
		return err
	}
	if err := d.correct(ctx); err != nil {
		return err
	}
	if err := d.Downstream.Apply(ctx, kept(desired(d.AgentDeployment, d.Rendered))...); err != nil {
		return err
	}
	if err := d.dropScheduling(ctx); err != nil {
		return err
	}
	if err := d.removePullSecrets(ctx, d.Values.Namespace, d.SetID, d.DroppedPullSecrets); err != nil {
		return err
	}
	return d.restart(ctx, replaced) // a pod keeps the priority that its class had when the pod was created
}

// correct corrects the settings of an agent that does not run, before the API server gets to see old and new settings together:
// it would refuse, for example, a variable with a value and a source. Applied lists of tolerations and node selectors replace
// those that are there, so they get the items of others.
func (d *Agent) correct(ctx context.Context) error {
	wanted := Find[*appsv1.Deployment](d.Rendered)
	if !d.Corrects || d.BesideBundle || wanted == nil {
		return nil
	}
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	found, err := d.Downstream.Find(ctx, live)
	if err != nil || !found || !supervisionrule.Correct(live, wanted) {
		return err
	}
	wanted.Spec.Template.Spec.Tolerations = live.Spec.Template.Spec.Tolerations
	wanted.Spec.Template.Spec.NodeSelector = live.Spec.Template.Spec.NodeSelector
	return d.Downstream.Replace(ctx, live)
}

// restart replaces the agent's pods if wanted.
func (d *Agent) restart(ctx context.Context, wanted bool) error {
	if !wanted {
		return nil
	}
	return d.Downstream.RemovePods(ctx, d.Values.Namespace, agentPods)
}

// replaceClass deletes a PriorityClass whose value has to change, because the value is immutable.
func (d *Agent) replaceClass(ctx context.Context) (bool, error) {
	wanted := Find[*schedulingv1.PriorityClass](d.Rendered)
	if wanted == nil {
		return false, nil
	}
	live := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name}}
	found, err := d.Downstream.Find(ctx, live)
	if err != nil || !found {
		return false, err
	}
	policy := corev1.PreemptLowerPriority // the server's default
	if wanted.PreemptionPolicy != nil {
		policy = *wanted.PreemptionPolicy
	}
	if live.Value == wanted.Value && equality.Semantic.DeepEqual(live.PreemptionPolicy, &policy) {
		return false, nil
	}
	return true, d.Downstream.Remove(ctx, live)
}

// dropScheduling removes the PodDisruptionBudget and the PriorityClass if this import created them and the settings
// no longer ask for them.
func (d *Agent) dropScheduling(ctx context.Context) error {
	if !d.Scheduling {
		return nil
	}
	if Find[*policyv1.PodDisruptionBudget](d.Rendered) == nil {
		limits := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: agentchart.DisruptionBudget}}
		if err := removeMarked(ctx, d.Downstream, d.SetID, limits); err != nil {
			return err
		}
	}
	if Find[*schedulingv1.PriorityClass](d.Rendered) != nil {
		return nil
	}
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: names.Agent}}
	if found, err := d.Downstream.Find(ctx, agent); err != nil {
		return err
	} else if found && agent.Spec.Template.Spec.PriorityClassName == agentchart.PriorityClass {
		return ErrClassInUse
	}
	return removeMarked(ctx, d.Downstream, d.SetID, agentchart.SharedClass())
}

type metaObject interface {
	runtime.Object
	metav1.Object
}

// removeMarked removes an object if it has the marks of a set. It keeps an object of another agent.
func removeMarked(ctx context.Context, downstream hub.Downstream, setID string, object metaObject) error {
	found, err := downstream.Find(ctx, object)
	if err != nil || !found || object.GetLabels()[fleet.LabelSetHash] != names.SetHash(setID, names.Owner{}) {
		return err
	}
	return downstream.Remove(ctx, object)
}

// removeLeftovers removes an agent that was in the default system namespace before the hub used another one, and its
// credentials namespace. If a hub, another hub's agent or that of another Cluster is there, nothing is removed.
func (d *Agent) removeLeftovers(ctx context.Context) error {
	if !d.Leftovers {
		return nil
	}
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.ControllerConfig}}
	if found, err := d.Downstream.Find(ctx, controller); err != nil || found {
		return err
	}
	own, others, err := d.leftover(ctx)
	if err != nil || others {
		return err
	}
	if own {
		if err := d.Downstream.Remove(ctx, agentchart.Objects(names.SystemNamespace)...); err != nil {
			return err
		}
	}
	credentials := names.RegistrationNamespace(names.SystemNamespace)
	if err := d.Downstream.Remove(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: credentials}}); err != nil {
		return fmt.Errorf("removing what an earlier agent left: %w", err)
	}
	return nil
}

// leftover reports whether the agent in the default system namespace is of this hub, and of this Cluster or none, and whether it
// belongs to another hub or Cluster. Both are false for a missing agent, and for one of unknown origin, which stays.
// An agent that joined by itself, or that Rancher Fleet installed, has no mark of a hub, so its identity decides.
func (d *Agent) leftover(ctx context.Context) (own, others bool, err error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}}
	if _, err := d.Downstream.Find(ctx, config); err != nil {
		return false, false, err
	}
	found, err := d.meansIn(ctx, names.SystemNamespace)
	if err != nil {
		return false, false, err
	}
	mark := types.UID(config.Annotations[annotation.HubUID])
	here, unknown := d.leadsHere(found)
	others = mark != "" && mark != d.Hub || !here && !unknown || checkOwner(found.stored, found.bootstrap, d.CheckOwner) != nil
	return !others && (here || mark != ""), others, nil
}

// Find returns the first object of a type, or nil if the list contains none.
func Find[T runtime.Object](objects []runtime.Object) (none T) {
	for _, object := range objects {
		if wanted, ok := object.(T); ok {
			return wanted
		}
	}
	return none
}

// applyPullSecrets copies the type and data of each Secret to the agent's namespace. On the hub's own cluster, the
// Secret there may be the source itself.
func (d *Agent) applyPullSecrets(ctx context.Context) error {
	for _, source := range d.Sources {
		live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: source.Name}}
		found, err := d.Downstream.Find(ctx, live)
		switch {
		case err != nil:
			return err
		case found && (live.UID == source.UID || live.Type == source.Type && equality.Semantic.DeepEqual(live.Data, source.Data)):
			continue
		case found && live.Type != source.Type: // the type is immutable
			if err := d.Downstream.Remove(ctx, live); err != nil {
				return err
			}
		}
		if err := d.Downstream.Apply(ctx, marked(d.SetID, namespaceOf(d.AgentDeployment), copyOf(source, d.Values.Namespace))...); err != nil {
			return err
		}
	}
	return nil
}

// removePullSecrets removes copies from a downstream namespace. A Secret without the marks of the set was not copied
// by an import and stays.
func (d *Agent) removePullSecrets(ctx context.Context, namespace, setID string, secrets []string) error {
	for _, name := range secrets {
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := removeMarked(ctx, d.Downstream, setID, copied); err != nil {
			return err
		}
	}
	return nil
}

func copyOf(source *corev1.Secret, namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.Name},
		Type:       source.Type, Data: source.Data,
	}
}
