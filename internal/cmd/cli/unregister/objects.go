package unregister

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ref names an object on the cluster.
type ref struct {
	resource        schema.GroupVersionResource
	kind            string
	namespace, name string
}

// refs returns all objects that an agent may have. Its Deployment comes first, so that the agent ends before its objects go.
func refs(namespace string) []ref {
	var workloads, others []ref
	for _, object := range append(agentchart.Objects(namespace), agentchart.SharedClass()) {
		one := refOf(object)
		if one.kind == "Deployment" || one.kind == "StatefulSet" {
			workloads = append(workloads, one)
			continue
		}
		others = append(others, one)
	}
	return append(workloads, others...)
}

// refOf returns the name of a built-in object.
func refOf(object runtime.Object) ref {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	accessor, metaErr := meta.Accessor(object)
	if err != nil || metaErr != nil {
		panic(fmt.Sprintf("%T is no built-in object", object))
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return ref{resource, kinds[0].Kind, accessor.GetNamespace(), accessor.GetName()}
}

// readObjects reads which objects of the agents exist, and what else is in their namespaces.
func readObjects(ctx context.Context, cluster *access.Cluster, f hubFound, c *clusterFound) error {
	for i := range c.agents {
		a := &c.agents[i]
		var err error
		if a.objects, err = existing(ctx, cluster.Metadata, a.namespace, len(c.foreign) > 0); err != nil {
			return err
		}
		if err := readNamespace(ctx, cluster, a, f); err != nil {
			return err
		}
	}
	return nil
}

// existing returns the objects of an agent that exist. The PriorityClass is left out if other agents may use it.
func existing(ctx context.Context, client metadata.Interface, namespace string, shared bool) ([]ref, error) {
	var found []ref
	for _, one := range refs(namespace) {
		if shared && one.kind == "PriorityClass" {
			continue
		}
		_, err := client.Resource(one.resource).Namespace(one.namespace).Get(ctx, one.name, metav1.GetOptions{})
		switch {
		case err == nil:
			found = append(found, one)
		case !apierrors.IsNotFound(err):
			return nil, access.Explain(fmt.Sprintf("reading %s %s", one.kind, one.name), err)
		}
	}
	return found, nil
}

// readNamespace finds out whether the namespace of an agent can be deleted with it.
func readNamespace(ctx context.Context, cluster *access.Cluster, a *agent, f hubFound) error {
	a.keeps = ""
	namespace, err := access.Find(ctx, cluster.Core.CoreV1().Namespaces(), "namespace "+a.namespace, a.namespace)
	if err != nil || namespace == nil {
		return err
	}
	if a.keeps = notOwn(namespace); a.keeps != "" {
		return nil
	}
	others, err := othersIn(ctx, cluster.Metadata, a, f)
	a.keeps = inUse(others)
	return err
}

// notOwn returns why a namespace was not created for an agent, or an empty text.
func notOwn(namespace *corev1.Namespace) string {
	switch namespace.Name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease:
		return "it belongs to Kubernetes"
	}
	// fleet join and Helm set the label name, and an import marks its objects.
	if namespace.Labels["name"] == namespace.Name || isOfSet(namespace.Labels, namespace.Name) {
		return ""
	}
	return "it was not created with the agent"
}

// isOfSet reports whether an object has the marks of an import of the agent in a namespace.
func isOfSet(labels map[string]string, namespace string) bool {
	hash := labels[fleet.LabelSetHash]
	return hash == names.SetHash(names.AgentSetID(""), names.Owner{}) || hash == names.SetHash(names.AgentSetID(namespace), names.Owner{})
}

// inUse describes what else is in a namespace.
func inUse(others []string) string {
	const shown = 3
	if len(others) == 0 {
		return ""
	}
	return "it also contains " + cut.Names(others, shown)
}

// kindsOfOthers are the kinds that are looked for before a namespace is deleted.
func kindsOfOthers() []ref {
	kind := func(group, resource, name string) ref {
		return ref{resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, kind: name}
	}
	return []ref{
		kind("", "pods", "Pod"), kind("", "services", "Service"), kind("", "configmaps", "ConfigMap"), kind("", "secrets", "Secret"),
		kind("", "serviceaccounts", "ServiceAccount"), kind("", "persistentvolumeclaims", "PersistentVolumeClaim"),
		kind("apps", "deployments", "Deployment"), kind("apps", "statefulsets", "StatefulSet"), kind("apps", "daemonsets", "DaemonSet"),
		kind("batch", "jobs", "Job"), kind("batch", "cronjobs", "CronJob"),
		kind("networking.k8s.io", "ingresses", "Ingress"), kind("networking.k8s.io", "networkpolicies", "NetworkPolicy"),
		kind("rbac.authorization.k8s.io", "roles", "Role"), kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
	}
}

// pageOfOthers is how many objects of a kind are looked at. A namespace with more contains others.
const pageOfOthers = 250

// othersIn returns the objects in the namespace of an agent that are not the agent's.
func othersIn(ctx context.Context, client metadata.Interface, a *agent, f hubFound) ([]string, error) {
	var others []string
	for _, kind := range kindsOfOthers() {
		list, err := client.Resource(kind.resource).Namespace(a.namespace).List(ctx, metav1.ListOptions{Limit: pageOfOthers})
		if apierrors.IsNotFound(err) {
			continue // the cluster does not have the kind
		}
		if err != nil {
			return nil, access.Explain(fmt.Sprintf("reading %s of namespace %s", kind.resource.Resource, a.namespace), err)
		}
		for i := range list.Items {
			switch object := &list.Items[i]; {
			case kind.kind == "Secret" && (isRelease(object, names.HelmReleaseName(names.AgentBundle(f.name))) || isOfSet(object.Labels, a.namespace)):
				if one := (ref{kind.resource, kind.kind, a.namespace, object.Name}); !slices.Contains(a.objects, one) {
					a.objects = append(a.objects, one)
				}
			case !isAgents(kind.kind, object, a.namespace):
				others = append(others, kind.kind+" "+output.Line(object.Name))
			}
		}
		if list.Continue != "" {
			others = append(others, "more "+kind.resource.Resource)
		}
	}
	return others, nil
}

// isRelease reports whether a Secret is the record of a Helm release.
func isRelease(object *metav1.PartialObjectMetadata, release string) bool {
	return object.Labels["owner"] == "helm" && object.Labels["name"] == release
}

// isAgents reports whether an object belongs to the agent of a namespace, or is in every namespace.
func isAgents(kind string, object *metav1.PartialObjectMetadata, namespace string) bool {
	switch {
	case kind == "ConfigMap" && object.Name == "kube-root-ca.crt", kind == "ServiceAccount" && object.Name == "default",
		kind == "Pod" && object.Labels["app"] == names.Agent, isRelease(object, names.Agent), isOfSet(object.Labels, namespace),
		object.Annotations["meta.helm.sh/release-name"] == names.Agent && object.Annotations["meta.helm.sh/release-namespace"] == namespace:
		return true
	}
	return slices.ContainsFunc(refs(namespace), func(one ref) bool { return one.kind == kind && one.name == object.Name })
}
