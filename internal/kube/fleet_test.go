package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// nowhere answers nothing.
type nowhere struct{}

var errNowhere = errors.New("nowhere")

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNowhere }

func TestFleetClient(t *testing.T) {
	const path = "/apis/fleet.cattle.io/v1alpha1/namespaces/n/clusters/c"
	tests := map[string]struct {
		answers map[string]int
		through *http.Client
		want    *fleet.Cluster
		fails   func(error) bool
	}{
		"existing object: decoded as its type": {
			want: &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}, Spec: fleet.ClusterSpec{ClientID: "x"}},
		},
		"refused request: an error":  {answers: map[string]int{"GET " + path: http.StatusForbidden}, fails: apierrors.IsForbidden},
		"uses the given connections": {through: &http.Client{Transport: nowhere{}}, fails: func(err error) bool { return errors.Is(err, errNowhere) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &kubetest.Recorder{Answers: test.answers, Body: `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","metadata":{"namespace":"n","name":"c"},"spec":{"clientID":"x"}}`}
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			cfg := &rest.Config{Host: server.URL}
			client, err := FleetClient(cfg, test.through)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.NegotiatedSerializer != nil {
				t.Error("the configuration of others is changed")
			}
			got := &fleet.Cluster{}
			err = client.Get().Namespace("n").Resource("clusters").Name("c").Do(t.Context()).Into(got)
			if test.fails != nil {
				if !test.fails(err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"GET " + path}, r.Requests); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
