package args

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

func TestArguments_MatchTheGoldens(t *testing.T) {
	t.Setenv(build.EnvKubernetes, "")
	server := Server{Name: "east", Dir: "/data/east", Port: 20001}
	audited := server
	audited.Audit, audited.Policy = "/logs/east/audit.json", "audit-policy.yaml"
	more := server
	more.Extra = []string{"--service-account-max-token-expiration=1h"}
	joinable := server
	joinable.Dir, joinable.BootstrapTokens = "etc", true
	tests := map[string]struct {
		args   []string
		golden string
	}{
		"etcd listens on sockets only":                     {Etcd(), "etcd"},
		"API server":                                       {server.Args(), "apiserver"},
		"API server with an audit log":                     {audited.Args(), "apiserver-audit"},
		"API server with additional flags: they come last": {more.Args(), "apiserver-extra"},
		"API server with bootstrap tokens":                 {joinable.Args(), "apiserver-bootstrap"},
		"controller-manager without client-side limits":    {Controllers{Dir: "/data/east", Port: 20002}.Args(), "controller-manager"},
		"controller-manager with default limits":           {Controllers{Dir: "/data/east", Port: 20002, StockLimits: true}.Args(), "controller-manager-stock"},
		"controller-manager of a cluster with nodes":       {Controllers{Dir: "etc", Nodes: true}.Args(), "controller-manager-nodes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, test.golden+".golden", strings.Join(test.args, "\n")+"\n")
		})
	}
}

// A controller-manager exits if it does not know a controller.
func TestOtherKubernetes_IsNotGivenControllersThatItLacks(t *testing.T) {
	for minor, unknown := range map[string][]string{
		"1.31": {"device-taint-eviction-controller", "podcertificaterequest-cleaner-controller", "volumeattributesclass-protection-controller"},
		"1.37": {"cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"},
	} {
		t.Setenv(build.EnvKubernetes, "")
		want := strings.Split(Controllers{}.selection(), ",")
		want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(unknown, strings.TrimPrefix(name, "-")) })
		t.Setenv(build.EnvKubernetes, minor)
		if diff := cmp.Diff(want, strings.Split(Controllers{}.selection(), ",")); diff != "" {
			t.Errorf("controllers of %s (-want +got):\n%s", minor, diff)
		}
	}
}
