package args

import (
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

func TestArguments_MatchTheGoldens(t *testing.T) {
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
