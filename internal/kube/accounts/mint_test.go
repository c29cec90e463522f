package accounts

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

var errUpset = errors.New("the server is upset")

// tokenServer is client-go's fake with an API server's answer to TokenRequests.
type tokenServer struct {
	*fake.Clientset
	// most caps the seconds given; 0 does not. mute leaves them out of the answer, empty the token.
	most        int64
	mute, empty bool
}

func newTokenServer(objects ...runtime.Object) *tokenServer {
	s := &tokenServer{Clientset: fake.NewClientset(objects...)}
	s.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request, ok := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		if !ok || action.GetSubresource() != "token" {
			return false, nil, nil
		}
		answer := request.DeepCopy()
		answer.Status.Token = "from the TokenRequest API"
		if s.most > 0 && *answer.Spec.ExpirationSeconds > s.most {
			answer.Spec.ExpirationSeconds = &s.most
		}
		if s.empty {
			answer.Status.Token = ""
		}
		if s.mute {
			answer.Spec.ExpirationSeconds = nil
		}
		return true, answer, nil
	})
	return s
}

func (s *tokenServer) requests() (lines []string) {
	for _, action := range s.Actions() {
		resource := action.GetResource().Resource
		if action.GetSubresource() != "" {
			resource += "/" + action.GetSubresource()
		}
		lines = append(lines, action.GetVerb()+" "+resource)
	}
	return lines
}

func mintAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "u-sa"}}
}

// lasting is the account's token Secret, filled.
func lasting(modifiers ...func(*corev1.Secret)) *corev1.Secret {
	s := TokenSecret(mintAccount(), "sa-token")
	s.Annotations[corev1.ServiceAccountUIDKey] = "u-sa"
	s.Data = map[string][]byte{"token": []byte("from the token secret")}
	for _, modify := range modifiers {
		modify(s)
	}
	return s
}

func TestMint(t *testing.T) {
	asked := "create serviceaccounts/token"
	fallback := []string{asked, "get serviceaccounts", "get secrets"}
	tests := map[string]struct {
		objects  []runtime.Object
		most     int64
		mute     bool
		want     string
		err      error
		requests []string
	}{
		"TokenRequest API returns the token":                     {want: "from the TokenRequest API", requests: []string{asked}},
		"TokenRequest API grants exactly the requested lifetime": {most: 3600, want: "from the TokenRequest API", requests: []string{asked}},
		"TokenRequest API returns no lifetime":                   {mute: true, want: "from the TokenRequest API", requests: []string{asked}},
		"capped lifetime: token of the token Secret":             {most: 3599, objects: []runtime.Object{mintAccount(), lasting()}, want: "from the token secret", requests: fallback},
		"missing token Secret: created, pending":                 {most: 60, objects: []runtime.Object{mintAccount()}, err: ErrTokenPending, requests: append(fallback[:3:3], "create secrets")},
		"token Secret without data: pending":                     {most: 60, objects: []runtime.Object{mintAccount(), lasting(func(s *corev1.Secret) { s.Data = nil })}, err: ErrTokenPending, requests: fallback},
		"token Secret with an empty token: pending":              {most: 60, objects: []runtime.Object{mintAccount(), lasting(func(s *corev1.Secret) { s.Data["token"] = nil })}, err: ErrTokenPending, requests: fallback},
		"token Secret of a former account: pending":              {most: 60, objects: []runtime.Object{mintAccount(), lasting(func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "u-old" })}, err: ErrTokenPending, requests: fallback},
		"other Secret of that name: an error":                    {most: 60, objects: []runtime.Object{mintAccount(), lasting(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}, err: ErrTokenSecretTaken, requests: fallback},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newTokenServer(test.objects...)
			server.most, server.mute = test.most, test.mute
			got, err := Mint(t.Context(), server, "ns", "sa", time.Hour)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q, error %v; want %q, error %v", got, err, test.want, test.err)
			}
			if diff := cmp.Diff(test.requests, server.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMint_EmptyTokenIsPending(t *testing.T) {
	server := newTokenServer(mintAccount())
	server.empty = true
	if got, err := Mint(t.Context(), server, "ns", "sa", time.Hour); got != "" || !errors.Is(err, ErrTokenPending) {
		t.Errorf("got %q, error %v; want the token Secret to be waited for", got, err)
	}
}

func TestMint_RequestsTheWholeLifetime(t *testing.T) {
	for lifetime, want := range map[time.Duration]int64{10 * time.Minute: 600, time.Hour: 3600, (1<<32 - 1) * time.Second: 1<<32 - 1} {
		server := newTokenServer()
		if _, err := Mint(t.Context(), server, "ns", "sa", lifetime); err != nil {
			t.Fatal(err)
		}
		action, ok := server.Actions()[0].(clienttesting.CreateActionImpl)
		if !ok || action.Name != "sa" || action.Namespace != "ns" {
			t.Fatalf("asked %+v", server.Actions()[0])
		}
		request := action.GetObject().(*authenticationv1.TokenRequest).Spec
		if *request.ExpirationSeconds != want || len(request.Audiences) != 0 {
			t.Errorf("asked for %d seconds, audiences %v; want %d of the API server's own", *request.ExpirationSeconds, request.Audiences, want)
		}
	}
}

func TestMint_TokenSecretIsOwnedByTheAccount(t *testing.T) {
	server := newTokenServer(mintAccount())
	server.most = 60
	if _, err := Mint(t.Context(), server, "ns", "sa", time.Hour); !errors.Is(err, ErrTokenPending) {
		t.Fatal(err)
	}
	got, err := server.CoreV1().Secrets("ns").Get(t.Context(), "sa-token", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.ManagedFields, got.TypeMeta = nil, metav1.TypeMeta{}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "sa-token", Annotations: map[string]string{"kubernetes.io/service-account.name": "sa"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "sa", UID: "u-sa"}},
		},
		Type: "kubernetes.io/service-account-token",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMint_ErrorNamesTheFailedRequest(t *testing.T) {
	tests := map[string]struct {
		verb, resource string
		objects        []runtime.Object
		says           string
	}{
		"requesting a token":        {"create", "serviceaccounts", nil, "requesting a token of account ns/sa"},
		"reading the account":       {"get", "serviceaccounts", []runtime.Object{mintAccount()}, "reading account ns/sa"},
		"reading the token Secret":  {"get", "secrets", []runtime.Object{mintAccount()}, "token secret of account ns/sa"},
		"creating the token Secret": {"create", "secrets", []runtime.Object{mintAccount()}, "token secret of account ns/sa"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newTokenServer(test.objects...)
			server.most = 60
			server.PrependReactor(test.verb, test.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errUpset
			})
			got, err := Mint(t.Context(), server, "ns", "sa", time.Hour)
			if got != "" || !errors.Is(err, errUpset) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %q, error %v; want %q", got, err, test.says)
			}
		})
	}
}

