package deploy

import (
	"context"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	releases "github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// forgery returns a release as a writer of Secrets in one namespace can forge it.
func (l *lab) forgery(namespace, name, bundle string, number int, status release.Status, manifest string, hooks ...*release.Hook) *corev1.Secret {
	l.t.Helper()
	secrets := fake.NewClientset().CoreV1().Secrets(namespace)
	h, err := releases.LoadHistory(l.t.Context(), secrets, placement.Release{Namespace: namespace, Name: name}, time.Now, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	err = h.Create(releases.SecretName(name, number), &release.Release{
		Name: name, Namespace: namespace, Version: number, Manifest: manifest, Hooks: hooks, Info: &release.Info{Status: status},
		Chart: &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: name, Version: "0.1.0", Annotations: map[string]string{
			fleet.AnnotationBundleID: bundle, fleet.AnnotationAgentNamespace: l.Name,
		}}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	secret, err := secrets.Get(l.t.Context(), releases.SecretName(name, number), metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	secret.ResourceVersion = ""
	return secret
}

// deletion returns a hook that runs before and after an uninstallation and a rollback. It first deletes an object
// of its name.
func deletion(name, namespace string) *release.Hook {
	return &release.Hook{
		Name: name, Kind: "ConfigMap", Path: "templates/" + name + ".yaml", Manifest: hookOf(name, namespace, "pre-delete"),
		Events: []release.HookEvent{release.HookPreDelete, release.HookPostDelete, release.HookPreRollback, release.HookPostRollback},
	}
}

// ConfigMap creates a ConfigMap of another owner, with labels and annotations.
func (l *lab) configMap(namespace, name string, labels, annotations map[string]string) {
	l.t.Helper()
	l.create(func(ctx context.Context) error {
		meta := metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}
		_, err := l.East.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"of": "others"}}, metav1.CreateOptions{})
		return err
	})
}

// expectUntouched checks that the victims of a forged release still exist, and that the hooks created nothing.
func (l *lab) expectUntouched(namespace string) {
	l.t.Helper()
	if l.configMapIsThere(namespace, "smuggled") {
		l.t.Error("a forged hook was run")
	}
	for _, name := range []string{"marked", "owned"} {
		found, err := l.East.CoreV1().ConfigMaps(namespace).Get(l.t.Context(), name, metav1.GetOptions{})
		if err != nil || found.Data["of"] != "others" || found.DeletionTimestamp != nil {
			l.t.Errorf("a forged release had %s deleted or changed: %v", name, err)
		}
	}
}

// victims creates objects in another namespace that a forged release claims: one with the label of another bundle,
// and one of an unrelated release with the same name.
func (l *lab) victims(namespace string, key placement.Release) (manifest string) {
	l.t.Helper()
	label := placement.SetOf("theirs", "").Hash
	l.configMap(namespace, "marked", map[string]string{fleet.LabelSetHash: label}, nil)
	l.configMap(namespace, "owned", nil, map[string]string{objects.ReleaseNameAnnotation: key.Name, objects.ReleaseNamespaceAnnotation: key.Namespace})
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: marked, namespace: " + namespace + ", labels: {" + fleet.LabelSetHash + ": " + label + "}}\n" +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned, namespace: " + namespace + "}\n"
}

