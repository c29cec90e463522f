package walls_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	attacker = "tenant-a"
	// ahead and the attacker's workspace are the victim's, so that an object with ahead behind its name has the set hash of
	// the victim's object of that name.
	ahead  = "non"
	victim = ahead + attacker
	// neutral is a tenant whose objects show how far the controllers are.
	neutral = "tenant-c"
	// adminUser is the workspace admin of the attacker.
	adminUser = "mallory"
	// token is the name of both tenants' ClusterRegistrationToken.
	token = "join"
	// patience is how long one thing may take that takes milliseconds.
	patience = 2 * time.Minute
)

// tenant is a workspace with one cluster that has joined by a token.
type tenant struct {
	workspace, cluster, clientID string
	// namespace is the cluster's.
	namespace string
}

func tenantOf(workspace, cluster string) tenant {
	return tenant{
		workspace: workspace, cluster: cluster, clientID: "client-" + cluster,
		namespace: names.ClusterNamespace(workspace, cluster),
	}
}

// world is a hub with its controllers and two tenants.
type world struct {
	*framework.User
	site     *plane.Cluster
	attacker tenant
	victim   tenant
	neutral  tenant
	replica  *replica.Replica
	metrics  string
	busy     map[string]queue
	swarm    *swarm.Swarm
	// credentials are the agents', by workspace.
	credentials map[string]*protocol.Credential
}

// newWorld installs the product, and starts the controllers under the account of the chart.
func newWorld(ctx context.Context) (*world, error) {
	site := control.Plane(quiet{}).Hub
	user, err := framework.NewUser(site.LogDir, framework.Site{
		Name: framework.HubName, URL: site.URL, CA: site.CA, Kubeconfig: site.Kubeconfig, Config: site.Config(),
	})
	if err != nil {
		return nil, err
	}
	w := &world{
		User: user, site: site,
		attacker: tenantOf(attacker, "a1"), victim: tenantOf(victim, "b1"), neutral: tenantOf(neutral, "c1"),
		swarm: swarm.New(swarm.Options{}), credentials: map[string]*protocol.Credential{},
	}
	if err := w.InstallHub(ctx, map[string]any{"bootstrap": map[string]any{"enabled": false}, "plainValuesInSecrets": true}); err != nil {
		return nil, err
	}
	if err := w.startControllers(ctx); err != nil {
		return nil, err
	}
	controllers = w.replica
	if err := w.addHubSecrets(ctx); err != nil {
		return nil, err
	}
	for workspace, accepted := range map[string]string{victim: neutral, neutral: "none"} {
		if err := w.limitBundles(ctx, workspace, accepted); err != nil {
			return nil, err
		}
	}
	for _, who := range []tenant{w.victim, w.neutral, w.attacker} {
		if err := w.addTenant(ctx, who); err != nil {
			return nil, err
		}
	}
	// The controllers give values their owner a while later; nothing else of the victim changes afterwards.
	_, err = client.Until(ctx, client.Await{
		From: w.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: w.victim.namespace, Name: "shop",
		For: "its owner", Within: patience,
	}, func(s *corev1.Secret) bool { return len(s.OwnerReferences) > 0 })
	if err != nil {
		return nil, err
	}
	return w, w.addAdmin(ctx)
}

func (w *world) startControllers(ctx context.Context) error {
	access, err := w.accountAccess(ctx, names.SystemNamespace, "fleet-controller")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(w.site.LogDir, "controllers-kubeconfig")
	if err := os.WriteFile(kubeconfig, access, 0o600); err != nil {
		return err
	}
	w.replica, err = replica.Start(replica.Options{
		Name: "controllers", Folder: w.site.LogDir, Kubeconfig: kubeconfig, Args: []string{"--disable-bootstrap"},
	})
	return err
}

// accountAccess is a kubeconfig with a token of an account.
func (w *world) accountAccess(ctx context.Context, namespace, account string) ([]byte, error) {
	accounts := w.Hub.Kube.CoreV1().ServiceAccounts(namespace)
	minted, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return pki.Access{Name: "hub", URL: w.site.URL, CA: w.site.CA, Token: minted.Status.Token}.Kubeconfig()
}

// addHubSecrets makes what the hub itself has to keep: the kubeconfig of its own cluster, which may do everything, and
// a Secret in each namespace of the system.
func (w *world) addHubSecrets(ctx context.Context) error {
	if err := w.Hub.EnsureNamespace(ctx, framework.LocalWorkspace); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "hub-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "hub-admin"}},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "hub-admin"}}
	accounts := w.Hub.Kube.CoreV1().ServiceAccounts(account.Namespace)
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := w.Hub.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	kubeconfig, err := w.accountAccess(ctx, account.Namespace, account.Name)
	if err != nil {
		return err
	}
	data := map[string]string{protocol.KubeconfigValueKey: string(kubeconfig)}
	if err := w.addSecret(ctx, framework.LocalWorkspace, names.LocalKubeconfig, data); err != nil {
		return err
	}
	for _, namespace := range []string{names.SystemNamespace, metav1.NamespaceSystem, framework.Workspace} {
		if err := w.addSecret(ctx, namespace, "db", map[string]string{"password": canaryOf(namespace, "db")}); err != nil {
			return err
		}
	}
	return nil
}

