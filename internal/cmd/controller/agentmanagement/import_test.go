package agentmanagement_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// importer is the user of the kubeconfigs in the audit log of east.
const importer = "system:serviceaccount:default:importer"

func east(t *testing.T) *plane.Cluster {
	t.Helper()
	return control.Plane(t).Cluster("east")
}

// importerToken is the token of an administrator of east who does nothing but import.
var importerToken = sync.OnceValues(func() (string, error) {
	return accountToken("importer", &rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"})
})

// strangerToken is the token of an account of east that may do nothing.
var strangerToken = sync.OnceValues(func() (string, error) { return accountToken("stranger", nil) })

func accountToken(name string, role *rbacv1.RoleRef) (string, error) {
	started := control.Plane(quiet{})
	ctx, meta := context.Background(), metav1.ObjectMeta{Namespace: "default", Name: name}
	admin, err := client.New(started.Cluster("east").Config())
	if err != nil {
		return "", err
	}
	if _, err := admin.Kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if role != nil {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: *role,
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}
		if _, err := admin.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	token, err := admin.Kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// kubeconfig leads the importer to east, unless something of it is modified.
func kubeconfig(t *testing.T, modifiers ...func(*api.Cluster, *api.AuthInfo)) []byte {
	t.Helper()
	token, err := importerToken()
	if err != nil {
		t.Fatal(err)
	}
	cluster := &api.Cluster{Server: east(t).URL, CertificateAuthorityData: east(t).CA}
	user := &api.AuthInfo{Token: token}
	for _, modify := range modifiers {
		modify(cluster, user)
	}
	encoded, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"c": cluster}, AuthInfos: map[string]*api.AuthInfo{"u": user},
		Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func writeSecret(t *testing.T, hub *client.Client, namespace, name string, data map[string][]byte) {
	t.Helper()
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	secrets := hub.Kube.CoreV1().Secrets(namespace)
	_, err := secrets.Update(t.Context(), wanted, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(t.Context(), wanted, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newImport creates a Cluster that names the kubeconfig Secret of its own name; its agent gets a namespace of the same
// name, so that the Clusters of all tests can be imported into one.
func newImport(t *testing.T, hub *client.Client, workspace, name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	t.Helper()
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{"env": "test", "cattle.io/x": "y"}},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name, AgentNamespace: name},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	if err := hub.Create(t.Context(), client.Clusters, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitImported waits for the condition Imported; an empty reason is success.
func awaitImported(t *testing.T, hub *client.Client, c *fleet.Cluster, reason string) *fleet.Cluster {
	t.Helper()
	var found *fleet.Cluster
	eventually(t, func(g Gomega) {
		found = &fleet.Cluster{} // what is left out in JSON stays in an old one
		g.Expect(hub.Get(t.Context(), client.Clusters, c.Namespace, c.Name, found)).To(Succeed())
		imported := conditions.Get(found.Status.Conditions, "Imported")
		g.Expect(imported).NotTo(BeNil())
		g.Expect(imported.Reason).To(Equal(reason), imported.Message)
		if reason == "" {
			g.Expect(imported.Status).To(Equal(corev1.ConditionTrue))
			g.Expect(found.Status.AgentDeployedGeneration).To(HaveValue(Equal(found.Spec.RedeployAgentGeneration)))
			return
		}
		g.Expect(imported.Status).To(Equal(corev1.ConditionFalse))
		g.Expect(imported.Message).NotTo(BeEmpty())
	})
	return found
}

func TestImport_DeploysAnAgentThatCanJoin(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-import")
	began := time.Now()
	writeSecret(t, hub, ws, "c1", map[string][]byte{"value": kubeconfig(t)})
	c := awaitImported(t, hub, newImport(t, hub, ws, "c1"), "")
	t.Logf("imported after %s", time.Since(began))

	h := control.Plane(t).Hub
	hash, err := names.StatusHash(h.CA)
	g.Expect(err).NotTo(HaveOccurred())
	generation := int64(0)
	want := fleet.ClusterStatus{
		Namespace: names.ClusterNamespace(ws, "c1"), AgentDeployedGeneration: &generation,
		AgentMigrated: true, CattleNamespaceMigrated: true, AgentNamespaceMigrated: true, Agent: fleet.AgentStatus{Namespace: "c1"},
		APIServerURL: h.URL, APIServerCAHash: hash, AgentTLSMode: config.TLSModeSystemStore,
		GarbageCollectionInterval: &metav1.Duration{Duration: 15 * time.Minute},
	}
	got := c.Status
	got.Conditions = nil
	g.Expect(got).To(Equal(want))
	g.Expect(c.Spec.ClientID).To(HaveLen(54))

	identity := expectApplied(t, c)
	g.Expect(identity.APIServerURL).To(Equal(h.URL))
	g.Expect(identity.APIServerCA).To(Equal(h.CA))
	expectInSync(t, hub, c, began)
	expectJoins(t, identity, c)
}

// expectApplied compares what is in the agent's namespace downstream, and returns the identity it is given.
func expectApplied(t *testing.T, c *fleet.Cluster) protocol.Bootstrap {
	t.Helper()
	g, ctx, ns := NewWithT(t), t.Context(), c.Spec.AgentNamespace
	kube := reach(t, east(t).Config()).Kube
	namespace, err := kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	bootstrap, err := kube.CoreV1().Secrets(ns).Get(ctx, "fleet-agent-bootstrap", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	conf, err := kube.CoreV1().ConfigMaps(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	account, err := kube.CoreV1().ServiceAccounts(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	role, err := kube.RbacV1().ClusterRoles().Get(ctx, ns+"-fleet-agent-role", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	binding, err := kube.RbacV1().ClusterRoleBindings().Get(ctx, ns+"-fleet-agent-role-binding", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	policy, err := kube.NetworkingV1().NetworkPolicies(ns).Get(ctx, "default-allow-all", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	deployment, err := kube.AppsV1().Deployments(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	set := names.AgentSetID(ns)
	for _, object := range []metav1.Object{namespace, bootstrap, conf, account, role, binding, policy, deployment} {
		what := fmt.Sprintf("%T %s", object, object.GetName())
		g.Expect(object.GetLabels()).To(HaveKeyWithValue("objectset.rio.cattle.io/hash", names.SetHash(set, names.Owner{})), what)
		g.Expect(object.GetAnnotations()).To(HaveKeyWithValue("objectset.rio.cattle.io/id", set), what)
	}
	parsed, _, err := config.ParseAgent(conf.Data["config"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parsed.ClientID).To(Equal(c.Spec.ClientID))
	g.Expect(parsed.Labels).To(Equal(map[string]string{"env": "test"}))
	identity, err := protocol.ParseBootstrap(bootstrap.Data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.TokenName).To(Equal(names.ImportToken(c.Name)))
	g.Expect(identity.ClusterNamespace).To(Equal(c.Namespace))
	return identity
}

// expectInSync fails if the controllers ask anybody for anything when a Cluster is looked at again. After a while they
// look for the agent, which does not come here.
func expectInSync(t *testing.T, hub *client.Client, c *fleet.Cluster, began time.Time) {
	t.Helper()
	g, h := NewWithT(t), control.Plane(t).Hub
	awaitIdle(t, hub, c.Namespace+"-idle-1") // what the import itself has caused
	hubBefore, eastBefore := len(audited(t, h, controller, 0)), len(audited(t, east(t), importer, 0))
	for i := range 3 {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i)
		g.Expect(hub.Patch(t.Context(), client.Clusters, c.Namespace, c.Name, []byte(patch))).To(Succeed())
	}
	awaitIdle(t, hub, c.Namespace+"-idle-2")
	onHub, downstream := audited(t, h, controller, hubBefore), audited(t, east(t), importer, eastBefore)
	if took := time.Since(began); took > supervision.FirstInspection {
		t.Logf("after %s the controllers have looked for the agent already", took)
		return
	}
	for _, request := range onHub {
		if strings.Contains(request, " events ") {
			continue // of the import, which come when they can
		}
		if strings.HasSuffix(request, c.Namespace+"/"+names.RecoveryToken) {
			continue // of the workspace, until the API server has filled its Secret
		}
		if strings.Contains(request, c.Namespace+"/") || strings.Contains(request, c.Status.Namespace) {
			t.Errorf("a Cluster in sync caused: %s", request)
		}
	}
	for _, request := range downstream {
		if namespaceOf(request) == c.Spec.AgentNamespace {
			t.Errorf("a Cluster in sync caused: %s", request)
		}
	}
	if other := slices.IndexFunc(downstream, func(request string) bool {
		return !slices.Contains([]string{"", metav1.NamespaceSystem, c.Spec.AgentNamespace}, namespaceOf(request))
	}); other >= 0 {
		t.Logf("the controllers have looked for the agent of another test: %s", downstream[other])
		return
	}
	g.Expect(downstream).To(BeEmpty())
}

// namespaceOf returns the namespace in the text of a request, or "".
func namespaceOf(request string) string {
	namespace, _, found := strings.Cut(request[strings.LastIndexByte(request, ' ')+1:], "/")
	if !found {
		return ""
	}
	return namespace
}

// awaitIdle waits until the queue of Clusters has come past what is in it now.
func awaitIdle(t *testing.T, hub *client.Client, name string) {
	t.Helper()
	c := newImport(t, hub, workspace(t, hub, name), "last", func(c *fleet.Cluster) { c.Spec = fleet.ClusterSpec{ClientID: "last"} })
	eventually(t, func(g Gomega) {
		found := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, c.Namespace, c.Name, found)).To(Succeed())
		g.Expect(conditions.Get(found.Status.Conditions, "Imported")).NotTo(BeNil())
		_, err := hub.Kube.CoreV1().Namespaces().Get(t.Context(), names.ClusterNamespace(c.Namespace, c.Name), metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// expectJoins registers with what the agent was given, and fails unless that leads to the Cluster.
func expectJoins(t *testing.T, identity protocol.Bootstrap, c *fleet.Cluster) {
	t.Helper()
	g := NewWithT(t)
	holder := reach(t, as(control.Plane(t).Hub, identity.Token))
	a := agent{
		namespace: c.Spec.AgentNamespace, // as it says in each heartbeat: in another one, it would have to move
		request:   newRequest(c.Namespace, c.Spec.ClientID, "random", identity.TokenName), secret: names.CredentialSecret(c.Spec.ClientID, "random"),
	}
	eventually(t, func(g Gomega) { // rights take a moment to be in force
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, a.request)).To(Succeed())
	})
	eventually(t, func(g Gomega) {
		found, err := secret(t.Context(), holder, identity.SystemRegistrationNamespace, a.secret)
		g.Expect(err).NotTo(HaveOccurred())
		a.credential, err = protocol.ParseCredential(found.Data)
		g.Expect(err).NotTo(HaveOccurred())
	})
	g.Expect(a.credential.ClusterName).To(Equal(c.Name))
	g.Expect(a.credential.DeploymentNamespace).To(Equal(c.Status.Namespace))
	a.client = reach(t, as(control.Plane(t).Hub, a.credential.Token))
	g.Expect(a.beat(t.Context(), c.Name, time.Now())).To(Succeed())
}

func TestBrokenKubeconfig_IsReportedAndImportedAfterRepair(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-broken")
	stranger, err := strangerToken()
	if err != nil {
		t.Fatal(err)
	}
	with := func(modify func(*api.Cluster, *api.AuthInfo)) map[string][]byte {
		return map[string][]byte{"value": kubeconfig(t, modify)}
	}
	tests := map[string]struct {
		data   map[string][]byte // nil: no Secret
		modify func(*fleet.Cluster)
		reason string
	}{
		"exec": {reason: conditions.ReasonKubeconfigRefused, data: with(func(_ *api.Cluster, u *api.AuthInfo) {
			u.Exec = &api.ExecConfig{Command: "touch", Args: []string{filepath.Join(os.TempDir(), "never")}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		})},
		"file":         {reason: conditions.ReasonKubeconfigRefused, data: with(func(_ *api.Cluster, u *api.AuthInfo) { u.Token, u.TokenFile = "", "/etc/hostname" })},
		"unverified":   {reason: conditions.ReasonKubeconfigRefused, data: with(func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true })},
		"unreachable":  {reason: conditions.ReasonDownstreamUnreachable, data: with(func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" })},
		"untrusted":    {reason: conditions.ReasonTLSUntrusted, data: with(func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData = control.Plane(t).Hub.CA })},
		"unauthorized": {reason: conditions.ReasonDownstreamUnauthorized, data: with(func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "nobody's" })},
		"too-weak":     {reason: conditions.ReasonDownstreamForbidden, data: with(func(_ *api.Cluster, u *api.AuthInfo) { u.Token = stranger })},
		"malformed":    {reason: conditions.ReasonKubeconfigInvalid, data: map[string][]byte{"value": []byte("{")}},
		"other-key":    {reason: conditions.ReasonKubeconfigMissing, data: map[string][]byte{"config": kubeconfig(t)}},
		"missing":      {reason: conditions.ReasonKubeconfigMissing},
		"elsewhere": {reason: conditions.ReasonKubeconfigNamespaceRefused, data: map[string][]byte{"value": kubeconfig(t)},
			modify: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }},
	}
	clusters := map[string]*fleet.Cluster{}
	for name, test := range tests { // all at once: they do not wait for each other
		if test.data != nil {
			writeSecret(t, hub, ws, name, test.data)
		}
		modify := test.modify
		if modify == nil {
			modify = func(*fleet.Cluster) {}
		}
		clusters[name] = newImport(t, hub, ws, name, modify)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			broken := awaitImported(t, hub, clusters[name], test.reason)
			g.Expect(broken.Status.AgentDeployedGeneration).To(BeNil())
			text, err := json.Marshal(broken.Status.Conditions)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(text)).NotTo(ContainSubstring("127.0.0.1"), "messages do not change with addresses")
			writeSecret(t, hub, ws, name, map[string][]byte{"value": kubeconfig(t)})
			if test.modify != nil {
				g.Expect(hub.Patch(t.Context(), client.Clusters, ws, name, []byte(`{"spec":{"kubeConfigSecretNamespace":null}}`))).To(Succeed())
			}
			expectApplied(t, awaitImported(t, hub, clusters[name], ""))
		})
	}
}

func TestRepairedKubeconfig_IsTriedAtOnce(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-repaired")
	// The longer it was broken, the later it would be tried again: a busy machine is given more time.
	for failures, pause := 2, 4*time.Second; ; failures, pause = failures+1, 2*pause {
		took := repairAfter(t, hub, ws, failures)
		if took < pause-pause/8 {
			return
		}
		if failures == 6 {
			t.Fatalf("after %d failures it was imported %s after the repair", failures, took)
		}
		t.Logf("after %d failures it was imported %s after the repair", failures, took)
	}
}

// repairAfter repairs a kubeconfig after so many failures, and says how long after that the import was done.
func repairAfter(t *testing.T, hub *client.Client, ws string, failures int) time.Duration {
	t.Helper()
	name := fmt.Sprint("repaired-", failures)
	writeSecret(t, hub, ws, name, map[string][]byte{"value": kubeconfig(t, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" })})
	c := newImport(t, hub, ws, name)
	eventually(t, func(g Gomega) {
		log, err := os.ReadFile(filepath.Join(control.Plane(t).LogDir, "controllers.log"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Count(string(log), fmt.Sprintf(`msg="import failed" cluster=%s/%s`, ws, name))).To(BeNumerically(">=", failures))
	})
	repaired := time.Now()
	writeSecret(t, hub, ws, name, map[string][]byte{"value": kubeconfig(t)})
	awaitImported(t, hub, c, "")
	return time.Since(repaired)
}

func TestDeployedAgent_ChangesReregistersAndMoves(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-again")
	writeSecret(t, hub, ws, "again", map[string][]byte{"value": kubeconfig(t)})
	c := awaitImported(t, hub, newImport(t, hub, ws, "again"), "")
	downstream := reach(t, east(t).Config())
	writeSecret(t, downstream, "again", "fleet-agent", map[string][]byte{"kubeconfig": []byte("the agent's identity")})

	// A setting is changed in place.
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "again", []byte(`{"spec":{"hostNetwork":true}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		found := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, ws, "again", found)).To(Succeed())
		g.Expect(found.Status.AgentHostNetwork).To(BeTrue())
	})
	deployment, err := downstream.Kube.AppsV1().Deployments("again").Get(t.Context(), "fleet-agent", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deployment.Spec.Template.Spec.HostNetwork).To(BeTrue())
	_, err = secret(t.Context(), downstream, "again", "fleet-agent")
	g.Expect(err).NotTo(HaveOccurred(), "the agent keeps its identity")

	// A new registration takes the identity and gives the means to get another.
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "again", []byte(`{"spec":{"redeployAgentGeneration":1}}`))).To(Succeed())
	awaitImported(t, hub, c, "")
	_, err = secret(t.Context(), downstream, "again", "fleet-agent")
	g.Expect(err).To(notFound())
	expectApplied(t, c)

	// A move leaves nothing behind.
	g.Expect(hub.Patch(t.Context(), client.Clusters, ws, "again", []byte(`{"spec":{"agentNamespace":"moved"}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		found := &fleet.Cluster{}
		g.Expect(hub.Get(t.Context(), client.Clusters, ws, "again", found)).To(Succeed())
		g.Expect(found.Status.Agent.Namespace).To(Equal("moved"))
		g.Expect(found.Status.AgentDeployedGeneration).To(HaveValue(BeEquivalentTo(1)))
		expectNothingOf(t, g, downstream, "again")
	})
	c.Spec.AgentNamespace = "moved"
	expectApplied(t, c)
}

// expectNothingOf fails while there is anything of an agent in a namespace.
func expectNothingOf(t *testing.T, g Gomega, downstream *client.Client, ns string) {
	t.Helper()
	ctx, kube := t.Context(), downstream.Kube
	_, deployment := kube.AppsV1().Deployments(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	_, bootstrap := kube.CoreV1().Secrets(ns).Get(ctx, "fleet-agent-bootstrap", metav1.GetOptions{})
	_, conf := kube.CoreV1().ConfigMaps(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	_, account := kube.CoreV1().ServiceAccounts(ns).Get(ctx, "fleet-agent", metav1.GetOptions{})
	_, role := kube.RbacV1().ClusterRoles().Get(ctx, ns+"-fleet-agent-role", metav1.GetOptions{})
	_, binding := kube.RbacV1().ClusterRoleBindings().Get(ctx, ns+"-fleet-agent-role-binding", metav1.GetOptions{})
	for what, err := range map[string]error{"Deployment": deployment, "Secret": bootstrap, "ConfigMap": conf, "ServiceAccount": account, "ClusterRole": role, "ClusterRoleBinding": binding} {
		g.Expect(err).To(notFound(), what)
	}
}
