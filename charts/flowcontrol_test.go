package charts_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// TestFlowSchemas_SeparateAgentsAndControllers checks which priority level an API server uses for requests of agents,
// controllers and others. Every response names it in a header.
func TestFlowSchemas_SeparateAgentsAndControllers(t *testing.T) {
	cfg := asControllers(t)
	client, err := kubernetes.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	const registration = "rights-fleet-clusters-system"
	if names.RegistrationNamespace(rightsNamespace) != registration {
		t.Fatal("the namespace of credentials is another")
	}
	controller := cfg.Impersonate.UserName
	const agent, someone = "system:serviceaccount:cluster-ns:request-1", "system:serviceaccount:ci:deployer"
	const group = "/apis/fleet.cattle.io/v1alpha1"
	tests := map[string]struct{ user, method, path, flow, level string }{
		"controller lists Secrets":                   {controller, http.MethodGet, "/api/v1/namespaces/x/secrets", "fleet-controller", "fleet-controller"},
		"discovery of a controller":                  {controller, http.MethodGet, "/apis/fleet.cattle.io/v1alpha1", "fleet-controller", "fleet-controller"},
		"controller patches the status of a Cluster": {controller, http.MethodPatch, group + "/namespaces/x/clusters/c/status", "fleet-controller", "fleet-controller"},
		"leader election of the controller":          {controller, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/" + rightsNamespace + "/leases/l", "fleet-controller-leader-election", "leader-election"},
		"heartbeat of an agent":                      {agent, http.MethodPatch, group + "/namespaces/x/clusters/c/status", "fleet-agents", "fleet-agents"},
		"registration of an agent":                   {agent, http.MethodPost, group + "/namespaces/x/clusterregistrations", "fleet-agents", "fleet-agents"},
		"agent reads a credential":                   {agent, http.MethodGet, "/api/v1/namespaces/" + registration + "/secrets/c-1", "fleet-agents", "fleet-agents"},
		"agent lists BundleDeployments":              {agent, http.MethodGet, group + "/namespaces/x/bundledeployments", "fleet-agents", "fleet-agents"},
		"agent reports a BundleDeployment":           {agent, http.MethodPatch, group + "/namespaces/x/bundledeployments/b/status", "fleet-agents", "fleet-agents"},
		"agent reads a Content":                      {agent, http.MethodGet, group + "/contents/s-1", "fleet-agents", "fleet-agents"},
		"another client creates a Bundle":            {someone, http.MethodPost, group + "/namespaces/x/bundles", "service-accounts", "workload-low"},
		"another client lists Clusters":              {someone, http.MethodGet, group + "/namespaces/x/clusters", "service-accounts", "workload-low"},
		"another client lists other Secrets":         {someone, http.MethodGet, "/api/v1/namespaces/x/secrets", "service-accounts", "workload-low"},
		"another client reads another lease":         {someone, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", "service-accounts", "workload-low"},
	}
	schemas, levels := flowNames(t, client)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			account := strings.Split(test.user, ":")
			as := rest.ImpersonationConfig{UserName: test.user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account[2], "system:authenticated"}}
			want := fmt.Sprintf("%s at level %s", test.flow, test.level)
			var got string
			// The server takes new flows up in a moment.
			err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
				header, err := answerTo(ctx, control.Plane(t).Hub.Config(), as, test.method, test.path)
				got = fmt.Sprintf("%s at level %s", schemas[header.Get("X-Kubernetes-PF-FlowSchema-UID")], levels[header.Get("X-Kubernetes-PF-PriorityLevel-UID")])
				return got == want, err
			})
			if err != nil {
				t.Errorf("the request is in flow %s, want %s (%v)", got, want, err)
			}
		})
	}
}

// answerTo sends a request without a body and returns the header of the response.
func answerTo(ctx context.Context, cfg *rest.Config, as rest.ImpersonationConfig, method, path string) (http.Header, error) {
	cfg.Impersonate = as
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, cfg.Host+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	return response.Header, response.Body.Close()
}

// flowNames returns the names of flow schemas and priority levels by UID.
func flowNames(t *testing.T, client kubernetes.Interface) (schemas, levels map[string]string) {
	t.Helper()
	schemas, levels = map[string]string{}, map[string]string{}
	allSchemas, err := client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range allSchemas.Items {
		schemas[string(schema.UID)] = schema.Name
	}
	allLevels, err := client.FlowcontrolV1().PriorityLevelConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range allLevels.Items {
		levels[string(level.UID)] = level.Name
	}
	return schemas, levels
}

func TestFlowControl_IsRenderedOnlyIfSupported(t *testing.T) {
	tests := map[string]struct {
		values string
		serves chartutil.VersionSet
		want   bool
	}{
		"API server with the API: rendered":        {want: true},
		"API server without the API: not rendered": {serves: chartutil.VersionSet{"apps/v1", "v1"}},
		"disabled: not rendered":                   {values: "flowControl: {enabled: false}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := controllers(test.values)
			r.serves = test.serves
			if _, got := mustRender(t, r)["flowcontrol.yaml"]; got != test.want {
				t.Errorf("it is there: %v", got)
			}
		})
	}
}

// TestFlowSchemas_UseExistingPriorityLevels accepts the levels of this chart and two that every API server has.
func TestFlowSchemas_UseExistingPriorityLevels(t *testing.T) {
	levels := map[string]bool{flowcontrolv1.PriorityLevelConfigurationNameExempt: true, "leader-election": true}
	var flows []flowcontrolv1.FlowSchema
	for _, object := range objectsOf(t, map[string]string{"f.yaml": mustRender(t, controllers(""))["flowcontrol.yaml"]}) {
		if object.GetKind() == "FlowSchema" {
			flows = append(flows, parse[flowcontrolv1.FlowSchema](t, marshal(t, object.Object)))
		} else {
			levels[object.GetName()] = true
		}
	}
	if len(flows) != 3 {
		t.Fatalf("%d flows", len(flows))
	}
	for _, flow := range flows {
		if !levels[flow.Spec.PriorityLevelConfiguration.Name] {
			t.Errorf("%s uses level %s, which does not exist", flow.Name, flow.Spec.PriorityLevelConfiguration.Name)
		}
		if flow.Spec.MatchingPrecedence >= 9000 {
			t.Errorf("%s comes after the server's own for all accounts", flow.Name)
		}
	}
}
