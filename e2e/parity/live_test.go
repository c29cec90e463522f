package parity_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/e2e/parity"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// resources are the recorded resources by kind.
var resources = map[string]schema.GroupVersionResource{
	"BundleDeployment":         fleet.SchemeGroupVersion.WithResource("bundledeployments"),
	"Bundle":                   fleet.SchemeGroupVersion.WithResource("bundles"),
	"ClusterGroup":             fleet.SchemeGroupVersion.WithResource("clustergroups"),
	"ClusterRegistration":      fleet.SchemeGroupVersion.WithResource("clusterregistrations"),
	"ClusterRegistrationToken": fleet.SchemeGroupVersion.WithResource("clusterregistrationtokens"),
	"Cluster":                  fleet.SchemeGroupVersion.WithResource("clusters"),
	"Content":                  fleet.SchemeGroupVersion.WithResource("contents"),
	"ClusterRoleBinding":       {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"RoleBinding":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"Role":                     {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"ConfigMap":                {Version: "v1", Resource: "configmaps"},
	"Namespace":                {Version: "v1", Resource: "namespaces"},
	"Secret":                   {Version: "v1", Resource: "secrets"},
	"ServiceAccount":           {Version: "v1", Resource: "serviceaccounts"},
	"Deployment":               {Group: "apps", Version: "v1", Resource: "deployments"},
	"Lease":                    {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"NetworkPolicy":            {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
}

func (s *situation) dynamic(t *testing.T, cluster string) dynamic.Interface {
	t.Helper()
	found, err := dynamic.NewForConfig(s.Cluster(cluster).Config())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// objects returns the current objects of the recorded kinds, in the form of the recorded ones.
func (s *situation) objects(t *testing.T, g Gomega) []parity.Object {
	t.Helper()
	var all []parity.Object
	for cluster, kinds := range s.kinds {
		for _, kind := range kinds {
			list, err := s.dynamic(t, cluster).Resource(resources[kind]).List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for i := range list.Items {
				if !isKubernetes(&list.Items[i]) {
					all = append(all, parity.Live(cluster, &list.Items[i]))
				}
			}
		}
	}
	return all
}

// isKubernetes reports whether an object exists in every cluster, even without Fleet.
func isKubernetes(o *unstructured.Unstructured) bool {
	place := o.GetNamespace()
	if o.GetKind() == "Namespace" {
		place = o.GetName()
	}
	switch {
	case place == "default" || strings.HasPrefix(place, "kube-"), o.GetLabels()["kubernetes.io/bootstrapping"] != "":
		return true
	case o.GetKind() == "ConfigMap":
		return o.GetName() == "kube-root-ca.crt"
	case o.GetKind() == "ServiceAccount":
		return o.GetName() == "default" && len(o.GetLabels()) == 0
	}
	return strings.HasPrefix(o.GetName(), "system:")
}
