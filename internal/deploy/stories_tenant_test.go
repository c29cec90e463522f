package deploy

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// tenant creates a service account in the agent's namespace, and a namespace in which it may write ConfigMaps. It
// has no other rights.
func (l *lab) tenant(account, namespace string) {
	l.t.Helper()
	core, rbac := l.East.CoreV1(), l.East.RbacV1()
	rights := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}
	l.create(func(ctx context.Context) error {
		_, err := core.ServiceAccounts(l.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		return err
	})
	l.namespace(namespace)
	l.create(func(ctx context.Context) error {
		_, err := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: rights}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: l.Name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}}, metav1.CreateOptions{})
		return err
	})
}

func (l *lab) namespace(name string) {
	l.t.Helper()
	l.create(func(ctx context.Context) error {
		_, err := l.East.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
}

// secretIn makes a Secret.
func (l *lab) secretIn(namespace, name string) {
	l.t.Helper()
	l.create(func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"values.yaml": []byte("greeting: top-secret\n")}}
		_, err := l.East.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}

// becauseOf expects a condition to be False with a reason and a message.
func becauseOf(kind, reason, text string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		if missing := says(kind, text)(bd); missing != "" {
			return missing
		}
		if got := conditions.Get(bd.Status.Conditions, kind).Reason; got != reason {
			return "the reason is " + got + ", not " + reason
		}
		return ""
	}
}

// template returns a chart with one template.
func template(text string) map[string]string {
	return map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n", "templates/a.yaml": text}
}

// attempt is something that a tenant's bundle tries and must not achieve.
type attempt struct {
	files   map[string]string
	options func(*fleet.BundleDeploymentOptions)
	reason  string
	says    string
}

func attempts(own, other string) map[string]attempt {
	const denied = "is forbidden: User"
	cm := func(meta string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: smuggled" + meta + "}\n"
	}
	release := func(name string) func(*fleet.BundleDeploymentOptions) {
		return func(o *fleet.BundleDeploymentOptions) { o.Helm.ReleaseName = name }
	}
	return map[string]attempt{
		"read a Secret of its namespace by lookup": {reason: conditions.ReasonForbidden, says: denied, files: template(
			cm("") + `data: {found: '{{ (lookup "v1" "Secret" "` + own + `" "top").data }}'}`)},
		"read a Secret of another namespace by lookup": {reason: conditions.ReasonForbidden, says: denied, files: template(
			cm("") + `data: {found: '{{ (lookup "v1" "Secret" "` + other + `" "top").data }}'}`)},
		"list Secrets by lookup": {reason: conditions.ReasonForbidden, says: denied, files: template(
			cm("") + `data: {found: '{{ lookup "v1" "Secret" "" "" }}'}`)},
		"take values from a Secret": {reason: conditions.ReasonForbidden, says: denied, files: template(cm("")),
			options: func(o *fleet.BundleDeploymentOptions) {
				o.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.ValuesKeyRef{Name: "top", Namespace: other}}}
			}},
		"run a hook in another namespace": {reason: conditions.ReasonForbidden, says: denied,
			files: template(cm(", namespace: " + other + ", annotations: {helm.sh/hook: pre-install}"))},
		"run a hook that is a Job": {reason: conditions.ReasonForbidden, says: denied, files: template(
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: smuggled, annotations: {helm.sh/hook: pre-install}}\n" +
				"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n")},
		"deploy an object to another namespace": {reason: conditions.ReasonForbidden, says: denied, files: template(cm(", namespace: " + other))},
		"deploy a Secret":                       {reason: conditions.ReasonForbidden, says: denied, files: template("apiVersion: v1\nkind: Secret\nmetadata: {name: smuggled}\n")},
		"bring CRDs": {reason: conditions.ReasonForbidden, says: "forbidden", files: map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: x\nversion: 0.1.0\n",
			"crds/crd.yaml":    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: smuggled.example.com}\n",
			"templates/a.yaml": cm(""),
		}},
		"keep its release in another namespace": {reason: conditions.ReasonForbidden, says: "may create nothing in namespace " + other,
			files: template(cm(", namespace: " + own)), options: func(o *fleet.BundleDeploymentOptions) { o.DefaultNamespace = other }},
		"make a namespace": {reason: conditions.ReasonForbidden, says: "may create nothing in namespace " + other + "-new",
			files: template(cm("")), options: func(o *fleet.BundleDeploymentOptions) { o.DefaultNamespace = other + "-new" }},
		"take another bundle's release name": {reason: conditions.ReasonReleaseTaken, says: "belongs to bundle theirs", files: template(cm("")), options: release("theirs")},
		"take a release that no bundle made": {reason: conditions.ReasonReleaseTaken, says: "belongs to no bundle", files: template(cm("")), options: release("plain")},
		"label another namespace": {reason: conditions.ReasonForbidden, says: denied,
			files:   template("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + other + ", labels: {smuggled: x}}\n"),
			options: func(o *fleet.BundleDeploymentOptions) { o.Helm.TakeOwnership = true }},
		"have a Secret copied to its namespace": {reason: conditions.ReasonForbidden, says: denied, files: template(cm("")),
			options: func(o *fleet.BundleDeploymentOptions) {
				o.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "credentials"}}
			}},
		"have a namespace made for copies": {reason: conditions.ReasonForbidden, says: denied, files: template(cm("")),
			options: func(o *fleet.BundleDeploymentOptions) {
				o.DefaultNamespace = other + "-new"
				o.DownstreamResources = []fleet.DownstreamResource{{Kind: "ConfigMap", Name: "settings"}}
			}},
	}
}

