package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func conditionsOf(kind, reason, message string) []genericcondition.GenericCondition {
	if reason == "" {
		return []genericcondition.GenericCondition{{Type: kind, Status: "True"}}
	}
	return []genericcondition.GenericCondition{{Type: kind, Status: "False", Reason: reason, Message: message}}
}

func lease(name, holder string, renewed time.Time) *coordinationv1.Lease {
	at, seconds := metav1.NewMicroTime(renewed), int32(45)
	return &coordinationv1.Lease{ObjectMeta: meta("cattle-fleet-system", name), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds,
	}}
}

func config() *corev1.ConfigMap {
	conf := &corev1.ConfigMap{ObjectMeta: meta("cattle-fleet-system", names.ControllerConfig)}
	conf.Annotations = map[string]string{fleet.AnnotationVersion: "v1.2.0"}
	return conf
}

// controller is the pod of a controller.
func controller(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta("cattle-fleet-system", name), Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "proxy", Image: "proxy:v9"}, {Name: "fleet-controller", Image: image},
	}}}
}

func hub() []runtime.Object {
	seen := fleet.AgentStatus{LastSeen: metav1.NewTime(clitest.Noon().Add(-time.Minute))}
	objects := []runtime.Object{
		config(), lease(names.ControllerLease, "fleet-controller-1_ab", clitest.Noon().Add(-5*time.Second)), lease(names.DeliveryLease, "fleet-controller-1_ab", clitest.Noon()),
		controller("fleet-controller-1", "registry:5000/fleet:v1.2.0"),
		&fleet.Cluster{ObjectMeta: meta("fleet-local", "local"), Status: fleet.ClusterStatus{Agent: seen, Conditions: conditionsOf("Ready", "", "")}},
	}
	for _, name := range []string{"a", "b"} {
		missing := &fleet.Cluster{ObjectMeta: meta("fleet-default", name), Spec: fleet.ClusterSpec{KubeConfigSecret: name}}
		missing.Status.Conditions = conditionsOf("Imported", conditions.ReasonKubeconfigMissing, "Secret fleet-default/"+name+" does not exist")
		objects = append(objects, missing)
	}
	failing := &fleet.Cluster{ObjectMeta: meta("fleet-default", "c"), Status: fleet.ClusterStatus{Agent: seen}}
	failing.Status.Conditions = []genericcondition.GenericCondition{{Type: "Ready", Status: "False", Message: "ErrApplied(1) [Bundle web]"}}
	failing.Status.Summary.NonReadyResources = []fleet.NonReadyResource{{Name: "web", BundleState: fleet.ErrApplied}}
	short := metav1.ObjectMeta{Namespace: "fleet-default", Name: "short", CreationTimestamp: clitest.Ago(time.Hour)}
	return append(objects, failing,
		&fleet.ClusterRegistrationToken{ObjectMeta: meta("fleet-default", "forever"), Status: fleet.ClusterRegistrationTokenStatus{Conditions: conditionsOf("Ready", "", "")}},
		&fleet.ClusterRegistrationToken{ObjectMeta: short, Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: 2 * time.Hour}}, Status: fleet.ClusterRegistrationTokenStatus{
			Conditions: conditionsOf("Ready", conditions.ReasonSecretNameTaken, "Secret fleet-default/short belongs to another owner"),
		}},
		&fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "import-token-a", OwnerReferences: []metav1.OwnerReference{{Kind: "Cluster", Name: "a"}},
		}},
		&fleet.ClusterRegistration{ObjectMeta: meta("fleet-default", "request-1"), Status: fleet.ClusterRegistrationStatus{
			ClusterName: "c", Conditions: conditionsOf("Granted", conditions.ReasonTakeoverPending, "another agent is registered"),
		}},
	)
}

func run(t *testing.T, server *clitest.Server, args ...string) string {
	t.Helper()
	t.Setenv("KUBECONFIG", server.Kubeconfig)
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, clitest.Noon) }
	return clitest.Call(t.Context(), command, args...).String()
}

func TestEveryFormat_MatchesTheGoldens(t *testing.T) {
	server := clitest.Start(t, hub()...)
	for name, args := range map[string][]string{
		"workspace": nil, "all": {"-A"}, "json": {"-A", "-o", "json"}, "yaml": {"-A", "-o", "yaml"}, "name": {"-A", "-o", "name"},
		"other-namespace": {"--system-namespace", "fleet"},
	} {
		t.Run(name, func(t *testing.T) { golden.Expect(t, name+".golden", run(t, server, args...)) })
	}
}

