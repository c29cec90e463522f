package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// passing returns a copy of a config whose requests go through a function first.
func passing(config *rest.Config, through func(request *http.Request, next http.RoundTripper) (*http.Response, error)) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) { return through(request, next) })
	})
	return config
}

// settings changes the values in the ConfigMap "settings" on the hub.
func (l *lab) settings(greeting string) {
	l.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"values.yaml": "greeting: " + greeting}}
	_, err := l.HubCore.CoreV1().ConfigMaps(l.Name).Update(l.t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

// A copied object has changed, but its bundle has to wait for another one. The next agent process deploys the change.
func TestCopyChangesWhileDependencyIsMissing_IsDeployedAfterRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copy-waits")
	l.original("settings")
	l.settings("one")
	l.start()
	options, _ := copyingThem(l.Name, "settings")
	options.Helm.ValuesFrom = []fleet.ValuesFrom{{ConfigMapKeyRef: &fleet.ValuesKeyRef{Name: "settings"}}}
	change := func(generation int64, dependsOn ...fleet.BundleRef) {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: func(bd *fleet.BundleDeployment) {
			bd.Spec.DownstreamResourcesGeneration, bd.Spec.DependsOn = generation, dependsOn
		}})
	}
	change(1)
	l.expectStatus("x", released(l.Name+"/x:1"))
	l.settings("two")
	change(2, fleet.BundleRef{Name: "missing"})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonDependencyMissing, ""))
	l.halt()
	change(2)
	l.start()
	l.expectStatus("x", released(l.Name+"/x:2"))
	if got := l.field("configmaps", "x", dig("data", "greeting")); got != "two" {
		t.Errorf("the values are of the former copy: %s", got)
	}
}

// Another program damages the release while the agent runs.
func TestDamagedReleaseSecret_ReleaseIsDeployedAgain(t *testing.T) {
	t.Parallel()
	expectDeployedAgain(t, "history-damaged", func(l *lab) { l.edit("secrets", release.SecretName("x", 1), `{"data":{"release":"AAAA"}}`) }, nil)
}

// A program uninstalls a release: it deletes the objects first, and the release when the agent has already looked.
func TestReleaseDeletedAfterItsObjects_ReleaseIsDeployedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "history-later")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.remove("configmaps", "x")
	l.expectStatus("x", says(conditions.Ready, "missing"))
	l.remove("secrets", release.SecretName("x", 1))
	l.expectStatus("x", ready)
	if got := l.field("configmaps", "x", dig("data", "greeting")); got != "hi" {
		t.Errorf("the object says %q", got)
	}
}

// A former revision is damaged, and the agent restarts.
func TestDamagedFormerRevision_NextStateIsDeployed(t *testing.T) {
	t.Parallel()
	l := newLab(t, "former-damaged")
	l.start()
	for _, greeting := range []string{"one", "two"} {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles(greeting), Options: deploytest.InNamespace(l.Name)})
		l.expectStatus("x", ready)
	}
	l.halt()
	l.edit("secrets", release.SecretName("x", 1), `{"data":{"release":"AAAA"}}`)
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("three"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", released(l.Name+"/x:3"))
}

// The objects of a deleted bundle are still being deleted when the bundle is created again.
func TestBundleRecreatedWhileObjectsGo_ObjectsAreCreated(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"recreated": false, "recreated-restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, name)
			l.start()
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
			l.edit("configmaps", "x", `{"metadata":{"finalizers":["lab.example.com/waits"]}}`)
			l.delete("x")
			l.expectNoRelease(l.Name, "x")
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", applied)
			if restarts {
				l.halt()
				l.edit("configmaps", "x", `{"data":{"greeting":"changed"}}`)
				l.start()
				l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
					if bd.Status.NonModified {
						return "the new process has not seen the object"
					}
					return ""
				})
			}
			l.edit("configmaps", "x", `{"metadata":{"finalizers":null}}`)
			l.eventually(func() string {
				if l.field("configmaps", "x", dig("metadata", "deletionTimestamp")) != "<nil>" {
					return "the object is not there, or goes"
				}
				return ""
			})
			l.expectStatus("x", ready)
		})
	}
}

// The agent is killed between an upgrade and its report. The next process must not report the new state with the
// readiness of the former one, because a rollout would go on.
func TestAgentKilledBeforeReport_FormerReadinessIsNotReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "stale-ready")
	l.start()
	files := deploytest.HelloFiles("hi")
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.halt()
	l.options = func(o *Options) {
		o.Hub = passing(l.identity, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/status") {
				return nil, errKilled
			}
			return next.RoundTrip(request)
		})
	}
	l.start()
	never := "apiVersion: v1\nkind: Service\nmetadata: {name: never}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	wanted := l.apply(bundle{Name: "x", Files: deploytest.With(files, map[string]string{"templates/never.yaml": never}), Options: deploytest.InNamespace(l.Name)})
	l.eventually(func() string {
		if got := l.revisionsOf(l.Name, "x"); !slices.Contains(got, "2 deployed") {
			return fmt.Sprint("the revisions are ", got)
		}
		return ""
	})
	l.halt()
	var mu sync.Mutex
	var reports []fleet.BundleDeploymentStatus
	l.options = func(o *Options) {
		o.Hub = passing(l.identity, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/status") {
				body, err := io.ReadAll(request.Body)
				if err != nil {
					return nil, err
				}
				request.Body = io.NopCloser(bytes.NewReader(body))
				var sent fleet.BundleDeployment
				if err := json.Unmarshal(body, &sent); err != nil {
					return nil, err
				}
				mu.Lock()
				reports = append(reports, sent.Status)
				mu.Unlock()
			}
			return next.RoundTrip(request)
		})
	}
	l.start()
	l.expectStatus("x", says(conditions.Ready, "never"))
	mu.Lock()
	defer mu.Unlock()
	for i := range reports {
		if reports[i].AppliedDeploymentID == wanted.Spec.DeploymentID && reports[i].Ready {
			t.Errorf("report %d says that the new state is ready", i)
		}
	}
}

