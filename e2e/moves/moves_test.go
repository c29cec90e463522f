package moves

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// prepare installs the other hub and creates the other workspace, once for all stories.
var prepare = sync.OnceValue(func() error {
	ctx := context.Background()
	if err := world.Hub.EnsureNamespace(ctx, team); err != nil {
		return err
	}
	values := settings()
	values["garbageCollectionInterval"] = soon
	return world.InstallHubOn(ctx, isle, values)
})

// mover is cluster fen in a story. Each place has the Bundle everywhere for it, and the first one also the Bundle before.
type mover struct {
	name, everywhere, before string

	uids map[string]types.UID // of the objects of everywhere, and the records of its release
	stop context.CancelFunc   // ends the watches; nil before they begin

	mu      sync.Mutex
	deleted []string
}

func newMover(name string) *mover {
	return &mover{name: name, everywhere: name + "-everywhere", before: name + "-before"}
}

// place is the label of the Cluster.
func (m *mover) place() string { return "place=" + m.name }

// bundles returns the Bundles, by the hub that has them.
func (m *mover) bundles() map[string][]*fleet.Bundle {
	return map[string][]*fleet.Bundle{
		hub:  {m.bundle(framework.Workspace, m.everywhere), m.bundle(framework.Workspace, m.before), m.bundle(team, m.everywhere)},
		isle: {m.bundle(framework.Workspace, m.everywhere)},
	}
}

// begin creates the Bundles.
func (m *mover) begin(ctx SpecContext) {
	GinkgoHelper()
	Expect(prepare()).To(Succeed())
	for on, bundles := range m.bundles() {
		for _, bundle := range bundles {
			Expect(world.On(on).Create(ctx, client.Bundles, bundle)).To(Succeed())
		}
	}
}

// end deletes the Bundles and ends the watches.
func (m *mover) end(ctx SpecContext) {
	GinkgoHelper()
	if m.stop != nil {
		m.stop()
	}
	for on, bundles := range m.bundles() {
		for _, bundle := range bundles {
			Expect(world.On(on).Delete(ctx, client.Bundles, bundle.Namespace, bundle.Name)).To(Succeed())
		}
	}
}

// bundle returns a Bundle with a ConfigMap, in a namespace of its name.
func (m *mover) bundle(workspace, name string) *fleet.Bundle {
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: name},
			Resources:               []fleet.BundleResource{{Name: "configmap.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"}},
			Targets:                 []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"place": m.name}}}},
		},
	}
}

// inNamespace returns the UIDs of the ConfigMaps and the release records of a namespace.
func (m *mover) inNamespace(ctx SpecContext, namespace string) map[string]types.UID {
	GinkgoHelper()
	core, found := world.On(fen).Kube.CoreV1(), map[string]types.UID{}
	configMaps, err := core.ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range configMaps.Items {
		found["ConfigMap "+configMaps.Items[i].Name] = configMaps.Items[i].UID
	}
	secrets, err := core.Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	Expect(err).NotTo(HaveOccurred())
	for i := range secrets.Items {
		found["Secret "+secrets.Items[i].Name] = secrets.Items[i].UID
	}
	return found
}

// settle waits until both Bundles are deployed, and records all deletions in the namespace of the first one from now on.
func (m *mover) settle(ctx SpecContext) {
	GinkgoHelper()
	for _, name := range []string{m.everywhere, m.before} {
		Eventually(func() map[string]types.UID { return m.inNamespace(ctx, name) }).WithContext(ctx).WithTimeout(framework.Patience).
			Should(And(HaveKey("ConfigMap "+name), HaveKey("Secret sh.helm.release.v1."+name+".v1")))
	}
	m.uids = m.inNamespace(ctx, m.everywhere)
	factory := informers.NewSharedInformerFactoryWithOptions(world.On(fen).Kube, 0, informers.WithNamespace(m.everywhere))
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().Secrets().Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
			key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object) // cannot fail: these are objects
			m.mu.Lock()
			defer m.mu.Unlock()
			m.deleted = append(m.deleted, key)
		}})
		Expect(err).NotTo(HaveOccurred())
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // longer than this step of the story
	factory.Start(watching.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		Expect(synced).To(BeTrue())
	}
	m.stop = stop
}