func TestProver(t *testing.T) {
	const path = "apis/fleet.cattle.io/v1alpha1/namespaces/ns/bundledeployments"
	tests := map[string]struct {
		code int
		err  error
		says string
	}{
		"token with the right":         {code: http.StatusOK},
		"unknown token":                {code: http.StatusUnauthorized, err: ErrNotInForce},
		"token without the right":      {code: http.StatusForbidden, err: ErrNotInForce},
		"server answers with an error": {code: http.StatusInternalServerError, says: "500"},
		"server without the kind":      {code: http.StatusNotFound, says: "404"},
		"overloaded server":            {code: http.StatusTooManyRequests, says: "429"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
				w.WriteHeader(test.code)
			}))
			defer server.Close()
			// What else is in the configuration is the prover's owner's, and never sent.
			cfg := &rest.Config{Host: server.URL, BearerToken: "mine", Username: "me", TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}}
			prover, err := NewProver(cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = prover.List(t.Context(), "theirs", path)
			switch {
			case test.says == "" && !errors.Is(err, test.err), test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, ErrNotInForce)):
				t.Errorf("error %v; want %v %q", err, test.err, test.says)
			}
			if diff := cmp.Diff([]string{"GET /" + path + "?limit=1&resourceVersion=0 Bearer theirs"}, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProver_UnreachableServerIsAnError(t *testing.T) {
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	cfg := &rest.Config{Host: gone.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(gone)}}
	gone.Close()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	hangs := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	tests := map[string]struct {
		cfg    *rest.Config
		within time.Duration
		want   error
	}{
		"closed server":             {cfg, time.Minute, foreign.ErrUnreachable},
		"server with another CA":    {&rest.Config{Host: other.URL}, time.Minute, foreign.ErrUntrusted},
		"server that never answers": {&rest.Config{Host: hangs.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(hangs)}}, 100 * time.Millisecond, context.DeadlineExceeded},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			prover, err := NewProver(test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), test.within)
			defer cancel()
			if err := prover.List(ctx, "t", "api/v1/nodes"); !errors.Is(err, test.want) {
				t.Errorf("error %v; want %v", err, test.want)
			}
		})
	}
}

func TestNewProver_RefusesUnusableConfigs(t *testing.T) {
	tests := map[string]*rest.Config{
		"an address that is none": {Host: "https://%zz"},
		"a CA that is none":       {Host: "https://hub", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := NewProver(cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestProver_KeepsThePathOfTheHost(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path }))
	defer server.Close()
	prover, err := NewProver(&rest.Config{Host: server.URL + "/k8s/clusters/c-1/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := prover.List(t.Context(), "t", "api/v1/nodes"); err != nil || asked != "/k8s/clusters/c-1/api/v1/nodes" {
		t.Errorf("asked %q, error %v", asked, err)
	}
}

func TestDropTokenSecret(t *testing.T) {
	tests := map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"missing: success":              {nil, []string{"get secrets"}},
		"existing: deleted":             {[]runtime.Object{lasting()}, []string{"get secrets", "delete secrets"}},
		"Secret of another type: stays": {[]runtime.Object{lasting(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}, []string{"get secrets"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newTokenServer(test.objects...)
			if err := DropTokenSecret(t.Context(), server, "ns", "sa"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, server.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
