package token

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func west() Order {
	order := NewOrder(io.Discard)
	order.Workspace, order.Name, order.Cluster = "fleet-default", "west", "west"
	return *order
}

func TestInterruptedEnsure_SaysWhatItHasMade(t *testing.T) {
	for at, want := range []Made{{Cluster: named("west")}, {Cluster: named("west"), Token: named("west")}} {
		server := clitest.Start(t)
		ctx, cancel := context.WithCancel(t.Context())
		count := 0
		server.React = func(*clitest.Server, string, *clitest.Object) {
			if count == at {
				cancel()
			}
			count++
		}
		_, made, err := Ensure(ctx, server.Open(t), west())
		if err == nil || !strings.Contains(err.Error(), "interrupted") || made != want || len(server.Writes()) != at+1 {
			t.Errorf("made %v, error %v, requests %v", made, err, server.Writes())
		}
	}
}

func TestClusterThatAppears_IsNamed(t *testing.T) {
	server := clitest.Start(t)
	server.Refuse("POST /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters", 409)
	_, _, err := Ensure(t.Context(), server.Open(t), west())
	const want = "error: Cluster fleet-default/west was created by another command at the same time\nfix: run the same command again\n"
	if exit.Text(err) != want {
		t.Errorf("got:\n%s\nwant:\n%s", exit.Text(err), want)
	}
}

func TestTokenWhoseClusterIsGone_FixCreatesAnother(t *testing.T) {
	server := clitest.Start(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Type: protocol.SecretTypeValues,
		Data: map[string][]byte{protocol.ValuesKey: []byte("apiServerURL: https://hub.example.com\nclusterNamespace: fleet-default\ntoken: a\ntokenName: west\n")},
	})
	_, err := textOf(t.Context(), server.Open(t), made("west", time.Hour, nil), "west")
	const want = "error: Cluster fleet-default/west, which is to join with token west, does not exist\nfix: fleet token create NAME --cluster west -n fleet-default\n"
	if exit.Text(err) != want {
		t.Errorf("got:\n%s\nwant:\n%s", exit.Text(err), want)
	}
}

// The Cluster was deleted and created again, or the token is shown for another one.
func TestTokenForAnotherClientID_IsNotHandedOut(t *testing.T) {
	server := clitest.Start(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Type: protocol.SecretTypeValues,
		Data: map[string][]byte{protocol.ValuesKey: []byte("apiServerURL: https://hub.example.com\nclusterNamespace: fleet-default\ntoken: a\ntokenName: west\n")},
	}, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Spec: fleet.ClusterSpec{ClientID: "c"}})
	for only, want := range map[string]string{
		"c": "",
		"b": "error: token fleet-default/west is for another client ID than that of Cluster west\nreason: ClientIDNotAllowed (docs/conditions.md)\n" +
			"fix: fleet token create NAME --cluster west -n fleet-default\n",
	} {
		limited := made("west", time.Hour, func(t *fleet.ClusterRegistrationToken) {
			t.Annotations = map[string]string{annotation.TokenForClientID: only}
		})
		text, err := textOf(t.Context(), server.Open(t), limited, "west")
		if (err == nil) != (want == "") || err != nil && exit.Text(err) != want || err == nil && text.ClientID != "c" {
			t.Errorf("client ID %s: %v", only, err)
		}
	}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet-default", Name: name}
}

