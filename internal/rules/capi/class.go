package capi

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// classOf reads the ClusterClass of a Cluster: v1beta2 has a reference, v1beta1 has a name and a namespace. It returns the
// zero value for a Cluster without one, and for names that no ClusterClass can have.
func classOf(workspace string, topology map[string]any) types.NamespacedName {
	ref := field(topology, "classRef")
	name, namespace := text(ref, "name"), text(ref, "namespace")
	if name == "" {
		name, namespace = text(topology, "class"), text(topology, "classNamespace")
	}
	if namespace == "" {
		namespace = workspace
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// ClassID identifies a ClusterClass in a workspace: it is the value of label fleet.LabelCAPIClass, and the name of the
// ClusterGroup. It is the name of the ClusterClass, unless that is too long. A ClusterClass of another namespace has its
// namespace in front and a hash, so that it has the ID of no ClusterClass of the workspace.
func ClassID(workspace string, class types.NamespacedName) string {
	switch {
	case class.Name == "":
		return ""
	case class.Namespace == workspace:
		return names.SafeConcat(class.Name)
	}
	return names.SafeConcat(class.Namespace+"."+class.Name, names.KeyHash(class.Namespace+"::"+class.Name))
}

func text(of map[string]any, name string) string {
	value, _ := of[name].(string)
	return value
}