// TestTenant_CannotExceedItsRights has a service account that may write ConfigMaps in one namespace. Its bundles
// try to do more.
func TestTenant_CannotExceedItsRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, "tenant")
	own, other := l.Name+"-own", l.Name+"-other"
	l.tenant("tenant", own)
	l.namespace(other)
	l.secretIn(own, "top")
	l.secretIn(other, "top")
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().Secrets(l.Name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "credentials"}}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
		return err
	})
	l.store(own, "plain", "", 1, "deployed", "")
	l.start()
	l.apply(bundle{Name: "theirs", Files: deploytest.HelloFiles("theirs"), Options: deploytest.InNamespace(own)})
	l.expectStatus("theirs", ready)
	i := 0
	for name, test := range attempts(own, other) {
		i++
		bundleName := "tries-" + string(rune('a'+i))
		t.Run(name, func(t *testing.T) {
			options := deploytest.InNamespace(own)
			options.ServiceAccount = "tenant"
			if test.options != nil {
				test.options(&options)
			}
			l.apply(bundle{Name: bundleName, Files: test.files, Options: options})
			l.expectStatus(bundleName, becauseOf(conditions.Deployed, test.reason, test.says))
			l.expectNothingSmuggled(t, own, other)
			l.delete(bundleName)
		})
	}
	l.expectStatus("theirs", ready)
	if got := l.revisionsOf(own, "theirs"); len(got) != 1 {
		t.Errorf("the other bundle's release has revisions %v", got)
	}
	if strings.Contains(l.log(), "top-secret") {
		t.Error("a Secret is in the log")
	}
}

// expectNothingSmuggled checks that no attempt has left anything.
func (l *lab) expectNothingSmuggled(t *testing.T, own, other string) {
	t.Helper()
	core := l.East.CoreV1()
	for _, namespace := range []string{own, other} {
		found, err := core.ConfigMaps(namespace).Get(t.Context(), "smuggled", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("smuggled: %v %v", found, err)
		}
		for _, name := range []string{"smuggled", "credentials"} {
			if _, err := core.Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("Secret %s in %s: %v", name, namespace, err)
			}
		}
	}
	releases, err := core.Secrets(other).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(releases.Items) > 0 {
		t.Errorf("releases in %s: %v %v", other, releases.Items, err)
	}
	namespace, err := core.Namespaces().Get(t.Context(), other, metav1.GetOptions{})
	if err != nil || namespace.Labels["smuggled"] != "" {
		t.Errorf("namespace %s: %v %v", other, namespace.Labels, err)
	}
	if _, err := core.Namespaces().Get(t.Context(), other+"-new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace was made: %v", err)
	}
}