// TestForgedRevision_GivesNoRights forges a later revision of a bundle's release, or changes the existing one,
// before the agent deletes, upgrades or corrects the bundle.
func TestForgedRevision_GivesNoRights(t *testing.T) {
	t.Parallel()
	later := func(l *lab, own string, forged *corev1.Secret) {
		l.create(func(ctx context.Context) error {
			_, err := l.East.CoreV1().Secrets(own).Create(ctx, forged, metav1.CreateOptions{})
			return err
		})
	}
	tests := map[string]struct {
		number int
		status release.Status
		forge  func(l *lab, own string, forged *corev1.Secret)
		then   func(l *lab, own string)
	}{
		"later":        {99, release.StatusDeployed, later, func(l *lab, _ string) { l.delete("x") }},
		"uninstalling": {99, release.StatusUninstalling, later, func(l *lab, own string) { l.upgradeX(own); l.delete("x") }},
		"changed": {1, release.StatusDeployed, func(l *lab, own string, forged *corev1.Secret) {
			l.create(func(ctx context.Context) error {
				_, err := l.East.CoreV1().Secrets(own).Update(ctx, forged, metav1.UpdateOptions{})
				return err
			})
		}, func(l *lab, _ string) { l.delete("x") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "forged-"+name)
			own, other := l.Name+"-own", l.Name+"-other"
			l.namespace(own)
			l.namespace(other)
			l.start()
			l.apply(bundle{Name: "first", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(own)}) // the agent has its key from here on
			l.expectStatus("first", ready)
			l.eventuallyLater(own)
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(own)})
			l.expectStatus("x", ready)
			manifest := l.victims(other, placement.Release{Namespace: own, Name: "x"})
			test.forge(l, own, l.forgery(own, "x", "x", test.number, test.status, manifest, deletion("smuggled", other)))
			test.then(l, own)
			l.expectNoRelease(own, "x")
			l.expectUntouched(other)
			if test.number != 1 && l.configMapIsThere(own, "x") {
				t.Error("the object of the release still exists")
			}
		})
	}
}

// upgradeX deploys another version of the bundle.
func (l *lab) upgradeX(own string) {
	l.t.Helper()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(own)})
	l.expectStatus("x", ready)
}

// eventuallyLater waits until the API server's clock is in a later second than the creation of the agent's key.
func (l *lab) eventuallyLater(namespace string) {
	l.t.Helper()
	key, err := l.East.CoreV1().Secrets(l.Name).Get(l.t.Context(), "fleet-agent-release-key", metav1.GetOptions{})
	if err != nil {
		l.t.Log("there is no key: ", err)
		return
	}
	l.eventually(func() string {
		now, err := l.East.CoreV1().ConfigMaps(namespace).Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}}, metav1.CreateOptions{})
		if err != nil || !key.CreationTimestamp.Before(&now.CreationTimestamp) {
			return "the clock has not moved on"
		}
		return ""
	})
}

// TestForgedRelease_IsNotUninstalledWithAgentsRights forges an interrupted uninstallation of a release that the
// agent never made, for a bundle that does not exist.
func TestForgedRelease_IsNotUninstalledWithAgentsRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, "forged-orphan")
	l.interval = shortInterval
	own, other := l.Name+"-own", l.Name+"-other"
	l.namespace(own)
	l.namespace(other)
	l.start()
	l.apply(bundle{Name: "first", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(own)})
	l.expectStatus("first", ready)
	manifest := l.victims(other, placement.Release{Namespace: own, Name: "evil"})
	forged := l.forgery(own, "evil", "gone", 7, release.StatusUninstalling, manifest, deletion("smuggled", other))
	l.create(func(ctx context.Context) error {
		_, err := l.East.CoreV1().Secrets(own).Create(ctx, forged, metav1.CreateOptions{})
		return err
	})
	l.expectNoRelease(own, "evil")
	l.expectUntouched(other)
}

