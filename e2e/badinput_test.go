package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// careless is the workspace of users who make mistakes. All its Clusters are one cluster with several agents,
// each in its own namespace.
const careless = "careless"

// mistake describes a user's mistake and its correction.
type mistake struct {
	// make creates the wrong object, named after the Cluster, before the Cluster is created. mend corrects it.
	// Both may be nil.
	make, mend func(ctx SpecContext, name string)
	// cluster makes the Cluster itself wrong. patch is the merge patch of its spec that corrects it.
	cluster func(*fleet.Cluster)
	patch   string
	// reason is the reason of condition Imported, or of condition. remedy is the part of the message that
	// contains the remedy.
	reason, remedy string
	condition      string
}

// says returns the type of the condition that reports the mistake.
func (m mistake) says() string {
	if m.condition == "" {
		return conditions.Imported
	}
	return m.condition
}

// create makes the mistake and creates the Cluster.
func (m mistake) create(ctx SpecContext, name string) {
	GinkgoHelper()
	if m.make != nil {
		m.make(ctx, name)
	}
	cluster := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: careless, Name: name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name, AgentNamespace: name},
	}
	if m.cluster != nil {
		m.cluster(cluster)
	}
	Expect(world.Hub.Create(ctx, client.Clusters, cluster)).To(Succeed())
}

// wrongKubeconfig returns a mistake in the Secret that the Cluster names.
func wrongKubeconfig(reason, remedy string, data func() map[string][]byte) mistake {
	return mistake{
		make:   func(ctx SpecContext, name string) { writeSecret(ctx, careless, name, data()) },
		mend:   goodKubeconfig,
		reason: reason, remedy: remedy,
	}
}