func TestTenant_DeploysWithinItsRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, "tenant-may")
	own := l.Name + "-own"
	l.tenant("tenant", own)
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"values.yaml": "greeting: copied\n"}}, metav1.CreateOptions{})
		return err
	})
	l.start()
	options := deploytest.InNamespace(own)
	options.ServiceAccount = "tenant"
	no := false
	options.CreateNamespace = &no
	options.DownstreamResources = []fleet.DownstreamResource{{Kind: "ConfigMap", Name: "settings"}}
	options.Helm.ValuesFrom = []fleet.ValuesFrom{{ConfigMapKeyRef: &fleet.ValuesKeyRef{Name: "settings"}}}
	files := deploytest.HelloFiles("hi")
	files["templates/hook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n"
	files["templates/found.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: found}\n" +
		`data: {settings: {{ index (lookup "v1" "ConfigMap" .Release.Namespace "settings").data "values.yaml" | quote }}}`
	l.apply(bundle{Name: "x", Files: files, Options: options, Change: func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = 1 }})
	l.expectStatus("x", ready)
	for name, want := range map[string]string{"x": "greeting=copied", "found": "settings=greeting: copied\n", "hook": ""} {
		key, value, _ := strings.Cut(want, "=")
		found, err := l.East.CoreV1().ConfigMaps(own).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || found.Data[key] != value {
			t.Errorf("%s: %v %v", name, found.Data, err)
		}
	}
	// The account may not label its namespace: the deployment stays, and the status reports it.
	options.NamespaceLabels = map[string]string{"smuggled": "x"}
	l.apply(bundle{Name: "x", Files: files, Options: options, Change: func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = 1 }})
	bd := l.expectStatus("x", becauseOf(conditions.Installed, conditions.ReasonForbidden, "labelling namespace "+own))
	if missing := conditionsAre(bd, "Deployed=True Ready=False"); missing != "" || bd.Status.Release != own+"/x:2" {
		t.Errorf("release %s, %s", bd.Status.Release, missing)
	}
	namespace, err := l.East.CoreV1().Namespaces().Get(t.Context(), own, metav1.GetOptions{})
	if err != nil || namespace.Labels["smuggled"] != "" {
		t.Errorf("labels %v %v", namespace.Labels, err)
	}
}

// TestServiceAccountDeleted_HooksDoNotRun uninstalls a release whose service account was deleted. Only the agent
// itself could run its hook, and must not.
func TestServiceAccountDeleted_HooksDoNotRun(t *testing.T) {
	t.Parallel()
	l := newLab(t, "tenant-gone")
	own := l.Name + "-own"
	l.tenant("tenant", own)
	l.start()
	options := deploytest.InNamespace(own)
	options.ServiceAccount = "tenant"
	no := false
	options.CreateNamespace = &no
	files := deploytest.HelloFiles("hi")
	files["templates/hook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, namespace: " + l.Name + ", annotations: {helm.sh/hook: 'pre-delete,post-delete'}}\n"
	l.apply(bundle{Name: "x", Files: files, Options: options})
	l.expectStatus("x", ready)
	if err := l.East.CoreV1().ServiceAccounts(l.Name).Delete(t.Context(), "tenant", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.delete("x")
	l.expectNoRelease(own, "x")
	if l.configMapIsThere(own, "x") || l.configMapIsThere(l.Name, "hook") {
		t.Error("the object exists, or the hook has run")
	}
}
