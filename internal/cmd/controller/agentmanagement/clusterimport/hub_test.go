package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const otherHub = "5f6c0a52-1d7e-4f0b-9d1b-0a8f0c3d2e1f"

// markedBy is the agent's ConfigMap of a hub.
func markedBy(namespace, uid string) *corev1.ConfigMap {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet-agent"}}
	if uid != "" {
		config.Annotations = map[string]string{annotation.HubUID: uid}
	}
	return config
}

func TestKubeconfigOfTheHubItself_WritesNothingOutsideTheBootstrapWorkspace(t *testing.T) {
	tests := map[string]struct {
		bootstrap, workspace string
		refused              bool
	}{
		"another workspace":                            {bootstrap: "fleet-local", workspace: "ws", refused: true},
		"the default workspace, bootstrap is another":  {bootstrap: "hub", workspace: "fleet-local", refused: true},
		"another workspace, bootstrap is disabled":     {bootstrap: "-", workspace: "ws", refused: true},
		"the bootstrap workspace":                      {bootstrap: "ws", workspace: "ws"},
		"the default workspace, bootstrap is disabled": {bootstrap: "-", workspace: "fleet-local"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := start(t)
			behind.uid = ownNamespace().UID
			conf := hubConfig()
			conf.Bootstrap.Namespace = test.bootstrap
			hub.App.Config.Set(conf)
			c, secret, token, given := cluster(), kubeconfig(), importToken(), values(t)
			for _, object := range []hubtest.Object{c, secret, token, given} {
				object.SetNamespace(test.workspace)
				hub.Put(object)
			}
			hub.Requests()
			hub.Woken()
			if err := hub.Handle("Cluster", test.workspace+"/c1"); err != nil {
				t.Fatal(err)
			}
			hub.AwaitWoken()
			wrote := false
			for _, request := range hub.Requests() {
				wrote = wrote || strings.HasPrefix(request, "downstream apply ") || strings.HasPrefix(request, "downstream remove ")
			}
			if wrote == test.refused {
				t.Errorf("written downstream: %v", wrote)
			}
			got := conditions.Get(hubtest.MustGet[*fleet.Cluster](t, hub, test.workspace, "c1").Status.Conditions, conditions.Imported)
			if refused := got.Reason == conditions.ReasonTargetIsHub; refused != test.refused {
				t.Errorf("condition %+v", got)
			}
		})
	}
}

func TestUnknownTargetIdentity_MissingKubeSystemIsNotTheHub(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("namespaces"), "kube-system")
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"no namespace kube-system: imported":   {err: gone},
		"kube-system cannot be read: reported": {err: errServer, reason: conditions.ReasonError},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster())
			hub.Fail(readTarget, test.err)
			work(t, hub)
			expectImported(t, hub, test.reason)
		})
	}
}

func TestKubeconfigSecretOfAnotherNamespace_IsUsedOnlyIfItAllowsTheWorkspace(t *testing.T) {
	elsewhere := func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "fleet-local" }
	secret := kubeconfig()
	secret.Namespace = "fleet-local"
	hub, _ := start(t, cluster(elsewhere), secret, importToken(), values(t))
	hub.App.Reach = func(context.Context, []byte, time.Duration, bool) error {
		t.Error("the cluster is probed")
		return nil
	}
	if hub.App.Probes.Start(cluster(elsewhere)) {
		hub.AwaitWoken()
	}
	hub.App.Reach = func(context.Context, []byte, time.Duration, bool) error { return nil }
	handle(t, hub)
	for _, request := range hub.Requests() {
		if strings.HasPrefix(request, "downstream ") {
			t.Errorf("unexpected: %s", request)
		}
	}
	expectImported(t, hub, conditions.ReasonKubeconfigNamespaceRefused)

	// The Secret's owner allows it, which needs no change of the Cluster.
	secret.Annotations = map[string]string{annotation.AllowedWorkspaces: "ws"}
	hub.Put(secret)
	hub.Sync()
	hub.Woken()
	work(t, hub)
	expectImported(t, hub, "")

	// And takes it back: the agent stays, and is not reached any more.
	hub.Put(func() *corev1.Secret { s := secret.DeepCopy(); s.Annotations = nil; return s }())
	hub.Sync()
	hub.Woken()
	hub.Requests()
	handle(t, hub)
	for _, request := range hub.Requests() {
		if strings.HasPrefix(request, "downstream ") {
			t.Errorf("unexpected: %s", request)
		}
	}
	expectImported(t, hub, conditions.ReasonKubeconfigNamespaceRefused)
}

func TestAgentOfAnotherHub_IsNotTouched(t *testing.T) {
	hub, behind := ready(t, cluster())
	behind.there = []hubtest.Object{markedBy("cattle-fleet-system", otherHub)}
	work(t, hub)
	hubtest.ExpectRequests(t, hub, readSecret, readCluster, readOwn, dialled, asked, readTarget, readMark, written) // nothing is removed or applied
	expectImported(t, hub, conditions.ReasonAnotherHub)
	message := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message
	for _, says := range []string{otherHub, "spec.agentNamespace", "kubectl annotate configmap -n cattle-fleet-system fleet-agent fleet.cattle.io/hub-uid-"} {
		if !strings.Contains(message, says) {
			t.Errorf("%q does not say %q", message, says)
		}
	}

	// Another namespace is another agent's.
	hub.Sync()
	c := current(t, hub)
	c.Generation, c.Spec.AgentNamespace = 2, "agents"
	hub.Put(c)
	hub.Woken()
	work(t, hub)
	expectImported(t, hub, "")
}