// canaryOf is the text of a Secret that its owner alone may read.
func canaryOf(namespace, name string) string {
	return "canary-of-" + namespace + "-" + name + "-5c1f0e77a9"
}

func (w *world) addSecret(ctx context.Context, namespace, name string, data map[string]string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
	_, err := w.Hub.Kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// limitBundles makes a workspace that accepts the Bundles of those that are listed only.
func (w *world) limitBundles(ctx context.Context, workspace, accepted string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: workspace, Annotations: map[string]string{annotation.AcceptBundlesFrom: accepted},
	}}
	_, err := w.Hub.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return err
}

// addTenant makes a workspace with Secrets, a token, a cluster whose agent has joined, and a Bundle that it runs.
func (w *world) addTenant(ctx context.Context, who tenant) error {
	if err := w.Hub.EnsureNamespace(ctx, who.workspace); err != nil {
		return err
	}
	for _, name := range []string{"db", "kubeconfig"} {
		data := map[string]string{
			"password": canaryOf(who.workspace, name), protocol.KubeconfigValueKey: canaryOf(who.workspace, "kubeconfig"),
		}
		if err := w.addSecret(ctx, who.workspace, name, data); err != nil {
			return err
		}
	}
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: who.workspace, Name: "db"},
		Data:       map[string]string{"url": canaryOf(who.workspace, "url")},
	}
	if _, err := w.Hub.Kube.CoreV1().ConfigMaps(who.workspace).Create(ctx, config, metav1.CreateOptions{}); err != nil {
		return err
	}
	joining := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: who.workspace, Name: token}}
	if err := w.Hub.Create(ctx, client.Tokens, joining); err != nil {
		return err
	}
	for _, object := range who.objects() {
		if err := w.Hub.Create(ctx, object.resource, object.object); err != nil {
			return err
		}
	}
	return w.join(ctx, who)
}

type resourced struct {
	resource string
	object   client.Object
}

// objects are the tenant's Cluster, the groups it is in, and its Bundle.
func (who tenant) objects() []resourced {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: who.workspace, Name: name, Labels: map[string]string{"env": "prod"}}
	}
	cluster := &fleet.Cluster{ObjectMeta: meta(who.cluster)}
	cluster.Spec.ClientID = who.clientID
	cluster.Spec.TemplateValues = &fleet.GenericMap{Data: map[string]any{"region": canaryOf(who.workspace, "region")}}
	group := &fleet.ClusterGroup{ObjectMeta: meta("all")}
	group.Spec.Selector = &metav1.LabelSelector{}
	bundle := &fleet.Bundle{ObjectMeta: meta("shop")}
	bundle.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	bundle.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: "# of " + who.workspace + "\n"}}
	bundle.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{
		"password": canaryOf(who.workspace, "values"), "round": `${ get .ClusterLabels "round" }`,
	}}}
	bundle.Spec.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "db"}, {Kind: "ConfigMap", Name: "db"}}
	return []resourced{{client.Clusters, cluster}, {client.ClusterGroups, group}, {client.Bundles, bundle}}
}

// join registers the tenant's agent with its token, lets it work until it has reported the tenant's Bundles, and ends
// it: from then on nothing of the tenant changes by itself.
func (w *world) join(ctx context.Context, who tenant) error {
	values, err := w.tokenValues(ctx, who.workspace)
	if err != nil {
		return err
	}
	agent := w.swarm.Add(swarm.Settings{ClientID: who.clientID, Values: &values})
	w.swarm.Start(ctx, agent)
	defer agent.Stop()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := agent.Await(waiting, func(s swarm.State) bool { return swarm.Settled(s) && s.Reports >= 2 }); err != nil {
		return err
	}
	w.credentials[who.workspace] = agent.Credential()
	_, err = client.Until(ctx, client.Await{
		From: w.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: who.namespace, Name: "db",
		For: "the copy of a Secret", Within: patience,
	}, func(*corev1.Secret) bool { return true })
	if err != nil {
		return err
	}
	return w.awaitUse(ctx)
}

// awaitUse waits until all answers to requests are gone, with the rights to read them: the hub deletes them after the
// first use.
func (w *world) awaitUse(ctx context.Context) error {
	core, rbac := w.Hub.Kube.CoreV1().Secrets(registrationNamespace), w.Hub.Kube.RbacV1()
	answers := metav1.ListOptions{FieldSelector: "type=" + string(protocol.SecretTypeCredential)}
	readers := metav1.ListOptions{LabelSelector: fleet.LabelAnswers}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		secrets, err := core.List(ctx, answers)
		if err != nil {
			return false, err
		}
		bindings, err := rbac.RoleBindings(registrationNamespace).List(ctx, readers)
		if err != nil {
			return false, err
		}
		roles, err := rbac.Roles(registrationNamespace).List(ctx, readers)
		return err == nil && len(secrets.Items)+len(bindings.Items)+len(roles.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the used answers are deleted: %w", err)
	}
	return nil
}

