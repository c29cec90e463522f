package charts_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// renewer is the account of an agent in a namespace that the server lets create tokens of every account: only the
// policy limits it.
func renewer(t *testing.T, admin kubernetes.Interface, namespace string) kubernetes.Interface {
	t.Helper()
	ctx := t.Context()
	create := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	create(err)
	for _, account := range []string{"request-1", "request-10"} {
		_, err = admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		create(err)
	}
	user := "system:serviceaccount:" + namespace + ":request-1"
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tokens-of-all-" + namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	create(err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tokens-of-all-" + namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tokens-of-all-" + namespace},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	create(err)
	cfg := control.Plane(t).Hub.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tokenOf requests a token. A lifetime of zero leaves the default to the server.
func tokenOf(ctx context.Context, client kubernetes.Interface, namespace, account string, lifetime time.Duration) error {
	request := &authenticationv1.TokenRequest{}
	if lifetime > 0 {
		seconds := int64(lifetime / time.Second)
		request.Spec.ExpirationSeconds = &seconds
	}
	_, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	return err
}

// TestCredentialPolicy_LetsAgentsRenewOnlyTheirOwnToken applies the policy to an API server and tries what a stolen
// credential would be used for.
func TestCredentialPolicy_LetsAgentsRenewOnlyTheirOwnToken(t *testing.T) {
	hub, ctx := newServer(t), t.Context()
	for _, object := range objectsOf(t, map[string]string{"p.yaml": mustRender(t, controllers("agentCredential: {lifetime: 24h}"))["credentials.yaml"]}) {
		resource, err := hub.resource(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resource.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := resource.Delete(context.WithoutCancel(ctx), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	admin, err := kubernetes.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	place := names.ClusterNamespace("fleet-default", "renewal")
	agent, other, similar := renewer(t, admin, place), renewer(t, admin, "team-renewal"), renewer(t, admin, "cluster-api-renewal-addon1")
	long, longer := names.ClusterNamespace("fleet-default", strings.Repeat("x", 60)), names.ClusterNamespace("fleet-default", strings.Repeat("x", 34)+"-"+strings.Repeat("x", 20))
	inLong, inLonger := renewer(t, admin, long), renewer(t, admin, longer)
	// The server applies new rights and policies after a moment.
	var foreign, own, unconcerned error
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		foreign, own = tokenOf(ctx, agent, place, "request-10", time.Hour), tokenOf(ctx, agent, place, "request-1", time.Hour)
		unconcerned = tokenOf(ctx, other, "team-renewal", "request-1", time.Hour)
		return foreign != nil && own == nil && unconcerned == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for the policy: %v; token of another account: %v; own: %v; not concerned: %v", err, foreign, own, unconcerned)
	}
	for name, test := range map[string]struct {
		client             kubernetes.Interface
		namespace, account string
		lifetime           time.Duration
		denied             bool
	}{
		"its own, the whole lifetime":                   {agent, place, "request-1", 24 * time.Hour, false},
		"its own, the minimum":                          {agent, place, "request-1", 10 * time.Minute, false},
		"its own, the server's default":                 {agent, place, "request-1", 0, false},
		"its own, a second more":                        {agent, place, "request-1", 24*time.Hour + time.Second, true},
		"its own, for ever":                             {agent, place, "request-1", (1<<32 - 1) * time.Second, true},
		"another account":                               {agent, place, "default", time.Hour, true},
		"an account whose name begins with its own":     {agent, place, "request-10", time.Hour, true},
		"an account that is no agent's: not concerned":  {other, "team-renewal", "request-10", 48 * time.Hour, false},
		"an account of a namespace with a similar name": {similar, "cluster-api-renewal-addon1", "request-10", 48 * time.Hour, false},
		"another account of a cut name, 5 digits":       {inLong, long, "request-10", time.Hour, true},
		"another account of a cut name, 6 digits":       {inLonger, longer, "request-10", time.Hour, true},
		"a controller: not concerned":                   {admin, place, "request-1", (1<<32 - 1) * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tokenOf(t.Context(), test.client, test.namespace, test.account, test.lifetime)
			if denied := err != nil; denied != test.denied {
				t.Errorf("error %v, denied %t, want %t", err, denied, test.denied)
			}
			if test.denied && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("error %v: the agent would not try a shorter lifetime", err)
			}
		})
	}
}

func TestCredentialPolicy_ExistsOnlyWithALifetime(t *testing.T) {
	for values, want := range map[string]int{"": 2, "agentCredential: {lifetime: 0}": 0, "agentCredential: {lifetime: 0h0m}": 0, "agentCredential: {lifetime: '0'}": 0, "agentCredential: {lifetime: 10m}": 2} {
		if got := len(objectsOf(t, map[string]string{"p.yaml": mustRender(t, controllers(values))["credentials.yaml"]})); got != want {
			t.Errorf("%q: %d objects, want %d", values, got, want)
		}
	}
}