func TestCheckHub(t *testing.T) {
	tests := map[string]struct{ mark, reason string }{
		"no mark: imported":             {},
		"mark of this hub: imported":    {mark: "u-hub"},
		"mark of another hub: reported": {mark: otherHub, reason: conditions.ReasonAnotherHub},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := ready(t, cluster())
			behind.there = []hubtest.Object{markedBy("cattle-fleet-system", test.mark)}
			work(t, hub)
			expectImported(t, hub, test.reason)
			if test.reason != "" {
				return
			}
			var marks []string
			for _, object := range behind.applied {
				if config, ok := object.(*corev1.ConfigMap); ok {
					marks = append(marks, config.Annotations[annotation.HubUID])
				}
			}
			if diff := cmp.Diff([]string{"u-hub"}, marks); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHubIdentity_IsReadOnce(t *testing.T) {
	hub, _ := start(t)
	hub.Fail(readOwn, errServer)
	if _, err := hub.App.Identities.Own(t.Context()); !errors.Is(err, errServer) {
		t.Errorf("error %v", err)
	}
	hub.Fail(readOwn, nil)
	for range 3 {
		if uid, err := hub.App.Identities.Own(t.Context()); err != nil || uid != "u-hub" {
			t.Errorf("%q, error %v", uid, err)
		}
	}
	hubtest.ExpectRequests(t, hub, readOwn, readOwn)
}

// The former namespace may have an agent of another hub by now.
func TestMovedAgent_LeavesOnlyAgentsOfOtherHubs(t *testing.T) {
	tests := map[string]struct {
		mark    string
		removes bool
	}{
		"mark of this hub: removed":  {mark: "u-hub", removes: true},
		"mark of another hub: stays": {mark: otherHub},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t, func(c *fleet.Cluster) { c.Generation, c.Spec.AgentNamespace = 2, "agents" })
			behind.there = []hubtest.Object{markedBy("cattle-fleet-system", test.mark)}
			work(t, hub)
			removes := false
			for _, line := range hub.Requests() {
				removes = removes || line == "downstream remove Deployment cattle-fleet-system/fleet-agent"
			}
			if removes != test.removes {
				t.Errorf("removed: %v", removes)
			}
			expectImported(t, hub, "")
		})
	}
	t.Run("mark cannot be read: waits", func(t *testing.T) {
		hub, _ := imported(t, func(c *fleet.Cluster) { c.Generation, c.Spec.AgentNamespace = 2, "agents" })
		hub.Fail(readMark, errServer)
		work(t, hub)
		expectImported(t, hub, conditions.ReasonError)
	})
}

func TestObstacle_OfRefusedRequests(t *testing.T) {
	forbidden := func(message string, causes ...metav1.StatusCause) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "fleet-agent", errors.New(message))
		err.ErrStatus.Details.Causes = causes
		return fmt.Errorf("applying Deployment n/fleet-agent: %w", err)
	}
	terminating := metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}
	tests := map[string]struct {
		err    error
		reason string
	}{
		"a webhook denies it": {
			err:    fmt.Errorf("applying: %w", apierrors.NewBadRequest(`admission webhook "w.example.com" denied the request: no`)),
			reason: conditions.ReasonAdmissionDenied,
		},
		"a webhook does not answer": {
			err:    apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": EOF`)),
			reason: conditions.ReasonAdmissionDenied,
		},
		"a policy denies it":           {err: forbidden(`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), reason: conditions.ReasonAdmissionDenied},
		"the namespace is terminating": {err: forbidden("unable to create new content in namespace n because it is being terminated", terminating), reason: conditions.ReasonNamespaceTerminating},
		"the user has no right":        {err: forbidden(`User "u" cannot patch resource`), reason: conditions.ReasonDownstreamForbidden},
		"the server fails":             {err: apierrors.NewInternalError(errors.New("etcd")), reason: conditions.ReasonError},
		"the deadline is exceeded":     {err: context.DeadlineExceeded, reason: conditions.ReasonError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reason, message := obstacle(test.err, "hub-system", "agents")
			if reason != test.reason || message == "" || strings.Contains(message, "10.0.0.1") {
				t.Errorf("%s: %q", reason, message)
			}
		})
	}
}

// The pause does not grow with the number of attempts.
func TestTerminatingNamespace_IsRetriedSoon(t *testing.T) {
	r, clock := newTestRecords()
	going := apierrors.NewForbidden(schema.GroupResource{}, "n", errors.New("terminating"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for range 12 {
		if begun, _, _ := r.begin("ws/a", "x"); !begun {
			t.Fatal("not begun")
		}
		retry := r.failed("ws/a", fmt.Errorf("applying: %w", going))
		if retry > retryDeleting {
			t.Fatalf("tried again after %s", retry)
		}
		clock.now = clock.now.Add(retry)
	}
}

// While a job waits for a worker, the owner of the Secret may withdraw the consent.
func TestConsentWithdrawnWhileTheJobIsQueued_KubeconfigIsNotUsed(t *testing.T) {
	hub := hubtest.New(t)
	behind := &downstream{hub: hub, uid: "u-downstream"}
	hub.App.Dial = behind.dial
	hub.App.Config.Set(hubConfig())
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	secret := kubeconfig()
	secret.Namespace, secret.Annotations = "fleet-local", map[string]string{annotation.AllowedWorkspaces: "ws"}
	hub.Have(ownNamespace())
	hub.Put(cluster(func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "fleet-local" }), secret, importToken(), values(t))
	handle(t, hub) // queues the job
	refused := secret.DeepCopy()
	refused.Annotations = nil
	hub.Put(refused)
	hub.Woken()
	hub.Requests()
	go hub.App.Remote.Run(t.Context())
	hub.AwaitWoken()
	for _, request := range hub.Requests() {
		if strings.HasPrefix(request, "downstream ") {
			t.Errorf("unexpected: %s", request)
		}
	}
}
