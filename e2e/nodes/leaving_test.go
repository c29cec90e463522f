//go:build linux

package nodes

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// more returns the additional objects of a cluster since before the installation, except those for which fine
// returns true, and those that Kubernetes creates in our namespaces as in all.
func more(ctx context.Context, cluster string, fine func(inventory.Object) bool) []string {
	GinkgoHelper()
	now, err := inventory.Take(ctx, world.Node(cluster).Config())
	Expect(err).NotTo(HaveOccurred())
	now = now.Without(func(o inventory.Object, _ time.Time) bool {
		return fine(o) || ofKubernetes(o)
	})
	var extra []string
	for _, difference := range before[cluster].Differs(now) {
		if strings.HasPrefix(difference, "+ ") {
			extra = append(extra, difference)
		}
	}
	return extra
}

// ofKubernetes reports whether an object is one that Kubernetes' components create in every namespace or for
// every node.
func ofKubernetes(o inventory.Object) bool {
	switch kind, _, _ := strings.Cut(o.Resource, "."); kind {
	case "leases":
		return strings.HasPrefix(o.Namespace, "kube-")
	case "configmaps":
		return o.Name == "kube-root-ca.crt" || o.Namespace == metav1.NamespaceSystem
	case "serviceaccounts":
		return o.Name == "default" || o.Namespace == metav1.NamespaceSystem
	case "endpoints", "endpointslices", "csinodes":
		return true
	}
	return strings.HasPrefix(o.Name, "system:") || strings.HasSuffix(o.Resource, ".metrics.k8s.io")
}

func leaving() {
	It("leaves nothing on the hub", func(ctx SpecContext) {
		var requests []types.UID
		for _, uid := range uncut {
			requests = append(requests, types.UID(uid))
		}
		clusterNamespace := eastern.Status.Namespace
		Expect(world.Hub.Delete(ctx, client.Clusters, framework.Workspace, east)).To(Succeed())
		Eventually(func(g Gomega) {
			_, err := world.Hub.Kube.CoreV1().Namespaces().Get(ctx, clusterNamespace, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its namespace is still there: %v", err)
			now, err := inventory.Take(ctx, world.Node(framework.HubName).Config())
			g.Expect(err).NotTo(HaveOccurred())
			var left []string
			for object := range now {
				if object.Namespace == clusterNamespace || strings.Contains(object.Name, clusterNamespace) ||
					slices.Contains([]string{names.ImportToken(east), names.AgentBundle(east), east}, object.Name) || slices.Contains(requests, object.UID) {
					left = append(left, object.String())
				}
			}
			g.Expect(left).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
	})

	It("leaves the workloads running", func(ctx SpecContext) {
		runs(ctx, east, "app-"+east, "app-"+east, 2)
	})
}

func uninstallingAgent() {
	It("leaves only the objects that Bundles have deployed", func(ctx SpecContext) {
		Expect(release(west, "fleet-agent", nil).Uninstall(ctx)).To(Succeed())
		Eventually(func() []string {
			return more(ctx, west, func(o inventory.Object) bool {
				return deployed(o) || (o.Resource == "namespaces" && o.Name == names.SystemNamespace)
			})
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(BeEmpty())
		runs(ctx, west, "app-"+west, "app-"+west, 2)
	})
}

// deployed reports whether an object was deployed by a Bundle: its namespace, the objects in it, or the release
// history of the agent's Bundle.
func deployed(o inventory.Object) bool {
	for _, name := range []string{"app-" + west, "after-restart", "after-controller", "after-leader"} {
		if o.Namespace == name || (o.Namespace == "" && o.Name == name) {
			return true
		}
	}
	return o.Resource == "secrets" && strings.HasPrefix(o.Name, "sh.helm.release.v1."+names.AgentBundle(western.Name)+".")
}

func uninstallingHub() {
	It("leaves only CRDs, their objects with owned objects, and workspaces", func(ctx SpecContext) {
		Expect(release(framework.HubName, "fleet", nil).Uninstall(ctx)).To(Succeed())
		Eventually(func() []string {
			return more(ctx, framework.HubName, func(o inventory.Object) bool {
				return strings.HasSuffix(o.Resource, "."+fleet.SchemeGroupVersion.Group) || strings.HasSuffix(o.Name, "."+fleet.SchemeGroupVersion.Group) ||
					strings.HasSuffix(o.Resource, "apiregistration.k8s.io") || owned(o)
			})
		}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(BeEmpty())
	})

	It("leaves Clusters that the next installation continues with", func(ctx SpecContext) {
		known := registrations(ctx, local)
		Expect(release(framework.HubName, "fleet", hubValues(nil)).Install(ctx)).To(Succeed())
		again := app("after-reinstall", map[string]string{"name": names.LocalCluster})
		again.Namespace = framework.LocalWorkspace
		Expect(world.Hub.Create(ctx, client.Bundles, again)).To(Succeed())
		runs(ctx, framework.HubName, again.Name, again.Name, 2)
		Expect(registrations(ctx, local)).To(Equal(known))
	})
}

// owned reports whether an object outlives the release, so that the next release finds its clusters unchanged:
// workspaces, the Clusters' namespaces, the hub's key and document, the blocked tickets of deleted Clusters, and the credentials,
// keys and rights of agents, including the hub's own agent.
func owned(o inventory.Object) bool {
	for _, namespace := range []string{framework.Workspace, framework.LocalWorkspace, names.RegistrationNamespace(names.SystemNamespace), local.Status.Namespace, western.Status.Namespace} {
		if o.Namespace == namespace || (o.Resource == "namespaces" && (o.Name == namespace || o.Name == names.SystemNamespace)) {
			return true
		}
	}
	if o.Namespace == names.SystemNamespace {
		return strings.HasPrefix(o.Name, names.Agent) || strings.HasPrefix(o.Name, "sh.helm.release.v1."+names.Agent) ||
			strings.HasPrefix(o.Name, "sh.helm.release.v1.fleet-crd.") || o.Name == "default-allow-all" ||
			o.Name == names.HubKey || strings.HasPrefix(o.Name, names.DeletedClusters)
	}
	if o.Namespace == metav1.NamespacePublic {
		return o.Resource == "configmaps" && o.Name == names.HubDocument
	}
	if o.Namespace == metav1.NamespaceSystem {
		return o.Resource == "secrets" && o.Name == names.RecoverySecret(names.SystemNamespace)
	}
	return strings.HasPrefix(o.Resource, "clusterrole") && (contentreaders.IsBinding(o.Name) || strings.HasPrefix(o.Name, names.SystemNamespace+"-"+names.Agent) ||
		slices.Contains([]string{"fleet-bundle-deployment", "fleet-content"}, o.Name))
}

func dying() {
	It("ends all processes of the lab", func(ctx SpecContext) {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		dir, err := os.MkdirTemp("", "doomed-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		caller := exec.CommandContext(ctx, filepath.Join(dir, doomed))
		Expect(os.Symlink(self, caller.Path)).To(Succeed())
		caller.Env, caller.Stderr = append(os.Environ(), "TMPDIR="+dir), GinkgoWriter
		output, err := caller.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(caller.Start()).To(Succeed())
		var mark nodes.Mark
		Expect(json.NewDecoder(bufio.NewReader(output)).Decode(&mark)).To(Succeed())
		Expect(mark.Traces()).NotTo(BeEmpty())
		Expect(caller.Process.Kill()).To(Succeed())
		Expect(caller.Wait()).To(MatchError(ContainSubstring("killed")))
		Eventually(mark.Traces).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
	})
}