// modified returns a function that returns the data of a Secret with a changed kubeconfig.
func modified(modify func(*api.Config, *api.Cluster, *api.AuthInfo)) func() map[string][]byte {
	return func() map[string][]byte {
		GinkgoHelper()
		loaded, err := clientcmd.Load(world.Cluster(spare).Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		inUse := loaded.Contexts[loaded.CurrentContext]
		modify(loaded, loaded.Clusters[inUse.Cluster], loaded.AuthInfos[inUse.AuthInfo])
		written, err := clientcmd.Write(*loaded)
		Expect(err).NotTo(HaveOccurred())
		return map[string][]byte{protocol.KubeconfigValueKey: written}
	}
}

func goodKubeconfig(ctx SpecContext, name string) {
	GinkgoHelper()
	writeSecret(ctx, careless, name, map[string][]byte{protocol.KubeconfigValueKey: world.Cluster(spare).Kubeconfig})
}

func writeSecret(ctx SpecContext, namespace, name string, data map[string][]byte) {
	GinkgoHelper()
	secrets, wanted := world.Hub.Kube.CoreV1().Secrets(namespace), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	_, err := secrets.Update(ctx, wanted, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(ctx, wanted, metav1.CreateOptions{})
	}
	Expect(err).NotTo(HaveOccurred())
}

// configured returns a mistake in the hub's configuration: keys with wrong values.
func configured(reason, remedy string, wrong map[string]any) mistake {
	var before map[string]any
	return mistake{
		make: func(ctx SpecContext, name string) {
			goodKubeconfig(ctx, name)
			before = configure(ctx, wrong)
			DeferCleanup(func(ctx SpecContext) { configure(ctx, before) }) // in every case, because other stories use this hub too
		},
		mend:   func(ctx SpecContext, _ string) { configure(ctx, before) },
		reason: reason, remedy: remedy,
	}
}

// configure sets keys of the hub's configuration at once, and returns their previous values.
func configure(ctx SpecContext, keys map[string]any) (before map[string]any) {
	GinkgoHelper()
	configs := world.Hub.Kube.CoreV1().ConfigMaps(names.SystemNamespace)
	found, err := configs.Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var document map[string]any
	Expect(yaml.Unmarshal([]byte(found.Data[names.ConfigKey]), &document)).To(Succeed())
	before = map[string]any{}
	for key, value := range keys {
		before[key], document[key] = document[key], value
	}
	text, err := json.Marshal(document)
	Expect(err).NotTo(HaveOccurred())
	found.Data[names.ConfigKey] = string(text)
	_, err = configs.Update(ctx, found, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return before
}

var _ = Describe("A user makes a mistake", Ordered, func() {
	var undisturbed func(SpecContext)
	// together are the mistakes that are made before the first story, so that their waits overlap.
	together := map[string]mistake{}
	early := func(description, name string, m mistake) TableEntry {
		together[name] = m
		return Entry(description, name, m)
	}

	BeforeAll(func(ctx SpecContext) {
		Expect(world.Hub.EnsureNamespace(ctx, careless)).To(Succeed())
		undisturbed = watchOver(ctx, imported(ctx), east)
		for _, name := range slices.Sorted(maps.Keys(together)) {
			together[name].create(ctx, name)
		}
	})

	DescribeTable("with a cluster: a condition says what to do, and after that the cluster joins", func(ctx SpecContext, name string, m mistake) {
		if _, made := together[name]; !made {
			m.create(ctx, name)
		}
		DeferCleanup(forget, name)

		broken, err := client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: careless, Name: name, For: "the reason " + m.reason, Within: framework.Patience,
		}, func(c *fleet.Cluster) bool { return reasonOf(c.Status.Conditions, m.says()) == m.reason })
		Expect(err).NotTo(HaveOccurred())
		expectTold(ctx, broken, broken.Status.Conditions, m.says(), m.remedy)

		if m.mend != nil {
			m.mend(ctx, name)
		}
		if m.patch != "" {
			Expect(world.Hub.Patch(ctx, client.Clusters, careless, name, []byte(`{"spec":`+m.patch+`}`))).To(Succeed())
		}
		_, err = world.Joined(ctx, careless, name, framework.Named(name))
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Clusters, Namespace: careless, Name: name, For: "no reason", Within: framework.Patience,
		}, func(c *fleet.Cluster) bool {
			return reasonOf(c.Status.Conditions, conditions.Imported) == "" && reasonOf(c.Status.Conditions, m.says()) == ""
		})
		Expect(err).NotTo(HaveOccurred())
	},
		early("a kubeconfig that runs a command", "exec", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "use a token", modified(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.Exec = &api.ExecConfig{Command: "touch", Args: []string{filepath.Join(GinkgoT().TempDir(), "never")}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		}))),
		// Soon: the longer pods are rejected, the longer the ReplicaSet waits before the next try.
		early("a quota that leaves the agent no room", "quota", mistake{
			make: func(ctx SpecContext, name string) {
				goodKubeconfig(ctx, name)
				Expect(world.On(spare).EnsureNamespace(ctx, name)).To(Succeed())
				none := corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}
				_, err := world.On(spare).Kube.CoreV1().ResourceQuotas(name).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: none}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			},
			mend: func(ctx SpecContext, name string) {
				Expect(world.On(spare).Kube.CoreV1().ResourceQuotas(name).Delete(ctx, "none", metav1.DeleteOptions{})).To(Succeed())
			},
			reason: conditions.ReasonAgentPodRejected, remedy: "ResourceQuota none",
		}),
		early("a kubeconfig with an auth-provider", "auth-provider", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "use a token", modified(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.AuthProvider = &api.AuthProviderConfig{Name: "gcp"}
		}))),
		early("a kubeconfig with the path of a CA", "ca-file", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "embed the data", modified(func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
			c.CertificateAuthority, c.CertificateAuthorityData = "/etc/ssl/ca.crt", nil
		}))),
		early("a kubeconfig with the path of a certificate", "cert-file", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "embed the data", modified(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.ClientCertificate, u.ClientCertificateData = "/etc/ssl/client.crt", nil
		}))),
		early("a kubeconfig with the path of a key", "key-file", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "embed the data", modified(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.ClientKey, u.ClientKeyData = "/etc/ssl/client.key", nil
		}))),
		early("a kubeconfig with the path of a token", "token-file", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "embed the data", modified(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			*u = api.AuthInfo{TokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"}
		}))),
		early("a kubeconfig that verifies nothing", "insecure", wrongKubeconfig(conditions.ReasonKubeconfigRefused, "embed the server's CA", modified(func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		}))),
		early("a kubeconfig with several contexts, none of them current", "contexts", wrongKubeconfig(conditions.ReasonKubeconfigInvalid, "set current-context", modified(func(k *api.Config, _ *api.Cluster, _ *api.AuthInfo) {
			k.Contexts["another"], k.CurrentContext = k.Contexts[k.CurrentContext].DeepCopy(), ""
		}))),
		early("a kubeconfig whose current context is not in it", "context", wrongKubeconfig(conditions.ReasonKubeconfigInvalid, "set current-context", modified(func(k *api.Config, _ *api.Cluster, _ *api.AuthInfo) {
			k.CurrentContext = "gone"
		}))),
		early("an invalid kubeconfig", "malformed", wrongKubeconfig(conditions.ReasonKubeconfigInvalid, "kubectl config view", func() map[string][]byte {
			return map[string][]byte{protocol.KubeconfigValueKey: []byte("{")}
		})),
		early("a kubeconfig under another key of its Secret", "other-key", wrongKubeconfig(conditions.ReasonKubeconfigMissing, "put the kubeconfig there", func() map[string][]byte {
			return map[string][]byte{"config": world.Cluster(spare).Kubeconfig}
		})),
		early("a kubeconfig with another cluster's CA", "untrusted", wrongKubeconfig(conditions.ReasonTLSUntrusted, "put the right certificate-authority-data", modified(func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
			c.CertificateAuthorityData = world.Plane.Hub.CA
		}))),
		early("no Secret", "missing", mistake{mend: goodKubeconfig, reason: conditions.ReasonKubeconfigMissing, remedy: "create it"}),
		early("a Secret in a namespace that is not allowed", "elsewhere", mistake{
			make:    goodKubeconfig,
			cluster: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }, patch: `{"kubeConfigSecretNamespace":null}`,
			reason: conditions.ReasonKubeconfigNamespaceRefused, remedy: "move the Secret",
		}),
		early("a client ID that another Cluster has", "twin", mistake{
			make: func(ctx SpecContext, name string) {
				goodKubeconfig(ctx, name)
				older := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: careless, Name: "an-older-twin"}, Spec: fleet.ClusterSpec{ClientID: "of-a-twin"}}
				Expect(world.Hub.Create(ctx, client.Clusters, older)).To(Succeed())
			},
			cluster: func(c *fleet.Cluster) { c.Spec.ClientID = "of-a-twin" }, patch: `{"clientID":"of-the-other-twin"}`,
			reason: conditions.ReasonClientIDAmbiguous, remedy: "a client ID of its own",
		}),
		early("neither a client ID nor a kubeconfig", "nobody", mistake{
			make:    goodKubeconfig,
			cluster: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }, patch: `{"kubeConfigSecret":"nobody"}`,
			reason: conditions.ReasonClientIDMissing, remedy: "set spec.clientID",
		}),
		early("a Secret that has the name of the import token's values", "blocked", mistake{
			make: func(ctx SpecContext, name string) {
				goodKubeconfig(ctx, name)
				writeSecret(ctx, careless, names.ImportToken(name), nil)
			},
			mend: func(ctx SpecContext, name string) {
				Expect(world.Hub.Kube.CoreV1().Secrets(careless).Delete(ctx, names.ImportToken(name), metav1.DeleteOptions{})).To(Succeed())
			},
			reason: conditions.ReasonTokenBlocked, remedy: "see its condition Ready",
		}),
		early("a kubeconfig that leads to a black hole", "hole", wrongKubeconfig(conditions.ReasonDownstreamUnreachable, "check that its address is right", modified(func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
			listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(listener.Close)
			c.Server = "https://" + listener.Addr().String()
		}))),
		early("an address of the hub that the agent cannot reach", "never", mistake{
			make: func(ctx SpecContext, name string) {
				writeSecret(ctx, careless, name, map[string][]byte{
					protocol.KubeconfigValueKey: world.Cluster(spare).Kubeconfig, protocol.APIServerURLKey: []byte("https://127.0.0.1:1"),
				})
			},
			mend:      goodKubeconfig,
			condition: conditions.AgentReporting, reason: conditions.ReasonAgentNotReporting, remedy: "check its pods",
		}),
		Entry("no URL of the hub anywhere", "no-url", configured(conditions.ReasonHubURLMissing, "set apiServerURL", map[string]any{"apiServerURL": ""})),
		Entry("an unknown TLS mode", "lax", configured(conditions.ReasonTLSModeUnknown, "set it to", map[string]any{"agentTLSMode": "lax"})),
		Entry("a strict TLS mode and no CA", "no-ca", configured(conditions.ReasonHubCAMissing, "set apiServerCA", map[string]any{"agentTLSMode": "strict", "apiServerCA": nil})),
	)

	DescribeTable("with a Bundle: a condition says what to do, and after that the Bundle is ready", func(ctx SpecContext, name string, wrong func(*fleet.Bundle), says string) {
		cluster := imported(ctx)
		good := chart(only(greeting(framework.Workspace, name, ""), cluster.Labels), map[string]any{"text": "at last"})
		bad := good.DeepCopy()
		wrong(bad)
		Expect(world.Hub.Create(ctx, client.Bundles, bad)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Hub.Delete(ctx, client.Bundles, framework.Workspace, name)).To(Succeed())
		})
		broken, err := client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: name, For: "the reason", Within: framework.Patience,
		}, func(b *fleet.Bundle) bool {
			return reasonOf(b.Status.Conditions, conditions.Ready) == conditions.ReasonError
		})
		Expect(err).NotTo(HaveOccurred())
		expectTold(ctx, broken, broken.Status.Conditions, conditions.Ready, says)

		patch, err := json.Marshal(map[string]any{"spec": good.Spec})
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Hub.Patch(ctx, client.Bundles, framework.Workspace, name, patch)).To(Succeed())
		_, err = world.ConfigMap(ctx, east, name, name, func(c *corev1.ConfigMap) bool { return c.Data["text"] == "at last" })
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Until(ctx, client.Await{
			From: world.Hub.Fleet, Resource: client.Bundles, Namespace: framework.Workspace, Name: name, For: "the Bundle to be ready", Within: framework.Patience,
		}, func(b *fleet.Bundle) bool {
			ready := conditions.Get(b.Status.Conditions, conditions.Ready)
			return b.Status.ObservedGeneration == b.Generation && ready != nil && ready.Status == corev1.ConditionTrue && ready.Reason == ""
		})
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("whose chart cannot be parsed", "no-chart", func(b *fleet.Bundle) { b.Spec.Resources[2].Content = "a: b: c\n" }, "YAML parse error"),
		Entry("whose template cannot be parsed", "no-template", func(b *fleet.Bundle) { b.Spec.Resources[2].Content = "a: {{ .Values" }, "unclosed action"),
		Entry("whose selector cannot be parsed", "no-selector", func(b *fleet.Bundle) {
			b.Spec.Targets[0].ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Resembles"}}
		}, `"Resembles" is not a valid label selector operator`),
	)

	It("and other clusters are not affected", func(ctx SpecContext) { undisturbed(ctx) })
})

