package unregister

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// clusterSteps returns the deletions on the cluster. The account of the import goes last: it does not run anything. Of agents that
// stay, the mark of the hub goes after it, because a second run may know the agent only by this mark.
func (o *options) clusterSteps(cluster *access.Cluster, f hubFound, c clusterFound) []step {
	var steps, marks []step
	if len(c.agents) == 0 {
		fmt.Fprintf(o.streams.ErrOut, "warning: the cluster of context %s has no agent\n", c.context)
	}
	for _, a := range c.agents {
		r := &remover{options: o, cluster: cluster, found: f, agent: a, value: c.mark}
		if o.keepAgent {
			marks = append(marks, r.release()...)
			continue
		}
		if hash := accountHash(a.account); hash != "" {
			r.value += "." + hash
		}
		steps = append(steps, r.steps()...)
	}
	for _, one := range c.account {
		change := Change{On: c.context, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}
		if one.Earlier && len(c.foreign) > 0 {
			change.Cause = "the cluster has another agent, whose hub may use it"
			steps = append(steps, step{Change: change})
			continue
		}
		steps = append(steps, step{change, func(ctx context.Context) (string, error) {
			return "", one.Delete(ctx)
		}})
	}
	return append(steps, marks...)
}

// remover removes one agent from its cluster.
type remover struct {
	*options
	cluster *access.Cluster
	found   hubFound
	agent   agent
	// value is the value of the label of its namespace.
	value string
}

// steps returns the deletions. The first one marks the namespace, so that a second run knows whose agent it was.
func (r *remover) steps() []step {
	namespace := r.agent.namespace
	change := func(kind, namespace, name string) Change {
		return Change{On: r.clusterContext, Kind: kind, Namespace: namespace, Name: name}
	}
	var steps []step
	if r.agent.release {
		steps = append(steps, step{change("HelmRelease", namespace, names.Agent), func(ctx context.Context) (string, error) { return "", r.uninstall(ctx) }})
	}
	for _, one := range r.agent.objects {
		steps = append(steps, step{change(one.kind, one.namespace, one.name), func(ctx context.Context) (string, error) { return "", r.remove(ctx, one) }})
	}
	last := change("Namespace", "", namespace)
	last.Cause = r.agent.keeps
	steps = append(steps, step{last, r.removeNamespace})
	first := steps[0].do
	steps[0].do = func(ctx context.Context) (string, error) {
		if !r.agent.marked { // otherwise the mark could lose the account, which a second run may not find
			if err := r.label(ctx, r.value); err != nil {
				return "", err
			}
		}
		return first(ctx)
	}
	return steps
}

// release returns the deletion of the mark of the hub that has installed the agent. Another hub imports no agent with a mark.
func (r *remover) release() []step {
	if r.agent.hubUID == "" {
		return nil
	}
	namespace := r.agent.namespace
	return []step{{Change{On: r.clusterContext, Kind: "HubMark", Namespace: namespace, Name: names.Agent}, func(ctx context.Context) (string, error) {
		_, err := access.Patch(ctx, r.cluster.Core.CoreV1().ConfigMaps(namespace), names.Agent, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotation.HubUID: nil}},
		})
		return "", access.IgnoreMissing("removing the mark of the hub from ConfigMap "+namespace+"/"+names.Agent, err)
	}}}
}

// label sets the label of the namespace, or removes it if value is nil.
func (r *remover) label(ctx context.Context, value any) error {
	_, err := access.Patch(ctx, r.cluster.Core.CoreV1().Namespaces(), r.agent.namespace, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{fleet.LabelUnregistering: value}},
	})
	return access.IgnoreMissing("labeling namespace "+r.agent.namespace, err)
}

// uninstall removes the Helm release and waits until the agent has ended.
func (r *remover) uninstall(ctx context.Context) error {
	client, err := r.newHelm(r.cluster.Config, r.agent.namespace)
	if err != nil {
		return err
	}
	if err := client.Uninstall(); err != nil {
		return exit.Errorf(exit.Failed, "%s", foreign.Excerpt(err.Error(), 1024))
	}
	return r.awaitEnd(ctx)
}

// remove deletes an object. After a workload it waits until the agent has ended, because the agent would restore its
// objects.
func (r *remover) remove(ctx context.Context, one ref) error {
	background := metav1.DeletePropagationBackground
	err := r.cluster.Metadata.Resource(one.resource).Namespace(one.namespace).Delete(ctx, one.name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err := access.IgnoreMissing("deleting "+one.kind+" "+one.name, err); err != nil || one.kind != "Deployment" && one.kind != "StatefulSet" {
		return err
	}
	return r.awaitEnd(ctx)
}

// awaitEnd waits until no pod of the agent is left.
func (r *remover) awaitEnd(ctx context.Context) error {
	namespace := r.agent.namespace
	return await.Wait{
		For: "the end of the agent's pods in namespace " + namespace, Timeout: r.timeout, Progress: r.streams.ErrOut,
		Next: []string{remedy.Command("kubectl", "--context", r.clusterContext, "describe", "pods", "-n", namespace, "-l", "app="+names.Agent)},
	}.Until(ctx, func(ctx context.Context) (bool, string, error) {
		pods, err := r.cluster.Core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent, Limit: 1})
		if err != nil {
			return false, "", access.Explain("reading pods", err)
		}
		return len(pods.Items) == 0, "", nil
	})
}

// removeNamespace deletes the namespace of the agent and waits until it is gone, unless it contains something else.
func (r *remover) removeNamespace(ctx context.Context) (kept string, err error) {
	name, namespaces := r.agent.namespace, r.cluster.Core.CoreV1().Namespaces()
	if err := readNamespace(ctx, r.cluster, &r.agent, r.found); err != nil {
		return "", err
	}
	if r.agent.keeps != "" {
		return r.agent.keeps, r.label(ctx, nil)
	}
	if err := access.IgnoreMissing("deleting namespace "+name, namespaces.Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return "", err
	}
	return "", await.Wait{
		For: "the deletion of namespace " + name, Timeout: r.timeout, Progress: r.streams.ErrOut,
		Next: []string{remedy.Command("kubectl", "--context", r.clusterContext, "describe", "namespace", name)},
	}.Until(ctx, func(ctx context.Context) (bool, string, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "", access.Explain("reading namespace "+name, err)
	})
}
