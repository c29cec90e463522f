package capi_test

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// Groups of Cluster API.
const (
	coreGroup      = "cluster.x-k8s.io"
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

// Kinds of the provider.
const (
	existingCluster, existingClusters = "ExistingCluster", "existingclusters"
	existingPlane, existingPlanes     = "ExistingControlPlane", "existingcontrolplanes"
	providerVersion                   = "v1"
)

// providerCRD is a kind of the provider, by its group, plural and kind.
const providerCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.%[1]s
  labels: {cluster.x-k8s.io/v1beta2: v1}
spec:
  group: %[1]s
  names: {kind: %[3]s, plural: %[2]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// installProvider installs the kinds of the provider that the tests play.
func (w *world) installProvider(ctx context.Context) error {
	crds := w.objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, kind := range [][]any{{infrastructure, existingClusters, existingCluster}, {controlPlane, existingPlanes, existingPlane}} {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(fmt.Appendf(nil, providerCRD, kind...), &crd.Object); err != nil {
			return err
		}
		if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// resource returns a client for objects of a kind in the workspace.
func (w *world) resource(group, version, resource string) dynamic.ResourceInterface {
	return w.objects.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(framework.Workspace)
}

// capiClusters returns a client for Clusters of Cluster API.
func (w *world) capiClusters(version string) dynamic.ResourceInterface {
	return w.resource(coreGroup, version, "clusters")
}

// object returns an object of the provider.
func object(group, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + providerVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// describe creates a Cluster of Cluster API with its infrastructure, which is provisioned, and a control plane that is
// not initialized. It is what a user applies.
func (s *story) describe(name, version string, labels map[string]string) {
	s.t.Helper()
	server, err := url.Parse(s.Cluster(s.on).URL)
	s.must(err)
	port, err := strconv.ParseInt(server.Port(), 10, 64)
	s.must(err)
	endpoint := map[string]any{"host": server.Hostname(), "port": port}
	s.create(s.resource(infrastructure, providerVersion, existingClusters), object(infrastructure, existingCluster, name, map[string]any{"controlPlaneEndpoint": endpoint}))
	s.setStatus(infrastructure, existingClusters, name, `{"status":{"initialization":{"provisioned":true}}}`)
	s.create(s.resource(controlPlane, providerVersion, existingPlanes), object(controlPlane, existingPlane, name, map[string]any{}))
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": coreGroup + "/" + version, "kind": "Cluster",
		"spec": map[string]any{
			"infrastructureRef": reference(version, infrastructure, existingCluster, name),
			"controlPlaneRef":   reference(version, controlPlane, existingPlane, name),
		},
	}}
	cluster.SetName(name)
	cluster.SetLabels(labels)
	s.create(s.capiClusters(version), cluster)
}

// reference refers to an object of the provider, in the form of a version of Cluster API.
func reference(version, group, kind, name string) map[string]any {
	if version == "v1beta1" {
		return map[string]any{"apiVersion": group + "/" + providerVersion, "kind": kind, "name": name, "namespace": framework.Workspace}
	}
	return map[string]any{"apiGroup": group, "kind": kind, "name": name}
}

// create creates an object. Kinds are new here, so the API server and the core may not know them yet.
func (s *story) create(client dynamic.ResourceInterface, object *unstructured.Unstructured) {
	s.t.Helper()
	s.eventually(func(g Gomega) {
		_, err := client.Create(s.ctx, object, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) { // the answer to an earlier attempt could not be converted
			g.Expect(err).NotTo(HaveOccurred())
		}
	})
}

func (s *story) setStatus(group, resource, name, patch string) {
	s.t.Helper()
	_, err := s.resource(group, providerVersion, resource).Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	s.must(err)
}

// initialize reports that the control plane answers.
func (s *story) initialize(name string) {
	s.t.Helper()
	s.setStatus(controlPlane, existingPlanes, name, `{"status":{"initialization":{"controlPlaneInitialized":true},"externalManagedControlPlane":true}}`)
}

// kubeconfig returns a kubeconfig of a cluster with a new token of an administrator's account there.
func (s *story) kubeconfig(name, account string) []byte {
	s.t.Helper()
	kube := s.On(s.on).Kube
	_, err := kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.must(err)
	}
	_, err = kube.RbacV1().ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceSystem, Name: account}},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.must(err)
	}
	week := int64(7 * 24 * 60 * 60) // longer than the time of the warning KubeconfigExpiring
	token, err := kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(s.ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &week}}, metav1.CreateOptions{})
	s.must(err)
	cluster := s.Cluster(s.on)
	content, err := pki.Access{Name: name, URL: cluster.URL, CA: cluster.CA, Token: token.Status.Token}.Kubeconfig()
	s.must(err)
	return content
}

// hand writes the kubeconfig Secret of a cluster, as the provider of its control plane does.
func (s *story) hand(name string, kubeconfig []byte) {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: name + "-kubeconfig"},
		Type:       "cluster.x-k8s.io/secret",
	}
	secrets := s.Hub.Kube.CoreV1().Secrets(framework.Workspace)
	existing, err := secrets.Get(s.ctx, secret.Name, metav1.GetOptions{})
	if err == nil {
		existing.Data = map[string][]byte{protocol.KubeconfigValueKey: kubeconfig}
		_, err = secrets.Update(s.ctx, existing, metav1.UpdateOptions{})
		s.must(err)
		return
	}
	if !apierrors.IsNotFound(err) {
		s.must(err)
	}
	owner, err := s.resource(controlPlane, providerVersion, existingPlanes).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	secret.Labels = map[string]string{coreGroup + "/cluster-name": name}
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}}
	secret.Data = map[string][]byte{protocol.KubeconfigValueKey: kubeconfig}
	_, err = secrets.Create(s.ctx, secret, metav1.CreateOptions{})
	s.must(err)
}

// provide describes a cluster and does all that its provider has to do.
func (s *story) provide(name string, labels map[string]string) {
	s.t.Helper()
	s.describe(name, "v1beta2", labels)
	s.hand(name, s.kubeconfig(name, provider))
	s.initialize(name)
}

// provider is the account in the kubeconfigs of the provider.
const provider = "capi-provider"

// patch changes the Cluster of Cluster API.
func (s *story) patch(name, patch string) {
	s.t.Helper()
	_, err := s.capiClusters("v1beta2").Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

// remove deletes the Cluster of Cluster API and waits until the core has removed it with the provider's objects.
func (s *story) remove(name string) {
	s.t.Helper()
	s.must(s.capiClusters("v1beta2").Delete(s.ctx, name, metav1.DeleteOptions{}))
	s.removed(name)
}

// removed waits until the Cluster of Cluster API does not exist.
func (s *story) removed(name string) {
	s.t.Helper()
	s.eventually(func(g Gomega) {
		_, err := s.capiClusters("v1beta2").Get(s.ctx, name, metav1.GetOptions{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Cluster of Cluster API exists: %v", err)
	})
}
