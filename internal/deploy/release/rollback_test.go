package release

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cluster is an API server with one release. It accepts all writes, and its Jobs are never found.
type cluster struct {
	secret corev1.Secret
	// onJob is called when a Job is read.
	onJob func()
}

func (c cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	served := func(gv string, resources ...metav1.APIResource) metav1.APIResourceList {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv, APIResources: resources}
	}
	batch := metav1.GroupVersionForDiscovery{GroupVersion: "batch/v1", Version: "v1"}
	var answer any
	switch path := r.URL.Path; {
	case path == "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case path == "/apis":
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
			{Name: "batch", Versions: []metav1.GroupVersionForDiscovery{batch}, PreferredVersion: batch},
		}}
	case path == "/api/v1":
		answer = served("v1", metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	case path == "/apis/batch/v1":
		answer = served("batch/v1", metav1.APIResource{Name: "jobs", Kind: "Job", Namespaced: true})
	case path == "/version":
		answer = map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
	case strings.HasSuffix(path, "/secrets") && r.Method == http.MethodGet:
		answer = corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}, Items: []corev1.Secret{c.secret}}
	case strings.HasSuffix(path, "/secrets/"+c.secret.Name) && r.Method == http.MethodGet:
		answer = c.secret
	case strings.HasSuffix(path, "/jobs/migrate"):
		if r.Method == http.MethodGet {
			c.onJob()
		}
		answer = apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, "migrate").Status()
	}
	w.Header().Set("Content-Type", "application/json")
	if status, failed := answer.(metav1.Status); failed {
		status.Kind, status.APIVersion = "Status", "v1"
		w.WriteHeader(int(status.Code))
		answer = status
	}
	if answer == nil {
		body, _ := io.ReadAll(r.Body) // before the answer begins
		_, _ = w.Write(body)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// hookedRelease returns the Secret of a release with the hook migrate.
func hookedRelease(t *testing.T, status release.Status, event release.HookEvent) corev1.Secret {
	t.Helper()
	r := stored(1, status)
	r.Hooks = []*release.Hook{{
		Name: "migrate", Path: "migrate.yaml", Events: []release.HookEvent{event},
		Manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\n",
	}}
	text, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName("hello", 1), Namespace: "web"}, Data: map[string][]byte{releaseDataKey: text}}
}

// agentOf returns the identity of an agent of a cluster.
func agentOf(t *testing.T, c cluster) *access.Identity {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	agent, err := access.NewAgent(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, deploytest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func TestInterruptedUninstallationContinues_RunsDeleteHooksUnlessMoved(t *testing.T) {
	key := placement.Release{Namespace: "web", Name: "hello"}
	for name, stale := range map[string][]placement.Release{"only release: hooks run": nil, "another release: no hooks": {{Namespace: "web", Name: "shop"}}} {
		t.Run(name, func(t *testing.T) {
			var jobs atomic.Int32
			stopped := make(chan struct{})
			agent := agentOf(t, cluster{
				secret: hookedRelease(t, release.StatusUninstalling, release.HookPreDelete),
				onJob: func() {
					if jobs.Add(1) == 1 {
						close(stopped) // ends the wait for the Job
					}
				},
			})
			r := &Releaser{Agent: agent, Clock: deploytest.Noon, Stopped: stopped}
			h, err := r.History(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			in := Installation{Release: key, Options: &fleet.BundleDeploymentOptions{}, Identity: agent, Stale: stale}
			_, err = r.prepare(in, h, nil)
			if ran := jobs.Load() > 0; ran != (stale == nil) || (err == nil) == ran {
				t.Errorf("hooks ran: %t, error: %v", ran, err)
			}
		})
	}
}

func TestRollbackWithUnfinishedHook_LendsSlotAndEndsWhenSuperseded(t *testing.T) {
	slots := make(chan struct{}, 1)
	var held atomic.Int32
	agent := agentOf(t, cluster{
		secret: hookedRelease(t, release.StatusDeployed, release.HookPreRollback),
		onJob:  func() { held.Add(int32(len(slots))) },
	})
	slots <- struct{}{} // that of the bundle
	done := make(chan error, 1)
	go func() {
		_, err := (&Releaser{Agent: agent, Clock: deploytest.Noon, Slots: slots}).RollBack(t.Context(), Rollback{
			Release: placement.Release{Namespace: "web", Name: "hello"}, Revision: 1, Options: &fleet.BundleDeploymentOptions{},
			Identity: agent, Superseded: func() bool { return true },
		})
		done <- err
	}()
	err := deploytest.Receive(t, done)
	if err == nil || !strings.Contains(err.Error(), "a newer state of the bundle is wanted") || errors.Is(err, access.ErrStopped) {
		t.Errorf("got %v", err)
	}
	if held.Load() > 0 || len(slots) != 1 {
		t.Errorf("slots held during the hook: %d, after it: %d", held.Load(), len(slots))
	}
}