// hasMoved waits until the Bundle of the new place is ready on the cluster, and expects that it has continued the release.
func (m *mover) hasMoved(ctx SpecContext, to, workspace string) {
	GinkgoHelper()
	_, err := client.Until(ctx, client.Await{
		From: world.On(to).Fleet, Resource: client.Clusters, Namespace: workspace, Name: fen, For: "two ready Bundles", Within: framework.Patience,
	}, func(c *fleet.Cluster) bool { return c.Status.Summary.DesiredReady == 2 && c.Status.Summary.Ready == 2 })
	Expect(err).NotTo(HaveOccurred())
	Expect(run(ctx, "", "doctor", "cluster", fen, "--context", to, "-n", workspace).Code).To(Equal(exit.Done))
	now := m.inNamespace(ctx, m.everywhere)
	for object, uid := range m.uids {
		Expect(now).To(HaveKeyWithValue(object, uid))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	Expect(m.deleted).To(BeEmpty())
	Eventually(func() error {
		_, err := world.AgentPod(ctx, fen) // the only one
		return err
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
}

// losesBefore waits until the release is uninstalled that only the first place asked for.
func (m *mover) losesBefore(ctx SpecContext) {
	GinkgoHelper()
	Eventually(func() map[string]types.UID { return m.inNamespace(ctx, m.before) }).WithContext(ctx).WithTimeout(framework.Patience).
		ShouldNot(HaveKey("ConfigMap " + m.before))
}

var _ = Describe("A cluster that has joined moves", Ordered, func() {
	m := newMover("joined")
	BeforeAll(m.begin)
	AfterAll(m.end)

	It("from its first workspace", func(ctx SpecContext) {
		joined := run(ctx, "", "join", "--hub-context", hub, "--context", fen, "--label", m.place())
		Expect(joined.Code).To(Equal(exit.Done), joined.Stderr)
		m.settle(ctx)
	})

	It("to another workspace, with the text of the new place in its hand before it has left", func(ctx SpecContext) {
		created := run(ctx, "", "token", "create", fen, "--cluster", fen, "-n", team, "--label", m.place())
		Expect(created.Code).To(Equal(exit.Done), created.Stderr)
		text, err := transcript.JoinText(created.Stdout)
		Expect(err).NotTo(HaveOccurred())
		refused := run(ctx, text, "join", "--context", fen)
		Expect(refused.Code).To(Equal(exit.Refused), refused.Stderr)
		Expect(advice(refused)).To(Equal([]string{"unregister", fen, "-n", framework.Workspace, "--keep-workloads"}))
		var first fleet.Cluster // still works
		Expect(world.Hub.Get(ctx, client.Clusters, framework.Workspace, fen, &first)).To(Succeed())
		Expect(first.Status.Agent.LastSeen.IsZero()).To(BeFalse())

		Expect(run(ctx, "", advice(refused)...).Code).To(Equal(exit.Done))
		moved := run(ctx, text, "join", "--context", fen)
		Expect(moved.Code).To(Equal(exit.Done), moved.Stderr)
		Expect(moved.Stdout).To(HavePrefix("joined as Cluster " + team + "/" + fen))
		m.hasMoved(ctx, hub, team)
		Expect(m.inNamespace(ctx, m.before)).To(HaveKey("ConfigMap " + m.before))
	})

	It("to another hub", func(ctx SpecContext) {
		gone := run(ctx, "", "unregister", fen, "-n", team, "--keep-workloads")
		Expect(gone.Code).To(Equal(exit.Done), gone.Stderr)
		moved := run(ctx, "", "join", "--hub-context", isle, "--context", fen, "--label", m.place(), "--set", "garbageCollectionInterval="+soon)
		Expect(moved.Code).To(Equal(exit.Done), moved.Stderr)
		m.hasMoved(ctx, isle, framework.Workspace)
		m.losesBefore(ctx)
	})

	It("nowhere else", func(ctx SpecContext) {
		Expect(run(ctx, "", "unregister", fen, "--context", isle, "--keep-workloads", "--cluster-context", fen).Code).To(Equal(exit.Done))
		Expect(world.AgentRemains(ctx, fen)).To(BeEmpty())
	})
})

var _ = Describe("An imported cluster moves", Ordered, func() {
	m := newMover("imported")
	BeforeAll(m.begin)
	AfterAll(m.end)

	It("from its first workspace", func(ctx SpecContext) {
		imported := run(ctx, "", "import", fen, "--cluster-context", fen, "--label", m.place())
		Expect(imported.Code).To(Equal(exit.Done), imported.Stderr)
		m.settle(ctx)
	})

	It("to another workspace, once it has left", func(ctx SpecContext) {
		refused := run(ctx, "", "import", fen, "-n", team, "--cluster-context", fen, "--label", m.place())
		Expect(refused.Code).To(Equal(exit.Refused), refused.Stderr)
		Expect(run(ctx, "", advice(refused)...).Code).To(Equal(exit.Done))
		moved := run(ctx, "", "import", fen, "-n", team, "--cluster-context", fen, "--label", m.place())
		Expect(moved.Code).To(Equal(exit.Done), moved.Stderr)
		m.hasMoved(ctx, hub, team)
		Expect(m.inNamespace(ctx, m.before)).To(HaveKey("ConfigMap " + m.before))
	})

	It("to another hub, once it has left", func(ctx SpecContext) {
		again := []string{"import", fen, "--context", isle, "--cluster-context", fen, "--label", m.place()}
		refused := run(ctx, "", again...)
		Expect(refused.Code).To(Equal(exit.Refused), refused.Stderr)
		Expect(refused.Stderr).To(ContainSubstring("reason: AnotherHub"))
		gone := run(ctx, "", "unregister", fen, "-n", team, "--keep-workloads", "--keep-agent", "--cluster-context", fen)
		Expect(gone.Code).To(Equal(exit.Done), gone.Stderr)
		Expect(gone.Stdout).To(And(ContainSubstring("deleted on fen: HubMark cattle-fleet-system/fleet-agent\n"), ContainSubstring("deleted on fen: ServiceAccount kube-system/")))
		moved := run(ctx, "", again...)
		Expect(moved.Code).To(Equal(exit.Done), moved.Stderr)
		m.hasMoved(ctx, isle, framework.Workspace)
		m.losesBefore(ctx)
	})

	It("back, with a token", func(ctx SpecContext) {
		gone := run(ctx, "", "unregister", fen, "--context", isle, "--keep-workloads", "--keep-agent", "--cluster-context", fen)
		Expect(gone.Code).To(Equal(exit.Done), gone.Stderr)
		moved := run(ctx, "", "join", "--hub-context", hub, "-n", team, "--context", fen, "--label", m.place())
		Expect(moved.Code).To(Equal(exit.Done), moved.Stderr)
		m.hasMoved(ctx, hub, team)
		Expect(run(ctx, "", "unregister", fen, "-n", team, "--keep-workloads", "--cluster-context", fen).Code).To(Equal(exit.Done))
		Expect(world.AgentRemains(ctx, fen)).To(BeEmpty())
	})
})
