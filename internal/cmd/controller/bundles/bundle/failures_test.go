package bundle

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/values"
	"github.com/fleet-hub/fleet/internal/rules/selection"
)

func TestFailures(t *testing.T) {
	resource := schema.GroupResource{Group: "fleet.cattle.io", Resource: "bundledeployments"}
	transient := errors.New("connection refused")
	tooLarge := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge, Message: "limit is 3145728"}}
	tests := map[string]struct {
		err       error
		told      string
		uncertain bool
		again     bool
	}{
		"another Bundle has the name":  {errForeign, "targeting error: a Bundle of the same name from another workspace is already deployed there: rename one of them", false, false},
		"a Secret has the name":        {fmt.Errorf("writing: %w", values.ErrTaken), "write error: Secret b/web exists and was not created by Fleet: kubectl describe secret -n b web; delete it, or rename the Bundle", false, true},
		"the namespace is terminating": {apierrors.NewForbidden(resource, "web", errors.New("it is being terminated")), `write error: bundledeployments.fleet.cattle.io "web" is forbidden: it is being terminated`, false, true},
		"the store refuses it":         {errors.New("etcdserver: request is too large"), "write error: etcdserver: request is too large", false, true},
		"the API server refuses it":    {tooLarge, "write error: limit is 3145728", false, true},
		"a webhook denies it":          {errDenied, "write error: " + errDenied.Error(), false, true},
		"a webhook does not answer":    {errWebhook, "write error: " + errWebhook.Error(), true, true},
		"a webhook does not answer twice over one connection": {
			fmt.Errorf("writing b/web: %w", apierrors.NewInternalError(errors.New(`failed calling webhook "w": read tcp 10.0.0.1:41234->10.0.0.2:443: connection reset by peer`))),
			`write error: Internal error occurred: failed calling webhook "w": read tcp 10.0.0.1->10.0.0.2:443: connection reset by peer`, true, true,
		},
		"a webhook does not answer over IPv6": {
			apierrors.NewInternalError(errors.New(`write tcp [fd00::1]:41234->[fd00::2]:443: broken pipe`)),
			`write error: Internal error occurred: write tcp [fd00::1]->[fd00::2]:443: broken pipe`, true, true,
		},
		"transient error: is not reported": {transient, "", false, true},
		"conflict: is not reported":        {apierrors.NewConflict(resource, "web", errors.New("changed")), "", false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			failed := failures{}
			if again := failed.add("b", "web", test.err); (again != nil) != test.again {
				t.Errorf("to be tried again: %v, want %v", again, test.again)
			}
			before := selection.Outcome{Targets: []selection.Target{{Namespace: "a"}, {Namespace: "b"}, {Namespace: "c", Failure: "of its own"}}}
			got := failed.addTo(before)
			want := []selection.Target{{Namespace: "a"}, {Namespace: "b", Failure: test.told, Uncertain: test.uncertain}, {Namespace: "c", Failure: "of its own"}}
			if diff := cmp.Diff(want, got.Targets); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if before.Targets[1].Failure != "" {
				t.Error("the outcome that others hold was changed")
			}
		})
	}
}

func TestReportedFailures_StayUntilTheNextTry(t *testing.T) {
	h := &handler{outcomes: outcomes.New()}
	key := types.NamespacedName{Namespace: "ws", Name: "web"}
	if got := h.failing(key); len(got) > 0 {
		t.Errorf("failing = %v before anything was tried", got)
	}
	h.outcomes.Set(key, selection.Outcome{Targets: []selection.Target{
		{Namespace: "a", Failure: writeError + "no"}, {Namespace: "b", Failure: selection.TargetingError + errForeign.Error()},
		{Namespace: "c", Failure: selection.TargetingError + "a template"}, {Namespace: "d"}, {Namespace: "e", Failure: writeError + "who knows", Uncertain: true},
	}})
	want := failures{
		"a": {message: "write error: no"}, "b": {message: selection.TargetingError + errForeign.Error()}, "e": {message: "write error: who knows", uncertain: true},
	}
	if diff := cmp.Diff(want, h.failing(key), cmp.AllowUnexported(failure{})); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
}