func TestTokens_AreCountedByTheirExpiry(t *testing.T) {
	created := clitest.Ago(48 * time.Hour)
	never, month := &metav1.Duration{}, &metav1.Duration{Duration: 720 * time.Hour}
	for name, test := range map[string]struct {
		ttl    *metav1.Duration
		status fleet.ClusterRegistrationTokenStatus
		want   string
	}{
		"TTL of zero: does not expire":         {never, fleet.ClusterRegistrationTokenStatus{Expires: &created}, "1 (1 without expiry)"},
		"default TTL of zero: does not expire": {nil, fleet.ClusterRegistrationTokenStatus{Expires: &created, DefaultTTL: never}, "1 (1 without expiry)"},
		"no TTL: does not expire":              {nil, fleet.ClusterRegistrationTokenStatus{}, "1 (1 without expiry)"},
		"default TTL of a month":               {nil, fleet.ClusterRegistrationTokenStatus{DefaultTTL: month}, "1"},
		"two days of three have passed":        {&metav1.Duration{Duration: 71 * time.Hour}, fleet.ClusterRegistrationTokenStatus{}, "1 (1 expire within a day)"},
	} {
		t.Run(name, func(t *testing.T) {
			found, token := newFindings("x", clitest.Noon()), &fleet.ClusterRegistrationToken{ObjectMeta: meta("fleet-default", "west"), Status: test.status}
			token.CreationTimestamp, token.Spec.TTL = created, test.ttl
			found.addToken(token)
			if got := found.Tokens.text(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFixes_ReachTheSameHub(t *testing.T) {
	server := clitest.Start(t, hub()...)
	const want = "fleet --context hub confirm-takeover c request-1 -n fleet-default\n"
	if got := run(t, server, "--context", "hub"); !strings.Contains(got, want) {
		t.Errorf("%q is missing in:\n%s", want, got)
	}
}

func TestHealthyHub_ShowsNoProblems(t *testing.T) {
	server := clitest.Start(t, hub()[:5]...)
	golden.Expect(t, "healthy.golden", run(t, server, "-A"))
}

func TestVersion_IsThatOfTheActiveController(t *testing.T) {
	active := lease(names.ControllerLease, "fleet-controller-1_ab", clitest.Noon())
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"an upgrade hangs: the earlier version":          {[]runtime.Object{config(), active, controller("fleet-controller-1", "fleet:v1.1.0")}, "v1.1.0 (the configuration is of version v1.2.0)"},
		"no configuration":                               {[]runtime.Object{active, controller("fleet-controller-1", "fleet:v1.1.0")}, "v1.1.0"},
		"an image without a tag: unknown":                {[]runtime.Object{config(), active, controller("fleet-controller-1", "fleet@sha256:12")}, "unknown (the configuration is of version v1.2.0)"},
		"a controller outside the cluster: unknown":      {[]runtime.Object{config(), active}, "unknown (the configuration is of version v1.2.0)"},
		"a pod of another controller: unknown":           {[]runtime.Object{config(), active, controller("fleet-controller-2", "fleet:v1.2.0")}, "unknown (the configuration is of version v1.2.0)"},
		"the holder does not renew the Lease: unknown":   {[]runtime.Object{config(), lease(names.ControllerLease, "fleet-controller-1_ab", clitest.Noon().Add(-5*time.Minute)), controller("fleet-controller-1", "fleet:v1.2.0")}, "unknown (the configuration is of version v1.2.0)"},
		"a tag and a digest: the version is that of tag": {[]runtime.Object{config(), active, controller("fleet-controller-1", "fleet:v1.2.0@sha256:12")}, "v1.2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, clitest.Start(t, test.objects...)); !strings.HasPrefix(got, "Hub version:   "+test.want+"\n") {
				t.Errorf("want %s, got:\n%s", test.want, got)
			}
		})
	}
}

func TestLeaderThatDoesNotRenew_IsAProblem(t *testing.T) {
	server := clitest.Start(t, config(), lease(names.ControllerLease, "fleet-controller-1", clitest.Noon().Add(-5*time.Minute)))
	golden.Expect(t, "no-leader.golden", run(t, server, "-A"))
}

func TestInterruptedCommand_Fails(t *testing.T) {
	server := clitest.Start(t, hub()...)
	server.Hang("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrationtokens")
	t.Setenv("KUBECONFIG", server.Kubeconfig)
	ctx, cancel := context.WithCancel(t.Context())
	server.Fails = func() bool {
		if sent := server.Requests(); len(sent) > 0 && strings.Contains(sent[len(sent)-1], "/clusterregistrationtokens") {
			cancel()
		}
		return false
	}
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, clitest.Noon) }
	got := clitest.Call(ctx, command).String()
	if want := "exit code 1\nerror: reading the hub: interrupted: context canceled\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMissingRights_AreWarningsExceptForClusters(t *testing.T) {
	const prefix = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/"
	server := clitest.Start(t, hub()...)
	for _, request := range []string{
		prefix + "clusterregistrationtokens", prefix + "clusterregistrations", "GET /api/v1/namespaces/cattle-fleet-system/configmaps/fleet-controller",
		"GET /apis/coordination.k8s.io/v1/namespaces/cattle-fleet-system/leases/" + names.ControllerLease,
	} {
		server.Refuse(request, 403)
	}
	golden.Expect(t, "few-rights.golden", run(t, server))
	server.Refuse(prefix+"clusters", 403)
	if got := run(t, server); !strings.HasPrefix(got, "exit code 5\nerror: listing Clusters") {
		t.Error(got)
	}
	pods := clitest.Start(t, hub()...)
	pods.Refuse("GET /api/v1/namespaces/cattle-fleet-system/pods/fleet-controller-1", 403)
	if got := run(t, pods); !strings.Contains(got, "Hub version:   unknown (") || !strings.Contains(got, "warning: reading the version of the hub: refused by the test\n") {
		t.Error(got)
	}
}
