package clusterimport

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDesiredMarksEverythingAsOneSet(t *testing.T) {
	rendered := []runtime.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet-agent", Labels: map[string]string{"a": "b"}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet-agent"}},
	}
	tests := map[string]struct{ setID, hash string }{
		"the default set":     {"fleet-agent-bootstrap", "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"},
		"the set of a scope":  {"fleet-agent-bootstrap-cattle-fleet-local-system", "362023f752e7f1989d8b652e029bd2c658ae7c44"},
		"a set of other name": {"x", "11f6ad8ec52a2984abaafd7c3b516503785c2072"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deploy := &importing.AgentDeployment{SetID: test.setID, Values: importing.AgentValues{Namespace: "ns"}}
			var got []string
			for _, object := range desired(deploy, rendered) {
				m, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%T %s/%s %s %s %s", object, m.GetNamespace(), m.GetName(),
					m.GetLabels()["a"], m.GetLabels()[fleet.LabelSetHash], m.GetAnnotations()[fleet.AnnotationSetID]))
			}
			want := []string{
				"*v1.Namespace /ns  " + test.hash + " " + test.setID,
				"*v1.ConfigMap ns/fleet-agent b " + test.hash + " " + test.setID,
				"*v1.ServiceAccount ns/fleet-agent  " + test.hash + " " + test.setID,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if labels := rendered[0].(*corev1.ConfigMap).Labels; len(labels) != 1 {
		t.Errorf("the rendered object was written to: %v", labels)
	}
}

func TestAgentResources(t *testing.T) {
	var got []string
	for _, object := range agentResources("cattle-fleet-system") {
		m, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")+" "+m.GetNamespace()+"/"+m.GetName())
	}
	want := []string{
		"ClusterRole /cattle-fleet-system-fleet-agent-role",
		"ClusterRoleBinding /cattle-fleet-system-fleet-agent-role-binding",
		"PriorityClass /fleet-agent-priority-class",
		"Secret cattle-fleet-system/fleet-agent",
		"Secret cattle-fleet-system/fleet-agent-bootstrap",
		"ConfigMap cattle-fleet-system/fleet-agent",
		"ServiceAccount cattle-fleet-system/fleet-agent",
		"NetworkPolicy cattle-fleet-system/default-allow-all",
		"Deployment cattle-fleet-system/fleet-agent",
		"StatefulSet cattle-fleet-system/fleet-agent",
		"PodDisruptionBudget cattle-fleet-system/fleet-agent-pod-disruption-budget",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObstacle(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		err    error
		reason string
		says   string
	}{
		"a command":          {kubeconfigs.ErrKubeconfigExec, fleet.ReasonKubeconfigRefused, "exec"},
		"a plugin":           {kubeconfigs.ErrKubeconfigAuthProvider, fleet.ReasonKubeconfigRefused, "auth-provider"},
		"a file":             {fmt.Errorf("%w: tokenFile", kubeconfigs.ErrKubeconfigFile), fleet.ReasonKubeconfigRefused, "embed"},
		"no verification":    {kubeconfigs.ErrKubeconfigInsecure, fleet.ReasonKubeconfigRefused, "CA"},
		"another user":       {kubeconfigs.ErrKubeconfigImpersonates, fleet.ReasonKubeconfigRefused, "as-groups"},
		"no TLS":             {foreign.ErrKubeconfigPlain, fleet.ReasonKubeconfigRefused, "https"},
		"a proxy":            {foreign.ErrKubeconfigProxy, fleet.ReasonKubeconfigRefused, "allowLocalKubeconfigs"},
		"a local address":    {fmt.Errorf("asking: %w", foreign.ErrKubeconfigAddress), fleet.ReasonKubeconfigRefused, "allowLocalKubeconfigs"},
		"an old credential":  {foreign.ErrKubeconfigExpired, fleet.ReasonKubeconfigExpired, "a new one"},
		"a redirect":         {fmt.Errorf("asking: %w", foreign.ErrRedirected), fleet.ReasonDownstreamAnswerRefused, "redirect"},
		"too much":           {fmt.Errorf("asking: %w", foreign.ErrAnswerTooLong), fleet.ReasonDownstreamAnswerRefused, "1 MiB"},
		"an old certificate": {fmt.Errorf("asking: %w", foreign.ErrExpired), fleet.ReasonDownstreamCertificateExpired, "renew"},
		"no context":         {kubeconfigs.ErrKubeconfigContext, fleet.ReasonKubeconfigInvalid, "context"},
		"no kubeconfig":      {kubeconfigs.ErrKubeconfigMalformed, fleet.ReasonKubeconfigInvalid, "malformed"},
		"another CA":         {fmt.Errorf("asking: %w", foreign.ErrUntrusted), fleet.ReasonTLSUntrusted, "certificate-authority-data"},
		"nobody there":       {fmt.Errorf("asking: %w", foreign.ErrUnreachable), fleet.ReasonDownstreamUnreachable, "reachable"},
		"another cluster":    {errOtherCluster, fleet.ReasonLocalClusterMismatch, "another cluster"},
		"a bad token":        {apierrors.NewUnauthorized("no"), fleet.ReasonDownstreamUnauthorized, "token"},
		"too few rights":     {fmt.Errorf("x: %w", apierrors.NewForbidden(secrets, "a", errors.New("no"))), fleet.ReasonDownstreamForbidden, "cluster-admin"},
		"anything else":      {errors.New("the token is s3cr3t"), fleet.ReasonError, "log"},
		"a server's failure": {apierrors.NewInternalError(errors.New("at 10:15")), fleet.ReasonError, "log"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reason, message := obstacle(test.err)
			if reason != test.reason || !strings.Contains(message, test.says) {
				t.Errorf("got %s %q; want %s and %q in the message", reason, message, test.reason, test.says)
			}
			again, repeated := obstacle(fmt.Errorf("at another time: %w", test.err))
			if again != reason || repeated != message {
				t.Errorf("the same cause gave another condition: %s %q", again, repeated)
			}
			if strings.Contains(message, "s3cr3t") || strings.Contains(message, "10:15") {
				t.Errorf("the message repeats what a server said: %q", message)
			}
		})
	}
}

