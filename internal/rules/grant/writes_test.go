package grant_test

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestUnprocessedRequest_IsDeletedRevokedOrReported(t *testing.T) {
	deleted := func(ago time.Duration) func(*grant.Input) {
		return func(in *grant.Input) {
			at := rulestest.At(-ago)
			in.Request.DeletionTimestamp, in.Request.Finalizers = &at, []string{"example.com/mine"}
		}
	}
	labelled := func(in *grant.Input) { in.Request.Labels[fleet.LabelClusterManagement] = "other" }
	queued := func(in *grant.Input) { in.Queue = grant.QueueOfClient }
	leaves := func(in *grant.Input) { in.WorkspaceDeleting = true }
	old := func(in *grant.Input) {
		in.Request.CreationTimestamp = rulestest.At(-grant.RejectionLife)
	}
	ticket := func(in *grant.Input) { annotate(in, annotation.AgentTicket, "x") }
	tests := map[string]struct {
		given []func(*grant.Input)
		want  []grant.Write
		needs bool // NeedsCluster
	}{
		"recovery with another manager's label: it is deleted": {given: []func(*grant.Input){labelled, ticket}, want: []grant.Write{grant.DeleteRequest}},
		"recovery, deleted with a finalizer: that is removed":  {given: []func(*grant.Input){ticket, deleted(0)}, want: []grant.Write{grant.RemoveFinalizers}, needs: true},
		"another manager's label: nothing is written":          {given: []func(*grant.Input){labelled}},
		"another manager's label for a day: it is deleted":     {given: []func(*grant.Input){labelled, old}, want: []grant.Write{grant.DeleteRequest}},
		"its workspace is being deleted: it is revoked":        {given: []func(*grant.Input){leaves}, want: []grant.Write{grant.Revoke}},
		"no place in the queue: its status is written":         {given: []func(*grant.Input){queued}, want: []grant.Write{grant.WriteStatus}},
		"no place in the queue for 40 minutes: it is deleted":  {given: []func(*grant.Input){queued, old}, want: []grant.Write{grant.DeleteRequest}},
		"deleted with a finalizer: it is revoked":              {given: []func(*grant.Input){deleted(time.Hour)}, want: []grant.Write{grant.Revoke}, needs: true},
		"deleted with a finalizer a day ago: that is removed":  {given: []func(*grant.Input){deleted(grant.RejectionLife)}, want: []grant.Write{grant.RemoveFinalizers}, needs: true},
		"another manager's, deleted with a finalizer a day ago: that is removed": {
			given: []func(*grant.Input){labelled, deleted(grant.RejectionLife)}, want: []grant.Write{grant.RemoveFinalizers}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput()
			for _, given := range test.given {
				given(&in)
			}
			rulestest.ExpectEqual(t, "writes", rulestest.Pure(t, grant.Decide, in).Writes, test.want)
			rulestest.ExpectEqual(t, "needs its Cluster", grant.NeedsCluster(in), test.needs)
		})
	}
}