// tokenValues are those that the token of a workspace hands out.
func (w *world) tokenValues(ctx context.Context, workspace string) (protocol.Values, error) {
	secret, err := client.Until(ctx, client.Await{
		From: w.Hub.Kube.CoreV1().RESTClient(), Resource: "secrets", Namespace: workspace, Name: token,
		For: "the token's values", Within: patience,
	}, func(s *corev1.Secret) bool {
		return s.Type == protocol.SecretTypeValues && len(s.Data[protocol.ValuesKey]) > 0
	})
	if err != nil {
		return protocol.Values{}, err
	}
	return protocol.ParseValues(secret.Data[protocol.ValuesKey])
}

// addAdmin gives a user the rights of a workspace admin: all kinds of fleet.cattle.io, Secrets and ConfigMaps in the
// workspace and in the namespace of its cluster, and ServiceAccounts in the workspace. Roles and RoleBindings are the
// hub operator's, who also has some of his own there, named as a tenant could name a request.
func (w *world) addAdmin(ctx context.Context) error {
	for namespace, core := range map[string][]string{
		w.attacker.workspace: {"secrets", "configmaps", "serviceaccounts"},
		w.attacker.namespace: {"secrets", "configmaps"},
	} {
		rules := []rbacv1.PolicyRule{
			{APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: core, Verbs: []string{
				"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
			}},
		}
		admin := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: adminUser}
		if err := w.grant(ctx, namespace, "workspace-admin", rules, admin); err != nil {
			return err
		}
	}
	auditor := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.attacker.workspace, Name: "auditor"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}}}
	return w.grant(ctx, w.attacker.workspace, "auditor", rules, auditor)
}

// grant gives away rights, which may be given already.
func (w *world) grant(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, to rbacv1.Subject) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	_, err := w.Hub.Kube.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = w.Hub.Kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{to},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// identities of the attacker.
const (
	asAdmin = "admin"
	asAgent = "agent"
	asToken = "token"
)

// configs are how the attacker's identities reach the hub.
func (w *world) configs(ctx context.Context) (map[string]*rest.Config, error) {
	admin := w.site.Config()
	admin.Impersonate = rest.ImpersonationConfig{UserName: adminUser, Groups: []string{"system:authenticated"}}
	values, err := w.tokenValues(ctx, w.attacker.workspace)
	if err != nil {
		return nil, err
	}
	return map[string]*rest.Config{
		asAdmin: admin,
		asToken: w.bearing(values.Token),
		asAgent: w.bearing(w.credentials[w.attacker.workspace].Token),
	}, nil
}

func (w *world) bearing(token string) *rest.Config {
	return &rest.Config{Host: w.site.URL, TLSClientConfig: rest.TLSClientConfig{CAData: w.site.CA}, BearerToken: token}
}

// clientOf has no rate limit.
func clientOf(config *rest.Config) (dynamic.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return dynamic.NewForConfig(config)
}

// queueMetric is a line with the number of keys that were added to a queue, or that were worked on. To parse all metrics
// costs ten times as much.
var queueMetric = regexp.MustCompile(`workqueue_(adds_total|work_duration_seconds_count)\{name="([^"]+)"\} (\S+)`)

var metricsAt = regexp.MustCompile(`msg=starting .*\bmetrics=(\S+)`)

// queue counts the keys that were put into one of the controllers' queues so far, and those that are done.
type queue struct{ added, done float64 }

// queues are all of them, by name. There are none before the controllers have started.
func (w *world) queues(ctx context.Context) (map[string]queue, error) {
	if w.metrics == "" {
		at := metricsAt.FindStringSubmatch(w.replica.Log())
		if at == nil {
			return nil, nil
		}
		w.metrics = "http://" + at[1] + "/metrics"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.metrics, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // not compressed
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the controllers for their metrics: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]queue{}
	for _, line := range queueMetric.FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			return nil, err
		}
		q := all[line[2]]
		if line[1] == "adds_total" {
			q.added = value
		} else {
			q.done = value
		}
		all[line[2]] = q
	}
	return all, nil
}

// quiet returns when the controllers have nothing left to do: all queues are empty and were so when they were looked at
// before, with nothing added in between. The error names the queues that are not.
func (w *world) quiet(ctx context.Context) error {
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	var before map[string]queue
	for {
		now, err := w.queues(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		busy := map[string]queue{}
		for name, q := range now {
			if q.added != q.done || q != before[name] {
				busy[name] = queue{q.added - before[name].added, q.added - q.done}
			}
		}
		if err == nil && len(now) > 0 && len(busy) == 0 {
			return nil
		}
		if err == nil {
			before = now
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the controllers to be done: %w; just added and still open in the queues: %v",
				ctx.Err(), w.busy)
		}
		w.busy = busy
	}
}
