// Package moves contains the stories of clusters that move to another workspace and to another hub with the command line.
package moves

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
)

// The clusters, and another workspace of the hub.
const (
	hub  = framework.HubName
	isle = "isle" // is another hub
	fen  = "fen"  // moves; each story leaves no agent on it
	team = "team-b"
)

// soon is how often agents of the other hub look for releases that no Bundle asks for.
const soon = "2s"

var world *framework.World

func TestMoves(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "clusters that move")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{isle, fen}, OtherHubs: []string{isle}}, settings())

// settings are the values of the hub's chart.
func settings() map[string]any {
	return map[string]any{"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false}}
}

// run runs a command of fleet with this standard input.
func run(ctx SpecContext, stdin string, args ...string) commandline.Answer {
	GinkgoHelper()
	answer, err := commandline.Run(ctx, world.User, stdin, args...)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// leaving finds the arguments of the command `fleet unregister` in a fix.
var leaving = regexp.MustCompile(`fleet (?:--kubeconfig \S+ )?(unregister [^,(\n]+)`)

// advice returns the arguments of the command `fleet unregister` in the fix of a refused command.
func advice(refused commandline.Answer) []string {
	GinkgoHelper()
	found := leaving.FindStringSubmatch(refused.Stderr)
	Expect(found).NotTo(BeNil(), refused.Stderr)
	return strings.Fields(found[1])
}
