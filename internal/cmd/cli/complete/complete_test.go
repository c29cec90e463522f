package complete_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestCompletion_PrintsNames(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "fleet-default", Name: name} }
	waiting := fleet.ClusterRegistrationStatus{ClusterName: "west", Conditions: []genericcondition.GenericCondition{
		{Type: conditions.Granted, Status: "False", Reason: conditions.ReasonTakeoverPending},
	}}
	server := clitest.Start(t,
		&fleet.Cluster{ObjectMeta: named("east")}, &fleet.Cluster{ObjectMeta: named("west")}, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "other"}},
		&fleet.ClusterRegistrationToken{ObjectMeta: named("one")}, &fleet.ClusterRegistrationToken{ObjectMeta: named("two")},
		&fleet.ClusterRegistration{ObjectMeta: named("request-1"), Status: waiting},
		&fleet.ClusterRegistration{ObjectMeta: named("request-2"), Status: fleet.ClusterRegistrationStatus{ClusterName: "west", Granted: true}},
	)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"all names of the workspace": {[]string{"clusters", "describe", ""}, "east\nwest\n:4\n"},
		"names with a prefix":        {[]string{"clusters", "describe", "w"}, "west\n:4\n"},
		"another workspace":          {[]string{"clusters", "describe", "-n", "x", ""}, "other\n:4\n"},
		"tokens":                     {[]string{"token", "show", ""}, "one\ntwo\n:4\n"},
		"tokens that are not given":  {[]string{"token", "revoke", "one", ""}, "two\n:4\n"},
		"no second name":             {[]string{"clusters", "describe", "east", ""}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			args := append([]string{"/usr/bin/kubectl_complete-fleet"}, test.args...)
			last := len(args) - 1
			args = append(args[:last:last], "--kubeconfig", server.Kubeconfig, args[last])
			cli.Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems}, func(string) string { return "" })
			if out.String() != test.want {
				t.Errorf("%s, stderr %s", out.String(), problems.String())
			}
		})
	}
}

// silent is a server that reads requests and never answers.
func silent(t *testing.T) (kubeconfig string) {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(func() { close(done); server.Close() })
	fake := clitest.Start(t)
	text, err := os.ReadFile(fake.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fake.Kubeconfig, bytes.ReplaceAll(text, []byte(fake.URL), []byte(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return fake.Kubeconfig
}

// A shell waits for the completion.
func TestHubThatDoesNotAnswer_EndsTheCompletion(t *testing.T) {
	kubeconfig := silent(t)
	for _, args := range [][]string{{"token", "show", ""}} {
		var out, problems bytes.Buffer
		args = append([]string{"/usr/bin/kubectl_complete-fleet", args[0], args[1], "--kubeconfig", kubeconfig}, args[2:]...)
		cli.Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems}, func(string) string { return "" })
		if out.String() != ":5\n" {
			t.Errorf("%v: %s", args, out.String())
		}
	}
}