// forget removes a careless Cluster and its agent.
func forget(ctx SpecContext, name string) {
	GinkgoHelper()
	Expect(world.Hub.Delete(ctx, client.Clusters, careless, name)).To(Succeed())
	Expect(world.On(spare).Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

func reasonOf(list []genericcondition.GenericCondition, conditionType string) string {
	condition := conditions.Get(list, conditionType)
	if condition == nil {
		return "(none)"
	}
	return condition.Reason
}

// expectTold fails unless a condition and an Event about the object contain the remedy.
func expectTold(ctx SpecContext, about client.Object, list []genericcondition.GenericCondition, conditionType, remedy string) {
	GinkgoHelper()
	condition := conditions.Get(list, conditionType)
	Expect(condition.Status).To(Equal(corev1.ConditionFalse))
	Expect(condition.Message).To(ContainSubstring(remedy))
	Expect(condition.Message).NotTo(ContainSubstring(strings.TrimPrefix(world.Cluster(spare).URL, "https://")), "messages do not change with addresses")
	Eventually(func(g Gomega) {
		events, err := world.Hub.Kube.CoreV1().Events(about.GetNamespace()).List(ctx, metav1.ListOptions{
			FieldSelector: fmt.Sprintf("involvedObject.uid=%s,reason=%s", about.GetUID(), condition.Reason),
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(HaveLen(1))
		g.Expect(events.Items[0].Type).To(Equal(corev1.EventTypeWarning))
		g.Expect(events.Items[0].Message).To(Equal(condition.Message))
		g.Expect(events.Items[0].Count).To(BeNumerically("==", 1))
	}).WithContext(ctx).WithTimeout(framework.Patience).Should(Succeed())
}

// watchOver records the state of a cluster. The returned function fails if the cluster was disturbed since then:
// its agent was replaced, was restarted, has registered again, sends no heartbeats, or has lost a Bundle.
func watchOver(ctx SpecContext, cluster *fleet.Cluster, downstream string) func(SpecContext) {
	GinkgoHelper()
	type condition struct {
		pod           types.UID
		restarts      int32
		registrations []string
		ready         string
	}
	look := func(ctx SpecContext) (condition, *fleet.Cluster) {
		GinkgoHelper()
		pod, err := world.AgentPod(ctx, downstream)
		Expect(err).NotTo(HaveOccurred())
		registrations, err := world.Registrations(ctx, cluster.Namespace, cluster.Spec.ClientID)
		Expect(err).NotTo(HaveOccurred())
		var now fleet.Cluster
		Expect(world.Hub.Get(ctx, client.Clusters, cluster.Namespace, cluster.Name, &now)).To(Succeed())
		return condition{pod.UID, framework.Restarts(pod), registrations, reasonOf(now.Status.Conditions, conditions.Imported)}, &now
	}
	_, _, err := world.Managed(ctx, downstream, cluster) // until then the agent may still change
	Expect(err).NotTo(HaveOccurred())
	before, _ := look(ctx)
	return func(ctx SpecContext) {
		GinkgoHelper()
		after, now := look(ctx)
		Expect(after).To(Equal(before))
		_, err := world.SeenAfter(ctx, now, now.Status.Agent.LastSeen.Time, framework.Patience)
		Expect(err).NotTo(HaveOccurred())
	}
}