func TestRunsKeepNoKubeconfig(t *testing.T) {
	r, _ := newTestRuns()
	name := types.NamespacedName{Namespace: "ws", Name: "k"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "k", ResourceVersion: "7", Annotations: map[string]string{fleet.AnnotationAllowedWorkspaces: "b", "other": "c"}},
		Data:       map[string][]byte{"value": []byte("secret kubeconfig"), "apiServerURL": []byte("https://hub"), "apiServerCA": []byte("PEM"), "token": []byte("secret token")},
	}
	r.putSecret("ws/a", secret)
	if got := r.get("ws/a").secret(name, "8"); got != nil {
		t.Error("another version of the Secret is answered from what is remembered")
	}
	if got := r.get("ws/a").secret(name, ""); got != nil {
		t.Error("a Secret that was not seen yet is answered from what is remembered")
	}
	if got := r.get("ws/b").secret(name, "7"); got != nil {
		t.Error("another Cluster is answered")
	}
	if got := r.get("ws/a").secret(types.NamespacedName{Namespace: "fleet-local", Name: "k"}, "7"); got != nil {
		t.Error("a Secret of another namespace is answered from what is remembered")
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "k", ResourceVersion: "7", Annotations: map[string]string{fleet.AnnotationAllowedWorkspaces: "b"}},
		Data:       map[string][]byte{"value": []byte("not kept"), "apiServerURL": []byte("https://hub"), "apiServerCA": []byte("PEM")},
	}
	if diff := cmp.Diff(want, r.get("ws/a").secret(name, "7")); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	r.putSecret("ws/a", nil)
	if got := r.get("ws/a").secret(name, "7"); got != nil {
		t.Error("a Secret that is gone is remembered")
	}
	empty := secret.DeepCopy()
	delete(empty.Data, "value")
	r.putSecret("ws/a", empty)
	if got := r.get("ws/a").secret(name, "7"); got == nil || got.Data["value"] != nil {
		t.Errorf("a Secret without a kubeconfig is remembered as %v", got)
	}
}
