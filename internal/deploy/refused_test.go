package deploy

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
)

// The hub reports the deletion, and rejects the agent for a moment.
func TestRemove_HubRejectsTheAgent_AsksAgainLater(t *testing.T) {
	for name, test := range map[string]struct {
		code   int
		cached bool
		later  []string
	}{
		"rejected credential":                {http.StatusUnauthorized, false, []string{"hello after 5m0s"}},
		"missing right":                      {http.StatusForbidden, false, []string{"hello after 5m0s"}},
		"missing right, and it exists again": {http.StatusForbidden, true, nil},
		"server error: the queue asks again": {http.StatusInternalServerError, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.code) }))
			defer server.Close()
			now := deploytest.Noon()
			d, queue := testDeployer(&now)
			t.Cleanup(d.wakeups.Stop)
			var err error
			if d.hub, err = hub.New(&rest.Config{Host: server.URL}, "cluster-ns"); err != nil {
				t.Fatal(err)
			}
			if test.cached {
				if err := d.hub.Informer.GetStore().Add(deploytest.Deployment()); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.remove(t.Context(), "hello"); (err != nil) != (test.code == http.StatusInternalServerError) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.later, queue.later); diff != "" {
				t.Errorf("enqueued later (-want +got):\n%s", diff)
			}
		})
	}
}
