package release

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// plain changes nothing of what Helm has rendered.
type plain struct{}

func (plain) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) { return rendered, nil }
func (plain) CheckDependencies() error                          { return nil }
func (plain) FinishHooks(*release.Release) (bool, error)        { return false, nil }

// installed is a release in a World.
type installed struct {
	*deploytest.World
	*Releaser
	t *testing.T
	// named is the revision that the status names. The status was written at the time reported.
	named    string
	reported time.Time
}

func newInstalled(t *testing.T) installed {
	t.Helper()
	i := installed{World: deploytest.NewWorld(t), t: t}
	i.Releaser = &Releaser{Agent: i.identity(""), Clock: deploytest.Noon, Namespace: "agents"}
	return i
}

func (i installed) identity(account string) *access.Identity {
	i.t.Helper()
	identity, err := access.NewAgent(i.Config(), deploytest.Noon)
	if err != nil {
		i.t.Fatal(err)
	}
	identity.Account = account
	return identity
}

func (i installed) key() placement.Release { return placement.Release{Namespace: "web", Name: "hello"} }

// install deploys ConfigMaps with a value. The name of a hook contains its event, such as "seed:pre-install".
func (i installed) install(value string, names ...string) (*manifest.Revision, error) {
	none := false
	made := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "hello", Version: "1.0.0", Annotations: map[string]string{annotation.DeploymentID: value}}}
	for _, name := range names {
		name, event, isHook := strings.Cut(name, ":")
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {v: " + value + "}\n"
		if isHook {
			text = strings.Replace(text, "}", ", annotations: {helm.sh/hook: "+event+"}}", 1)
		}
		made.Templates = append(made.Templates, &chart.File{Name: "templates/" + name + ".yaml", Data: []byte(text)})
	}
	return i.Install(i.t.Context(), Installation{
		Release: i.key(), DeploymentID: value, Identity: i.Agent, Options: &fleet.BundleDeploymentOptions{CreateNamespace: &none}, Finish: plain{},
		Reported: func(revision string, made time.Time) bool { return revision == i.named && !i.reported.Before(made) },
		Chart:    made, MayTake: func(bool, map[string]string) error { return nil },
	})
}

// status returns the stored status of a revision, "" if it does not exist.
func (i installed) status(number int) string {
	i.t.Helper()
	var secret corev1.Secret
	i.Get(i.t, "secrets/"+SecretName("hello", number), &secret)
	return secret.Labels[labelStatus]
}

func (i installed) expect(number int, status release.Status) {
	i.t.Helper()
	if got := i.status(number); got != status.String() {
		i.t.Errorf("revision %d is %q, want %q", number, got, status)
	}
}

// Helm only logs that it could not store the result of an installation.
func TestInstallationNotStored_IsRepeatedUntilItIsStored(t *testing.T) {
	for name, refused := range map[string]int{"once: stored again": 1, "twice: error and retry": 2} {
		t.Run(name, func(t *testing.T) {
			i := newInstalled(t)
			i.Refuse("PUT secrets/"+SecretName("hello", 1), refused)
			if _, err := i.install("one", "a"); (err != nil) != (refused > 1) || err != nil && !strings.Contains(err.Error(), "storing revision 1 of release web/hello") {
				t.Fatalf("first attempt: %v", err)
			}
			if made, err := i.install("one", "a"); err != nil || made.Number != 1 {
				t.Fatalf("second attempt: %v %v", made, err)
			}
			i.expect(1, release.StatusDeployed)
			i.expect(2, "")
		})
	}
}

// Earlier agents reported an installation also if they could not store its result.
func TestPendingInstallation_IsRepeatedUnlessItWasReported(t *testing.T) {
	for name, test := range map[string]struct {
		named, lost string
		earlier     time.Duration // the status was written before the installation
		repeated    bool
	}{
		"reported, its objects exist: counts as deployed": {named: "web/hello:1"},
		"reported, an object is missing: repeated":        {named: "web/hello:1", lost: "a", repeated: true},
		"not reported: repeated":                          {repeated: true},
		"another revision was reported: repeated":         {named: "web/hello:2", repeated: true},
		"reported, but made again since: repeated":        {named: "web/hello:1", earlier: time.Minute, repeated: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstalled(t)
			if _, err := i.install("one", "a", "seed:pre-install"); err != nil {
				t.Fatal(err)
			}
			h, err := i.History(t.Context(), i.key())
			if err != nil {
				t.Fatal(err)
			}
			h.Last().Info.Status = release.StatusPendingInstall
			if err := h.Update(SecretName("hello", 1), h.Last()); err != nil {
				t.Fatal(err)
			}
			i.remove("seed", test.lost)
			i.named, i.reported = test.named, h.Last().Info.LastDeployed.Time.Add(-test.earlier)
			if made, err := i.install("one", "a", "seed:pre-install"); err != nil || made.Number != 1 {
				t.Errorf("made %v, error %v", made, err)
			}
			var object corev1.ConfigMap
			if i.Get(t, "configmaps/seed", &object) != test.repeated || !i.Get(t, "configmaps/a", &object) {
				t.Errorf("hook has run again: %t, want %t", !test.repeated, test.repeated)
			}
			i.expect(1, release.StatusDeployed)
		})
	}
}