// asOfAnEarlierAgent turns the stored revision of a release into one of an earlier agent, with additional hooks.
// The agent must not run.
func (l *lab) asOfAnEarlierAgent(own, name string, number int, hooks ...*release.Hook) {
	l.t.Helper()
	secrets := l.East.CoreV1().Secrets(own)
	secret, err := secrets.Get(l.t.Context(), releases.SecretName(name, number), metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	stored, err := releases.Decode(secret)
	if err != nil {
		l.t.Fatal(err)
	}
	stored.Hooks = append(stored.Hooks, hooks...)
	delete(stored.Chart.Metadata.Annotations, annotation.TargetNamespace)
	if secret.Data["release"], err = releases.Encode(stored); err != nil {
		l.t.Fatal(err)
	}
	delete(secret.Annotations, annotation.ReleaseSeal)
	if _, err := secrets.Update(l.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	if err := utilerrors.FilterOut(l.East.CoreV1().Secrets(l.Name).Delete(l.t.Context(), "fleet-agent-release-key", metav1.DeleteOptions{}), apierrors.IsNotFound); err != nil {
		l.t.Fatal(err)
	}
}

// TestReleaseOfAnEarlierAgent_KeepsItsHooks uninstalls a release without a seal that the hub names. With
// "namespace", only hooks in that namespace run.
func TestReleaseOfAnEarlierAgent_KeepsItsHooks(t *testing.T) {
	t.Parallel()
	for name, confined := range map[string]bool{"free": false, "confined": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "earlier-"+name)
			own, other := l.Name+"-own", l.Name+"-other"
			l.namespace(other)
			l.configMap(other, "outside", nil, nil)
			options := deploytest.InNamespace(own)
			if confined {
				options = fleet.BundleDeploymentOptions{TargetNamespace: own, Helm: &fleet.HelmOptions{}}
			}
			l.start()
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
			l.expectStatus("x", ready)
			l.halt()
			l.asOfAnEarlierAgent(own, "x", 1, deletion("inside", own), deletion("outside", other))
			l.start()
			l.delete("x")
			l.expectNoRelease(own, "x")
			if l.configMapIsThere(own, "x") || !l.configMapIsThere(own, "inside") {
				t.Error("the object still exists, or the hook was not run")
			}
			found, err := l.East.CoreV1().ConfigMaps(other).Get(t.Context(), "outside", metav1.GetOptions{})
			if err != nil || (found.Data["of"] == "others") != confined {
				t.Errorf("the object outside: %v, data %v", err, found.Data)
			}
		})
	}
}

// TestRollbackUnderANamespace_LeavesOthersAlone corrects drift in a release of an earlier agent that has a hook
// outside of the bundle's namespace.
func TestRollbackUnderANamespace_LeavesOthersAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rollback-walls")
	own, other := l.Name+"-own", l.Name+"-other"
	l.namespace(other)
	l.configMap(other, "outside", nil, nil)
	options := fleet.BundleDeploymentOptions{TargetNamespace: own, Helm: &fleet.HelmOptions{}, CorrectDrift: &fleet.CorrectDrift{Enabled: true}}
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
	l.halt()
	l.asOfAnEarlierAgent(own, "x", 1, deletion("inside", own), deletion("outside", other))
	if err := l.East.CoreV1().ConfigMaps(own).Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.eventually(func() string {
		if !l.configMapIsThere(own, "x") || !l.configMapIsThere(own, "inside") {
			return "the release was not rolled back with the hook in its namespace"
		}
		return ""
	})
	if found, err := l.East.CoreV1().ConfigMaps(other).Get(t.Context(), "outside", metav1.GetOptions{}); err != nil || found.Data["of"] != "others" {
		t.Errorf("the object outside: %v, data %v", err, found.Data)
	}
}

// TestReleaseSecretInABundle_IsRefused has bundles with limited rights that contain release Secrets.
func TestReleaseSecretInABundle_IsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, "release-secret")
	own := l.Name + "-own"
	l.tenant("tenant", own)
	l.create(func(ctx context.Context) error {
		_, err := l.East.RbacV1().RoleBindings(own).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: l.Name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}}, metav1.CreateOptions{})
		return err
	})
	l.start()
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: sh.helm.release.v1.evil.v1, labels: {owner: helm, name: evil, version: '1'}}\ntype: helm.sh/release.v1\n"
	as := deploytest.InNamespace(own)
	as.ServiceAccount = "tenant"
	for name, options := range map[string]fleet.BundleDeploymentOptions{
		"confined": {TargetNamespace: own, Helm: &fleet.HelmOptions{}}, "account": as,
	} {
		l.apply(bundle{Name: name, Files: deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"templates/s.yaml": secret}), Options: options})
		l.expectStatus(name, becauseOf(conditions.Deployed, conditions.ReasonForbidden, "Helm release"))
		if found := l.revisionsOf(own, "evil"); len(found) > 0 {
			t.Errorf("%s: a release was deployed: %v", name, found)
		}
	}
}