func TestSettingsOfTheCluster_AreInTheText(t *testing.T) {
	values, err := protocol.Values{APIServerURL: "https://hub", Token: "t", TokenName: "west"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	server := clitest.Start(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.ControllerConfig},
		Data:       map[string]string{names.ConfigKey: `{"agentImage": "fleethub/fleet-agent:v1"}`},
	}, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "moor"},
		Spec:       fleet.ClusterSpec{ClientID: "c", PrivateRepoURL: "private.example.com", AgentNamespace: "team-a"},
	})
	server.React = func(s *clitest.Server, _ string, object *clitest.Object) {
		if object.GetKind() != "ClusterRegistrationToken" || object.GetGeneration() > 0 {
			return
		}
		object.SetGeneration(1)
		if err := unstructured.SetNestedField(object.Object, "west", "status", "secretName"); err != nil {
			t.Error(err)
		}
		s.Put(object)
		s.Put(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Type: protocol.SecretTypeValues,
			Data: map[string][]byte{protocol.ValuesKey: values},
		})
	}
	hub, order := server.Open(t), west()
	order.Cluster = "moor"
	for _, way := range []string{"created", "shown"} {
		text, _, err := Ensure(t.Context(), hub, order)
		if err != nil || text.Image != "private.example.com/fleethub/fleet-agent:v1" || text.Cluster != "moor" || text.ClientID != "c" {
			t.Errorf("%s: image %q, Cluster %q, client ID %q, error %v", way, text.Image, text.Cluster, text.ClientID, err)
		}
		for form, want := range map[string][]string{
			formatValues:   {"fleetAgent:\n  scope: team-a\n", "internal:\n  systemNamespace: team-a\n"},
			formatManifest: {"kind: Namespace\nmetadata:\n  name: team-a\n", "  namespace: team-a\n", "name: AGENT_SCOPE\n          value: team-a\n"},
		} {
			var out bytes.Buffer
			if err := (&Handover{form}).Write(&out, text, "moor"); err != nil {
				t.Fatal(err)
			}
			for _, part := range want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("%s, %s: no %q in\n%s", way, form, part, out.String())
				}
			}
		}
		if namespace := agentrelease.Namespace(text); namespace != "team-a" {
			t.Errorf("%s: fleet join installs the agent in namespace %s", way, namespace)
		}
	}
}

func TestHubThatFailsForAMoment_ValuesAreAwaited(t *testing.T) {
	values, err := protocol.Values{APIServerURL: "https://hub", Token: "t", TokenName: "west"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Status: fleet.ClusterRegistrationTokenStatus{SecretName: "west"}}
	server := clitest.Start(t, token, &corev1.Secret{
		ObjectMeta: token.ObjectMeta, Type: protocol.SecretTypeValues, Data: map[string][]byte{protocol.ValuesKey: values},
	})
	var requests atomic.Int32
	server.Fails = func() bool { n := requests.Add(1); return n == 1 || n == 3 } // the token, then its Secret
	if _, _, err := awaitValues(t.Context(), server.Open(t), west(), token); err != nil {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

const tokens = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrationtokens"

func TestExitCode_SaysWhetherSomethingWasChanged(t *testing.T) {
	for cluster, want := range map[string]exit.Code{"west": exit.Failed, "": exit.Preflight} {
		server, order := clitest.Start(t), west()
		server.Refuse("POST "+tokens, http.StatusUnauthorized)
		order.Cluster = cluster
		if _, _, err := create(t.Context(), server.Open(t), order); exit.CodeOf(err) != want {
			t.Errorf("create for Cluster %q: code %d: %v", cluster, exit.CodeOf(err), err)
		}
	}
	for names, want := range map[string]exit.Code{"west east": exit.Failed, "east": exit.Preflight, "west east --dry-run": exit.Preflight} {
		server := clitest.Start(t, made("west", 0, nil), made("east", 0, nil))
		server.Refuse("DELETE "+tokens+"/east", http.StatusUnauthorized)
		got := clitest.Call(t.Context(), newRevoke, append(strings.Fields(names), "--kubeconfig", server.Kubeconfig)...)
		if got.Code != want {
			t.Errorf("revoke %s: %s", names, got)
		}
	}
}

func TestTokenThatExists_ClusterGetsTheLabels(t *testing.T) {
	values, err := protocol.Values{APIServerURL: "https://hub", Token: "t", TokenName: "west"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west", Labels: map[string]string{"a": "b"}}, Spec: fleet.ClusterSpec{ClientID: "c"}}
	server := clitest.Start(t, cluster, made("west", 0, func(t *fleet.ClusterRegistrationToken) {
		t.Annotations = map[string]string{annotation.TokenForCluster: "west"}
	}), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Type: protocol.SecretTypeValues,
		Data: map[string][]byte{protocol.ValuesKey: values},
	})
	order := west()
	for labels, writes := range map[string]int{"": 0, "env": 1} {
		if order.Labels = nil; labels != "" {
			order.Labels = map[string]string{labels: "prod"}
		}
		for range 2 {
			before := len(server.Writes())
			if _, _, err := Ensure(t.Context(), server.Open(t), order); err != nil || len(server.Writes()) > before {
				t.Errorf("error %v, requests %v", err, server.Writes())
			}
			if err := AddLabels(t.Context(), server.Open(t), order); err != nil || len(server.Writes()) > writes {
				t.Errorf("labels: error %v, requests %v", err, server.Writes())
			}
		}
	}
	if got := server.Get(cluster).GetLabels(); got["env"] != "prod" || got["a"] != "b" {
		t.Errorf("labels %v", got)
	}
}