// A restored cluster may have the history of an upgrade that had begun, and the objects of before.
func TestPendingUpgrade_IsRepeatedAlthoughItWasReported(t *testing.T) {
	i := newInstalled(t)
	for _, value := range []string{"one", "two"} {
		if _, err := i.install(value, "a"); err != nil {
			t.Fatal(err)
		}
	}
	h, err := i.History(t.Context(), i.key())
	if err != nil {
		t.Fatal(err)
	}
	h.Last().Info.Status = release.StatusPendingUpgrade
	if err := h.Update(SecretName("hello", 2), h.Last()); err != nil {
		t.Fatal(err)
	}
	var object corev1.ConfigMap
	i.Get(t, "configmaps/a", &object)
	object.Data["v"] = "one"
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	i.Put("configmaps/a", text)
	i.named, i.reported = "web/hello:2", h.Last().Info.LastDeployed.Time
	if _, err := i.install("two", "a"); err != nil {
		t.Fatal(err)
	}
	if i.Get(t, "configmaps/a", &object); object.Data["v"] != "two" {
		t.Errorf("the object has value %q", object.Data["v"])
	}
	i.expect(2, release.StatusDeployed)
}

func TestFailedUpgradeNotStored_IsStoredAgain(t *testing.T) {
	i := newInstalled(t)
	if _, err := i.install("one", "a"); err != nil {
		t.Fatal(err)
	}
	i.Refuse("PATCH configmaps/a", 1)
	i.Refuse("PUT secrets/"+SecretName("hello", 2), 1)
	if _, err := i.install("two", "a"); err == nil {
		t.Fatal("no error")
	}
	i.expect(2, release.StatusFailed)
}

func TestRecall_ReturnsOnlyDeployedRevisions(t *testing.T) {
	for status, want := range map[release.Status]bool{
		release.StatusDeployed: true, release.StatusPendingInstall: false, release.StatusPendingUpgrade: false, release.StatusPendingRollback: false,
		release.StatusFailed: false, release.StatusSuperseded: false, release.StatusUninstalling: false, release.StatusUninstalled: false,
	} {
		t.Run(status.String(), func(t *testing.T) {
			i := newInstalled(t)
			text, err := Encode(stored(1, status))
			if err != nil {
				t.Fatal(err)
			}
			reader := NewReader(i.Agent, nil, "agents", nil, deploytest.Noon, nil)
			made, err := reader.Recall(t.Context(), i.key(), 1, &corev1.Secret{Data: map[string][]byte{releaseDataKey: text}})
			if err != nil || (made != nil) != want {
				t.Errorf("got %v, error %v", made, err)
			}
		})
	}
}

func TestFailedRollback_RestoresHistoryDespiteARefusedWrite(t *testing.T) {
	const second = "secrets/sh.helm.release.v1.hello.v2"
	for name, test := range map[string]struct {
		object, refused string
		times           int
		keep            bool
		first, second   release.Status
	}{
		"rollback fails: undone":                         {object: "PATCH configmaps/a", first: release.StatusDeployed},
		"result not stored: undone":                      {refused: "PUT " + second, times: 1, first: release.StatusDeployed},
		"result not stored, not deleted: left":           {object: "PATCH configmaps/a", refused: "DELETE " + second, times: 1, first: release.StatusSuperseded, second: release.StatusFailed},
		"failure is kept":                                {object: "PATCH configmaps/a", keep: true, first: release.StatusDeployed, second: release.StatusFailed},
		"failure is kept, not stored once: stored again": {object: "PATCH configmaps/a", refused: "PUT " + second, times: 1, keep: true, first: release.StatusDeployed, second: release.StatusFailed},
		"failure is kept, not stored twice: left":        {object: "PATCH configmaps/a", refused: "PUT " + second, times: 2, keep: true, first: release.StatusDeployed, second: release.StatusPendingRollback},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstalled(t)
			made, err := i.install("one", "a")
			if err != nil {
				t.Fatal(err)
			}
			drifted := i.drift(made)
			i.Refuse(test.object, 1)
			i.Refuse(test.refused, test.times)
			_, err = i.RollBack(t.Context(), Rollback{Release: i.key(), Revision: 1, Options: &fleet.BundleDeploymentOptions{}, Identity: i.Agent, Only: drifted, KeepFailed: test.keep})
			if err == nil {
				t.Error("no error")
			}
			i.expect(1, test.first)
			i.expect(2, test.second)
		})
	}
}

