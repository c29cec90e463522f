package foreign

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// The errors come from real connections.
func TestClassify(t *testing.T) {
	answering := httptest.NewTLSServer(http.NotFoundHandler())
	defer answering.Close()
	over := make(chan struct{})
	silent := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer silent.Close()
	defer close(over)
	hangingUp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }))
	defer hangingUp.Close()

	trusting := func(server *httptest.Server) rest.Config {
		cfg := kubetest.WithCA(server.URL, kubetest.CAOf(server))
		cfg.Timeout = time.Minute
		return cfg
	}
	impatient := trusting(silent)
	impatient.Timeout = 200 * time.Millisecond
	otherName := trusting(answering)
	otherName.ServerName = "another.example.org"
	tests := map[string]struct {
		cfg                    rest.Config
		untrusted, unreachable bool
	}{
		"a certificate of an unknown authority": {cfg: rest.Config{Host: answering.URL}, untrusted: true},
		"a certificate for another host":        {cfg: otherName, untrusted: true},
		"a closed port":                         {cfg: rest.Config{Host: "https://127.0.0.1:1"}, unreachable: true},
		"a host that does not exist":            {cfg: rest.Config{Host: "https://fleet.invalid"}, unreachable: true},
		"a server that does not answer":         {cfg: impatient, unreachable: true},
		"a server that hangs up":                {cfg: trusting(hangingUp), unreachable: true},
		"refused request":                       {cfg: trusting(answering)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := New(&test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			err = d.Apply(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			if err == nil {
				t.Fatal("want an error")
			}
			if got := errors.Is(err, ErrUntrusted); got != test.untrusted {
				t.Errorf("untrusted: %v, of %v", got, err)
			}
			if got := errors.Is(err, ErrUnreachable); got != test.unreachable {
				t.Errorf("unreachable: %v, of %v", got, err)
			}
		})
	}
}

func hangUp(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

func TestClassify_KeepsAnswersAndCauses(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", nil)
	tests := map[string]struct {
		in   error
		want error
		same bool
	}{
		"nothing":                        {in: nil, want: nil, same: true},
		"answer of the server":           {in: refusal, want: refusal, same: true},
		"classified error":               {in: fmt.Errorf("x: %w", ErrUntrusted), want: ErrUntrusted, same: true},
		"deadline exceeded: unreachable": {in: fmt.Errorf("x: %w", context.DeadlineExceeded), want: ErrUnreachable},
		"network error: unreachable":     {in: &net.OpError{Op: "dial", Err: errors.New("no route")}, want: ErrUnreachable},
		"cause is kept":                  {in: fmt.Errorf("x: %w", context.DeadlineExceeded), want: context.DeadlineExceeded},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Classify(test.in)
			if !errors.Is(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if test.same && got != test.in { //nolint:errorlint // the very same is meant
				t.Errorf("got %v, want it unchanged", got)
			}
		})
	}
}
