package doctor

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

const system = names.SystemNamespace

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func lease(name string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(noon().Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: meta(system, name), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("fleet-controller-1_abcdefghijklmnopqrstuvwxyz"), RenewTime: &at, LeaseDurationSeconds: new(int32(45)),
	}}
}

// healthy returns the objects of a hub without problems.
func healthy(t *testing.T) []runtime.Object {
	t.Helper()
	objects := []runtime.Object{lease(names.ControllerLease, time.Second), lease(names.CleanupLease, time.Second), lease(names.DeliveryLease, time.Second)}
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		t.Fatal(err)
	}
	for i := range embedded {
		embedded[i].Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
		objects = append(objects, &embedded[i])
	}
	return objects
}

func run(t *testing.T, server *clitest.Server, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	command := New(genericiooptions.IOStreams{Out: &out, ErrOut: &problems}, noon)
	command.SetArgs(append(args, "--kubeconfig", server.Kubeconfig))
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	if err != nil && err.Error() != "exit code 1" {
		problems.WriteString(exit.Text(err))
	}
	return fmt.Sprintf("%sexit code %d\n%s", out.String(), exit.CodeOf(err), problems.String())
}

func TestHealthyHub_HasNoProblems(t *testing.T) {
	server := clitest.Start(t, healthy(t)...)
	golden.Expect(t, "healthy.golden", run(t, server, "hub", "-A", "--fail-on", "warning"))
	golden.Expect(t, "healthy-all.golden", run(t, server, "-A", "--all"))
}

func TestMissingRight_SkipsTheChecksThatNeedIt(t *testing.T) {
	server := clitest.Start(t, healthy(t)...)
	server.Refuse("GET /apis/coordination.k8s.io/v1/namespaces/cattle-fleet-system/leases", 403)
	golden.Expect(t, "few-rights.golden", run(t, server, "hub"))
}

func TestHubThatDoesNotAnswer_IsAnError(t *testing.T) {
	server := clitest.Start(t)
	server.Refuse("GET /version", 401)
	got := run(t, server, "hub")
	if !strings.HasPrefix(got, "exit code 3\nerror: reading the version of the hub's API server") || len(server.Requests()) > 1 {
		t.Error(got, server.Requests())
	}
}
