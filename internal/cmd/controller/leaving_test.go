package controller_test

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// member is a cluster that has joined a workspace, as far as a hub can see.
type member struct {
	workspace, name, namespace, request, credential string
}

// owns says whether an object of the hub is the cluster's and nobody else's.
func (m member) owns(o inventory.Object) bool {
	return o.Namespace == m.namespace || o.Resource == "namespaces" && o.Name == m.namespace ||
		strings.HasPrefix(o.Name, m.request) || o.Name == m.credential || o.Namespace == m.workspace && o.Name == names.AgentBundle(m.name)
}

// join lets a cluster join a workspace with the workspace's token, be heard of, and get the workspace's Bundle.
func join(t *testing.T, hub *client.Client, workspace, name string) member {
	t.Helper()
	g := NewWithT(t)
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "t1"}}
	bundle := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "hello"}, Spec: fleet.BundleSpec{
		Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: "# " + workspace}},
		Targets:   []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}},
	}}
	bundle.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": "b"}}}
	g.Expect(hub.Create(t.Context(), client.Tokens, token)).To(Or(Succeed(), MatchError(apierrors.IsAlreadyExists, "is there")))
	g.Expect(hub.Create(t.Context(), client.Bundles, bundle)).To(Or(Succeed(), MatchError(apierrors.IsAlreadyExists, "is there")))
	cluster := newCluster(t, hub, workspace, name)
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, GenerateName: "request-", Labels: map[string]string{fleet.LabelRegistrationToken: "t1"}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: name, ClientRandom: "random of " + workspace},
	}
	g.Expect(hub.Create(t.Context(), client.ClusterRegistrations, request)).To(Succeed())
	joined := member{workspace, name, cluster.Status.Namespace, request.Name, names.CredentialSecret(name, request.Spec.ClientRandom)}
	g.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ClusterRegistrations, workspace, request.Name, request)).To(Succeed())
		g.Expect(request.Status.Granted).To(BeTrue())
		_, err := hub.Kube.CoreV1().Secrets(workspace).Get(t.Context(), "t1", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}).WithTimeout(patience).Should(Succeed())
	seen := `{"status":{"agent":{"lastSeen":"2026-11-21T08:00:00Z","namespace":"cattle-fleet-system"}}}`
	g.Expect(hub.Fleet.Patch(types.MergePatchType).Namespace(workspace).Resource(client.Clusters).Name(name).SubResource("status").Body([]byte(seen)).Do(t.Context()).Error()).To(Succeed())
	g.Eventually(func(g Gomega) {
		for _, deployment := range []string{"hello", names.AgentBundle(name)} {
			g.Expect(hub.Get(t.Context(), client.BundleDeployments, joined.namespace, deployment, &fleet.BundleDeployment{})).To(Succeed())
		}
		_, err := hub.Kube.CoreV1().Secrets(names.RegistrationNamespace(system)).Get(t.Context(), joined.credential, metav1.GetOptions{})
		g.Expect(err).To(MatchError(apierrors.IsNotFound, "deleted at its first use"))
	}).WithTimeout(patience).Should(Succeed())
	return joined
}

// take is what is on the hub, without what a workspace keeps for recoveries, without Contents, which are kept for a while,
// and without the bindings with which agents read them: others may share them. See expectShared.
func take(t *testing.T) inventory.Inventory {
	t.Helper()
	taken, err := inventory.Take(t.Context(), control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	return taken.Without(func(o inventory.Object, _ time.Time) bool {
		recovers := o.Name == names.Recovery || o.Name == names.RecoveryToken || strings.HasPrefix(o.Name, names.DeletedClusters)
		return recovers || o.Resource == "contents.fleet.cattle.io" || contentreaders.IsBinding(o.Name)
	})
}

// takeWhole is take once each namespace has what Kubernetes puts into it.
func takeWhole(t *testing.T, g Gomega) inventory.Inventory {
	t.Helper()
	taken := take(t)
	g.Expect(taken.Lacking()).To(BeEmpty())
	return taken
}

// awaitRest waits until nothing is going any more that another test has left: no namespace, no Cluster, no namespace
// whose Cluster is gone already.
func awaitRest(t *testing.T, hub *client.Client) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		namespaces, err := hub.Kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for _, namespace := range namespaces.Items {
			g.Expect(namespace.DeletionTimestamp).To(BeNil(), namespace.Name)
			if of := namespace.Annotations; of[fleet.AnnotationCluster] != "" {
				cluster := &fleet.Cluster{}
				g.Expect(hub.Get(t.Context(), client.Clusters, of[fleet.AnnotationClusterNamespace], of[fleet.AnnotationCluster], cluster)).To(Succeed())
				g.Expect(cluster.DeletionTimestamp).To(BeNil(), namespace.Name)
			}
		}
	}).WithTimeout(2 * patience).Should(Succeed())
}

// expectGone waits until the hub has exactly those objects less than before.
func expectGone(t *testing.T, before inventory.Inventory, gone func(inventory.Object) bool) {
	t.Helper()
	var want []string
	for object := range before {
		if gone(object) {
			want = append(want, "- "+object.String())
		}
	}
	slices.Sort(want)
	NewWithT(t).Eventually(func() []string { return before.Differs(take(t)) }).WithTimeout(2 * patience).Should(Equal(want))
	expectShared(t)
}

