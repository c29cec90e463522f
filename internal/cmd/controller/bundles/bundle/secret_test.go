package bundle

import (
	"context"
	"log/slog"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// blaming is a BundleDeployment whose agent gives a reason why it was not deployed.
func blaming(hash, reason string) *fleet.BundleDeployment {
	return existing("one", func(bd *fleet.BundleDeployment) {
		bd.Spec.ValuesHash = hash
		if reason != "" {
			bd.Status.Conditions = []genericcondition.GenericCondition{{Type: fleet.ConditionDeployed, Status: "False", Reason: reason}}
		}
	})
}

func TestASecretIsDoubtedWhenAnAgentBlamesIt(t *testing.T) {
	invalid := fleet.ReasonHelmValuesInvalid
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"an agent that says so":                     {blaming("h", ""), blaming("h", invalid), true},
		"one that said so before this process":      {nil, blaming("h", invalid), true},
		"one that goes on saying so":                {blaming("h", invalid), blaming("h", invalid), false},
		"one that is content again":                 {blaming("h", invalid), blaming("h", ""), false},
		"one that has another reason":               {blaming("h", ""), blaming("h", fleet.ReasonError), false},
		"one whose values are in no Secret of ours": {blaming("", ""), blaming("", invalid), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := &handler{memo: newMemo(), queue: queue.New(
				queue.Options{Name: "bundle", Log: slog.New(slog.DiscardHandler)},
				func(context.Context, types.NamespacedName) error { return nil },
			)}
			h.recheckValues(test.older, test.newer)
			if got := h.memo.doubts(test.newer.UID); got != test.want {
				t.Errorf("doubted: %t", got)
			}
		})
	}
}
