package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestAccountThatDeploys(t *testing.T) {
	const own = "fleet-agent-east"
	for name, test := range map[string]struct {
		bundle, account string
		existing        string // service account
		want            string // account of the identity
		missing         bool
	}{
		"no account":                               {bundle: "web"},
		"default account":                          {bundle: "web", existing: "fleet-default", want: "agents/fleet-default"},
		"account of the options":                   {bundle: "web", account: "web", existing: "web", want: "agents/web"},
		"account is missing":                       {bundle: "web", account: "web", missing: true},
		"the agent itself, no account":             {bundle: own},
		"the agent itself, with default account":   {bundle: own, existing: "fleet-default"},
		"the agent itself, account of the options": {bundle: own, account: "web", existing: "web", want: "agents/web"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if !strings.HasSuffix(r.URL.Path, "/namespaces/agents/serviceaccounts/"+test.existing) || test.existing == "" {
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
					return
				}
				_, _ = w.Write([]byte(`{"kind":"ServiceAccount","apiVersion":"v1"}`))
			}))
			defer server.Close()
			agent, err := NewAgent(&rest.Config{Host: server.URL}, deploytest.Noon)
			if err != nil {
				t.Fatal(err)
			}
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: test.bundle}}
			bd.Spec.Options.ServiceAccount = test.account
			got, err := NewAccounts(agent, "agents", own).Find(t.Context(), bd)
			if test.missing != apierrors.IsNotFound(err) || !test.missing && (err != nil || got.Account != test.want) {
				t.Errorf("account %+v, error %v", got, err)
			}
		})
	}
}