// expectShared waits until the bindings by which agents read Contents are for accounts that are there, and for somebody.
func expectShared(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		core, rbac := hub(t).Kube.CoreV1(), hub(t).Kube.RbacV1()
		bindings, err := rbac.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"})
		g.Expect(err).NotTo(HaveOccurred())
		for _, binding := range bindings.Items {
			g.Expect(binding.Subjects).NotTo(BeEmpty(), binding.Name)
			for _, account := range binding.Subjects {
				_, err := core.ServiceAccounts(account.Namespace).Get(t.Context(), account.Name, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred(), "%s is for %s/%s", binding.Name, account.Namespace, account.Name)
			}
		}
	}).WithTimeout(patience).Should(Succeed())
}

// force deletes an object with the finalizers taken off.
func force(t *testing.T, hub *client.Client, resource, namespace, name string) {
	t.Helper()
	g := NewWithT(t)
	gone := MatchError(apierrors.IsNotFound, "gone with its owner")
	g.Expect(hub.Patch(t.Context(), resource, namespace, name, []byte(`{"metadata":{"finalizers":null}}`))).To(Or(Succeed(), gone))
	g.Expect(hub.Delete(t.Context(), resource, namespace, name)).To(Succeed())
}

// restart lets something happen while no controller is there, and returns the one that comes after it.
func restart(t *testing.T, meanwhile func()) *process {
	t.Helper()
	ended := leading
	leading = nil // another one is started when it is asked for
	if code := ended.stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, ended.Log())
	}
	meanwhile()
	hub(t)
	return leading
}

func TestOrphans_AreDeletedAtStartup(t *testing.T) {
	hub := hub(t)
	awaitRest(t, hub)
	east := join(t, hub, workspace(t, hub, "ws-orphans"), "east")
	join(t, hub, workspace(t, hub, "ws-alive"), "west")
	var before inventory.Inventory
	replica := restart(t, func() {
		force(t, hub, client.Clusters, east.workspace, east.name)
		force(t, hub, client.Bundles, east.workspace, "hello")
		force(t, hub, client.ClusterRegistrations, east.workspace, east.request)
		force(t, hub, client.Tokens, east.workspace, "t1")
		// What is in the namespace of its owner, Kubernetes removes by itself.
		NewWithT(t).Eventually(func(g Gomega) {
			before = takeWhole(t, g)
			for object := range before {
				if object.Namespace == east.workspace {
					g.Expect(object.String()).To(Or(HavePrefix("serviceaccounts ws-orphans/default "), HavePrefix("configmaps ws-orphans/kube-root-ca.crt "), HavePrefix("bundles.fleet.cattle.io ws-orphans/fleet-agent-east ")))
				}
			}
		}).WithTimeout(2 * patience).Should(Succeed())
	})
	expectGone(t, before, east.owns)
	// Without this record, the agent would create the Cluster again with its ticket.
	record := names.SafeConcat(names.DeletedClusters, east.workspace, names.KeyHash(east.workspace))
	if _, err := hub.Kube.CoreV1().ConfigMaps(system).Get(t.Context(), record, metav1.GetOptions{}); err != nil {
		t.Errorf("the tickets of the deleted Cluster are valid: %v", err)
	}
	// The line is written after the last of them went, but for the namespace.
	swept := func() []string { return regexp.MustCompile(`msg="orphans swept.*`).FindAllString(replica.Log(), -1) }
	NewWithT(t).Eventually(swept).WithTimeout(patience).Should(Equal([]string{
		`msg="orphans swept" total=5 rolebindings=1 serviceaccounts=1 bundles=1 bundledeployments=2`,
	}))
}

func TestDeletedWorkspace_DeletesItsClusters(t *testing.T) {
	tests := map[string]struct {
		workspace string
		deleted   func(t *testing.T, del func())
	}{
		"while the controllers run": {"ws-leaves", func(_ *testing.T, del func()) { del() }},
		"while no controller runs":  {"ws-left", func(t *testing.T, del func()) { restart(t, del) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hub(t)
			awaitRest(t, hub)
			members := []member{join(t, hub, workspace(t, hub, test.workspace), "east"), join(t, hub, test.workspace, "west")}
			join(t, hub, workspace(t, hub, test.workspace+"-not"), "south")
			var before inventory.Inventory
			NewWithT(t).Eventually(func(g Gomega) { before = takeWhole(t, g) }).WithTimeout(patience).Should(Succeed())
			past := len(refused(t))
			test.deleted(t, func() {
				NewWithT(t).Expect(hub.Kube.CoreV1().Namespaces().Delete(t.Context(), test.workspace, metav1.DeleteOptions{})).To(Succeed())
			})
			expectGone(t, before, func(o inventory.Object) bool {
				return o.Namespace == test.workspace || o.Resource == "namespaces" && o.Name == test.workspace || members[0].owns(o) || members[1].owns(o)
			})
			// Nothing can be made in a namespace that goes. A cache may be late to say so, once or twice for each.
			if tried := refused(t)[past:]; len(tried) > 8 {
				t.Errorf("%d refusals:\n%s", len(tried), strings.Join(tried, "\n"))
			}
		})
	}
}

// refused are the requests of the controllers that the hub has refused since it runs: 403 and 422.
func refused(t *testing.T) (requests []string) {
	t.Helper()
	file, err := os.Open(control.Plane(t).Hub.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var entry struct {
			Stage, Verb, RequestURI string
			User                    struct{ Username string }
			ResponseStatus          struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			continue // the line that is being written
		}
		code := entry.ResponseStatus.Code
		if entry.Stage == "ResponseComplete" && entry.User.Username == "system:serviceaccount:"+system+":"+account && (code == 403 || code == 422) {
			requests = append(requests, entry.Verb+" "+entry.RequestURI+": "+entry.ResponseStatus.Message)
		}
	}
	return requests
}
