package workload

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// someDay is the time of the tests.
var someDay = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func authority(t *testing.T) pki.Authority {
	t.Helper()
	ca, err := pki.NewAuthority("east", someDay)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestNewToken_DependsOnTheCAAndTheUID(t *testing.T) {
	ca := authority(t)
	token := NewToken(ca, "1")
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.Bearer()) {
		t.Errorf("token of the wrong form, %d bytes", len(token.Bearer()))
	}
	if NewToken(ca, "1") != token {
		t.Error("the same configuration has another token")
	}
	if NewToken(ca, "2") == token || NewToken(authority(t), "1") == token {
		t.Error("another configuration or cluster has the same token")
	}
}

func TestIsCurrent_RequiresHalfOfTheLifetime(t *testing.T) {
	token := NewToken(authority(t), "1")
	tests := map[string]struct {
		change func(*corev1.Secret)
		passed time.Duration
		want   bool
	}{
		"new":                          {want: true},
		"after 15 minutes":             {passed: 15 * time.Minute, want: true},
		"after 16 minutes: extended":   {passed: 16 * time.Minute},
		"no expiration: written again": {change: func(s *corev1.Secret) { delete(s.Data, "expiration") }},
		"other secret: written again":  {change: func(s *corev1.Secret) { s.Data["token-secret"] = []byte("x") }},
		"other group: written again":   {change: func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := token.NewSecret(someDay)
			if test.change != nil {
				test.change(secret)
			}
			if got := token.IsCurrent(secret, someDay.Add(test.passed)); got != test.want {
				t.Errorf("current: %t, want %t", got, test.want)
			}
		})
	}
}

func TestEnsureToken_CreatesAndExtends(t *testing.T) {
	server := fake.NewClientset()
	client, token := NewFor(server), NewToken(authority(t), "1")
	for _, passed := range []time.Duration{0, 20 * time.Minute} {
		now := someDay.Add(passed)
		if err := client.EnsureToken(t.Context(), token, now); err != nil {
			t.Fatal(err)
		}
		found, err := server.CoreV1().Secrets("kube-system").Get(t.Context(), token.Name(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(token.NewSecret(now).Data, found.Data); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", passed, diff)
		}
	}
}

func TestEnsureToken_RejectsASecretOfAnotherType(t *testing.T) {
	token := NewToken(authority(t), "1")
	taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: token.Name()}, Type: "Opaque"}
	err := NewFor(fake.NewClientset(taken)).EnsureToken(t.Context(), token, someDay)
	if err == nil || !strings.HasSuffix(err.Error(), "it has the type Opaque, which cannot change: delete it") {
		t.Errorf("error %v", err)
	}
}

func TestEnsureBindings_KeepsExistingOnes(t *testing.T) {
	server := fake.NewClientset()
	for range 2 {
		if err := NewFor(server).EnsureBindings(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := server.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, each := range list.Items {
		got[each.Subjects[0].Name+" "+each.Name] = each.RoleRef.Name
	}
	want := map[string]string{
		"system:bootstrappers:lab lab:node-approval":     "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
		"system:bootstrappers:lab lab:node-bootstrapper": "system:node-bootstrapper",
		"system:nodes lab:node-renewal":                  "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

func TestNew_RejectsAnInvalidKubeconfig(t *testing.T) {
	if _, err := New([]byte("kind: Config")); err == nil {
		t.Error("want an error")
	}
}