// remove deletes ConfigMaps.
func (i installed) remove(names ...string) {
	i.t.Helper()
	for _, name := range names {
		err := i.Agent.Clientset.CoreV1().ConfigMaps("web").Delete(i.t.Context(), name, metav1.DeleteOptions{})
		if name != "" && err != nil {
			i.t.Fatal(err)
		}
	}
}

// drift changes the ConfigMap and returns it.
func (i installed) drift(made *manifest.Revision) map[manifest.Ref]bool {
	i.t.Helper()
	var object corev1.ConfigMap
	i.Get(i.t, "configmaps/a", &object)
	object.Data["v"] = "other"
	text, err := json.Marshal(object)
	if err != nil {
		i.t.Fatal(err)
	}
	i.Put("configmaps/a", text)
	return map[manifest.Ref]bool{made.Refs[0]: true}
}

// An upgrade that drops ConfigMap b has failed, because b could not be deleted.
func TestUninstallation_DropsOnlyLeftoversThatTheAccountMayNotDelete(t *testing.T) {
	const noRight, webhook = `configmaps "b" is forbidden: User "x" cannot delete`, `admission webhook "w" denied the request`
	for name, test := range map[string]struct {
		account, message string
		stays            bool
	}{
		"agent without the right: error and retry":          {"", noRight, false},
		"agent, refused by a webhook: error and retry":      {"", webhook, false},
		"account without the right: object stays":           {"agents/tenant", noRight, true},
		"account, refused by a webhook: error and retry":    {"agents/tenant", webhook, false},
		"account, exceeds a quota of objects: error, retry": {"agents/tenant", `configmaps "b" is forbidden: exceeded quota: q`, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstalled(t)
			i.Forbid(test.message)
			if _, err := i.install("one", "a", "b"); err != nil {
				t.Fatal(err)
			}
			i.Refuse("DELETE configmaps/b", 2) // by the upgrade and by the first uninstallation
			if _, err := i.install("two", "a"); err == nil {
				t.Fatal("the upgrade succeeded")
			}
			uninstall := func() error {
				h, err := i.History(t.Context(), i.key())
				if err != nil {
					return err
				}
				return i.Uninstall(h, Removal{Identity: i.identity(test.account)})
			}
			if err := uninstall(); (err == nil) != test.stays {
				t.Errorf("first uninstallation: %v", err)
			}
			if err := uninstall(); err != nil {
				t.Errorf("second uninstallation: %v", err)
			}
			var object corev1.ConfigMap
			if i.Get(t, "configmaps/b", &object) != test.stays || i.Get(t, "configmaps/a", &object) {
				t.Errorf("object left: %v", object)
			}
		})
	}
}

// An upgrade that drops ConfigMap b has failed, because b could not be deleted.
func TestUninstallation_DeletesTheOtherObjectsIfALeftoverStays(t *testing.T) {
	i := newInstalled(t)
	i.Forbid(`namespaces "default" is forbidden: this namespace may not be deleted`)
	if _, err := i.install("one", "a", "b"); err != nil {
		t.Fatal(err)
	}
	i.Refuse("DELETE configmaps/b", 3) // by the upgrade and by two uninstallations
	if _, err := i.install("two", "a", "before:pre-delete", "after:post-delete"); err == nil {
		t.Fatal("the upgrade succeeded")
	}
	for attempt := range 3 {
		h, err := i.History(t.Context(), i.key())
		if err != nil {
			t.Fatal(err)
		}
		err = i.Uninstall(h, Removal{Identity: i.Agent, Hooks: true})
		if stays := attempt < 2; (err != nil) != stays || stays && !strings.HasPrefix(err.Error(), "uninstalling release web/hello: deleting configmap.v1 web/b: ") {
			t.Errorf("attempt %d: %v", attempt, err)
		}
		var object corev1.ConfigMap
		if i.Get(t, "configmaps/a", &object) || i.Get(t, "configmaps/b", &object) != (attempt < 2) {
			t.Errorf("attempt %d: object left: %s", attempt, object.Name)
		}
		if (i.status(1) == "") != (attempt == 2) || (i.status(2) == "") != (attempt == 2) {
			t.Errorf("attempt %d: history %q, %q", attempt, i.status(1), i.status(2))
		}
		for _, hook := range []string{"before", "after"} {
			if i.Get(t, "configmaps/"+hook, &object) != (attempt == 0) {
				t.Errorf("attempt %d: hook %s has run again or not at all", attempt, hook)
			}
		}
		if attempt == 0 {
			i.remove("before", "after")
		}
	}
}
