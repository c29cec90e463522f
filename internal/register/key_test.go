package register

import (
	"bytes"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const recoveryName = "fleet-agent-recovery-" + agentNS

// signer is an agent in a cluster with these objects. forbid lists "<verb> <namespace>" that it may not do to Secrets.
func signer(t *testing.T, log *bytes.Buffer, forbid []string, objects ...runtime.Object) *agent {
	t.Helper()
	local := fake.NewClientset(objects...)
	local.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains(forbid, action.GetVerb()+" "+action.GetNamespace()) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, recoveryName, errors.New("no"))
		}
		return false, nil, nil
	})
	return newAgent(Options{Local: local, Namespace: agentNS, Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil))}, nil)
}

func toSign() *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{Spec: fleet.ClusterRegistrationSpec{ClientID: "c1", ClientRandom: "random-1"}}
}

func recoverySecret(namespace string, kind corev1.SecretType, key []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: recoveryName}, Type: kind,
		Data: map[string][]byte{protocol.RecoveryKeyKey: key},
	}
}

// signOnce signs a request and returns its verified key, or "" if it is not signed.
func signOnce(t *testing.T, a *agent) string {
	t.Helper()
	request := toSign()
	if err := a.sign(t.Context(), request, rulestest.BoundJWT("account-1", time.Time{}), ""); err != nil {
		t.Fatal(err)
	}
	key := request.Annotations[annotation.AgentKey]
	if key == "" {
		return ""
	}
	claims := identity.Claims{ClientID: "c1", ClientRandom: "random-1", Account: "account-1"}
	if err := identity.Verify(key, request.Annotations[annotation.AgentProof], claims); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRecoveryKey_IsCreatedOnceAndReused(t *testing.T) {
	foreign := recoverySecret("kube-system", corev1.SecretTypeOpaque, []byte("theirs"))
	hook := func(namespace string) *corev1.Secret { // of the agent's chart, printed by helm template and applied by kubectl
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: recoveryName}, Type: corev1.SecretTypeOpaque}
	}
	for name, test := range map[string]struct {
		forbid  []string
		objects []runtime.Object
		where   string
	}{
		"nothing is there: kube-system":                       {where: "kube-system"},
		"kube-system may not be written: own namespace":       {forbid: []string{"create kube-system"}, where: agentNS},
		"kube-system may not be read or written: own":         {forbid: []string{"get kube-system", "create kube-system"}, where: agentNS},
		"name in kube-system is taken: own namespace":         {objects: []runtime.Object{foreign}, where: agentNS},
		"empty Secrets of printed hooks: kube-system":         {objects: []runtime.Object{hook("kube-system"), hook(agentNS)}, where: "kube-system"},
		"key is truncated: it is replaced":                    {objects: []runtime.Object{recoverySecret("kube-system", protocol.SecretTypeRecovery, []byte("-----BEGIN PRI"))}, where: "kube-system"},
		"key in the own namespace is empty: it is replaced":   {objects: []runtime.Object{recoverySecret(agentNS, protocol.SecretTypeRecovery, nil)}, where: agentNS},
		"key of an earlier process in the own namespace: own": {objects: []runtime.Object{recoverySecret(agentNS, protocol.SecretTypeRecovery, encodedKey(t))}, where: agentNS},
	} {
		t.Run(name, func(t *testing.T) {
			log := &bytes.Buffer{}
			a := signer(t, log, test.forbid, test.objects...)
			first, second := signOnce(t, a), signOnce(t, a)
			if first == "" || first != second {
				t.Errorf("keys %q and %q", first, second)
			}
			secret, err := a.Local.CoreV1().Secrets(test.where).Get(t.Context(), recoveryName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			key, err := identity.ParseKey(secret.Data[protocol.RecoveryKeyKey])
			if err != nil || key.Public() != first {
				t.Errorf("stored key %v, want %s (%v)", key, first, err)
			}
			if strings.Contains(log.String(), "-----BEGIN") {
				t.Errorf("the log has the key:\n%s", log)
			}
		})
	}
}

func TestRecoverySecretUnread_HeartbeatReportsNothingOfIt(t *testing.T) {
	a := newAgent(Options{Random: zeros{}}, nil)
	if diff := cmp.Diff(fleet.AgentStatus{}, a.heartbeatStatus("token")); diff != "" {
		t.Error(diff)
	}
}

func encodedKey(t *testing.T) []byte {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	document, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestAgentThatMayNotStoreAKey_SendsAnUnsignedRequest(t *testing.T) {
	log := &bytes.Buffer{}
	a := signer(t, log, []string{"create kube-system", "create " + agentNS})
	if key := signOnce(t, a); key != "" {
		t.Errorf("signed with %s, which is stored nowhere", key)
	}
	if !strings.Contains(log.String(), "fleet confirm-takeover") {
		t.Errorf("the log does not name the remedy:\n%s", log)
	}
}

func TestTokenThatNamesNoAccount_NoKeyIsCreated(t *testing.T) {
	a := signer(t, &bytes.Buffer{}, nil)
	request := toSign()
	if err := a.sign(t.Context(), request, "opaque", ""); err != nil || len(request.Annotations) > 0 {
		t.Errorf("annotations %v, error %v", request.Annotations, err)
	}
	if secrets, err := a.Local.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || len(secrets.Items) > 0 {
		t.Errorf("Secrets %v, error %v", secrets.Items, err)
	}
}

// A key must not be created while it is unknown whether there is one.
func TestUnansweredRead_CreatesNoSecondKey(t *testing.T) {
	a := signer(t, &bytes.Buffer{}, nil)
	local, ok := a.Local.(*fake.Clientset)
	if !ok {
		t.Fatalf("client %T", a.Local)
	}
	local.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("down"))
	})
	if err := a.sign(t.Context(), toSign(), rulestest.BoundJWT("account-1", time.Time{}), ""); !apierrors.IsInternalError(err) {
		t.Errorf("error %v, want the server's", err)
	}
	if secrets, err := a.Local.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || len(secrets.Items) > 0 {
		t.Errorf("Secrets %v, error %v", secrets.Items, err)
	}
}
