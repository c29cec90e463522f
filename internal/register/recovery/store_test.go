package recovery_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/register/recovery"
)

// The hub would not accept another key of the agent.
func TestNotFoundPageOfAProxy_CreatesNoKey(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	local, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (recovery.Store{Local: local, Namespace: "agents", Log: slog.New(slog.DiscardHandler)}).Load(t.Context()); err == nil {
		t.Error("no error")
	}
}

// Policies and webhooks deny objects with other codes than authorization.
func TestKeyThatAdmissionDenies_IsStoredInTheNextNamespace(t *testing.T) {
	kind := schema.GroupKind{Kind: "Secret"}
	for name, denial := range map[string]error{
		"a policy":               apierrors.NewInvalid(kind, "s", nil),
		"a webhook without code": apierrors.NewBadRequest(`admission webhook "w" denied the request: no`),
	} {
		for _, denied := range [][]string{{metav1.NamespaceSystem}, {metav1.NamespaceSystem, "agents"}} {
			t.Run(name+" denies "+strings.Join(denied, " and "), func(t *testing.T) {
				local := fake.NewClientset()
				local.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
					return slices.Contains(denied, action.GetNamespace()), nil, denial
				})
				store := recovery.Store{Local: local, Namespace: "agents", Log: slog.New(slog.DiscardHandler)}
				_, _, err := store.Load(t.Context())
				if len(denied) > 1 {
					if !recovery.IsUnstorable(err) {
						t.Errorf("error %v, want one that says that no key can be stored", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := local.CoreV1().Secrets("agents").Get(t.Context(), store.Name(), metav1.GetOptions{}); err != nil {
					t.Errorf("the key is not in the agent's namespace: %v", err)
				}
			})
		}
	}
}

// A proxy in front of the API server does not say whether there is a key.
func TestReadThatIsRefused_DoesNotMeanThatNoKeyCanBeStored(t *testing.T) {
	local := fake.NewClientset()
	local.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewBadRequest("no")
	})
	_, _, err := (recovery.Store{Local: local, Namespace: "agents", Log: slog.New(slog.DiscardHandler)}).Load(t.Context())
	if err == nil || recovery.IsUnstorable(err) {
		t.Errorf("error %v, want one after which the agent tries again", err)
	}
}

func TestEmptySecretThatAdmissionKeeps_TheKeyIsStoredInTheNextNamespace(t *testing.T) {
	store := recovery.Store{Namespace: "agents", Log: slog.New(slog.DiscardHandler)}
	local := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: store.Name()}, Type: corev1.SecretTypeOpaque})
	local.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewBadRequest("denied")
	})
	store.Local = local
	if _, _, err := store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := local.CoreV1().Secrets("agents").Get(t.Context(), store.Name(), metav1.GetOptions{}); err != nil {
		t.Errorf("the key is not in the agent's namespace: %v", err)
	}
}