// A correction needs a kind that was deleted. Other objects are corrected.
func TestKindDeletedUnderCorrection_IsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "crd-corrected")
	l.start()
	group, crd, thing := l.thing()
	settings := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": thing, "b.yaml": settings}, Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})})
	l.expectStatus("things", ready)
	l.deleteCRD("things." + group)
	l.expectStatus("things", says(conditions.Ready, "no matches for kind"))
	l.edit("configmaps", "settings", `{"data":{"a":"edited"}}`)
	l.eventually(func() string {
		if got := l.field("configmaps", "settings", dig("data", "a")); got != "b" {
			return "the other object is " + got
		}
		return ""
	})
	l.expectStatus("things", says(conditions.Ready, "no matches for kind"))
	l.eventually(func() string { // an attempt may be under way
		if got := l.revisionsOf(l.Name, "things"); !slices.Equal(got, []string{"1 deployed"}) {
			return fmt.Sprintf("the revisions are %v", got)
		}
		return ""
	})
}

// A correction fails, and the API server is not available when the agent cleans up. The next correction fails, too.
func TestFailedCorrectionNotCleanedUp_ReleaseStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "correct-twice")
	var away atomic.Bool
	var refused atomic.Int32
	l.options = func(o *Options) {
		o.Local = passing(l.local, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			if away.Load() && request.Method == http.MethodDelete && strings.Contains(request.URL.Path, "/secrets/") {
				return nil, errKilled
			}
			if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/cm") {
				refused.Add(1)
			}
			return next.RoundTrip(request)
		})
	}
	l.start()
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})})
	l.expectStatus("x", ready)
	away.Store(true)
	l.edit("configmaps", "cm", `{"data":{"a":"x"},"immutable":true}`)
	l.eventually(func() string {
		if got := l.revisionsOf(l.Name, "x"); !slices.Equal(got, []string{"1 superseded", "2 failed"}) {
			return fmt.Sprint("the revisions are ", got)
		}
		return ""
	})
	away.Store(false)
	before := refused.Load()
	l.eventually(func() string {
		if refused.Load() < before+2 {
			return "not corrected again"
		}
		if got := l.revisionsOf(l.Name, "x"); !slices.Equal(got, []string{"1 deployed"}) {
			return fmt.Sprint("the revisions are ", got)
		}
		return ""
	})
	l.expectStatus("x", says(conditions.Ready, "immutable"))
}

// A bundle may not create its namespace: neither does a copy.
func TestCopyIntoMissingNamespace_NamespaceIsNotCreated(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copy-no-namespace")
	l.original("settings")
	l.start()
	missing := l.Name + "-none"
	options, generation := copyingThem(missing, "settings")
	no := false
	options.CreateNamespace = &no
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation})
	l.expectStatus("x", says(conditions.Deployed, "not found"))
	if _, err := l.East.CoreV1().Namespaces().Get(t.Context(), missing, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace exists: %v", err)
	}
	l.namespace(missing)
	l.expectStatus("x", ready)
}

// A paused bundle is to keep its resources, and is deleted.
func TestPausedBundleKeepsResources_ObjectsStay(t *testing.T) {
	t.Parallel()
	l := newLab(t, "kept-paused")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) {
		bd.Spec.Paused, bd.Spec.StagedOptions.KeepResources = true, true // as the hub stages it
	}})
	l.delete("x")
	l.expectNoRelease(l.Name, "x")
	if !l.configMapIsThere(l.Name, "x") {
		t.Error("the object is gone")
	}
}

// A release is lost while no agent runs, and something prevents that it is deployed again.
func TestLostReleaseThatCannotBeDeployed_IsNotReady(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hinder func(*lab, *fleet.BundleDeployment)
		reason string
	}{
		"a missing dependency": {func(_ *lab, bd *fleet.BundleDeployment) { bd.Spec.DependsOn = []fleet.BundleRef{{Name: "missing"}} }, conditions.ReasonDependencyMissing},
		"a missing namespace": {func(l *lab, bd *fleet.BundleDeployment) {
			bd.Spec.Options.DefaultNamespace = l.Name + "-none"
			bd.Spec.Options.AllowedTargetNamespaceSelector = &metav1.LabelSelector{}
		}, conditions.ReasonNamespaceMissing},
		"a missing account": {func(_ *lab, bd *fleet.BundleDeployment) { bd.Spec.Options.ServiceAccount = "missing" }, conditions.ReasonServiceAccountMissing},
	}
	i := 0
	for name, test := range tests {
		i++
		prefix := fmt.Sprintf("lost-release-%d", i)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, prefix)
			l.start()
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
			l.halt()
			l.remove("configmaps", "x")
			l.remove("secrets", release.SecretName("x", 1))
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) { test.hinder(l, bd) }})
			l.start()
			bd := l.expectStatus("x", becauseOf(conditions.Deployed, test.reason, ""))
			if got := state.Of(bd); got != fleet.ErrApplied {
				t.Errorf("the state is %s", got)
			}
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
		})
	}
}
