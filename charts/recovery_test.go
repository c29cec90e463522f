package charts_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestRecoveryPolicy_IsForTheRecoveryAccountOnly checks whom the policy concerns.
func TestRecoveryPolicy_IsForTheRecoveryAccountOnly(t *testing.T) {
	objects := objectsOf(t, map[string]string{"p.yaml": mustRender(t, controllers(""))["recovery.yaml"]})
	if len(objects) != 2 {
		t.Fatalf("%d objects, want the policy and its binding", len(objects))
	}
	conditions, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "matchConditions")
	if err != nil || len(conditions) != 1 {
		t.Fatalf("conditions %v, %v", conditions, err)
	}
	condition, _ := conditions[0].(map[string]any)
	if text, _ := condition["expression"].(string); !strings.HasSuffix(text, `request.namespace + ':fleet-recovery'`) {
		t.Errorf("the policy concerns %q", text)
	}
}

// TestRecoveryPolicy_AcceptsOnlyWhatAgentsSend tries requests of the recovery account on an API server.
func TestRecoveryPolicy_AcceptsOnlyWhatAgentsSend(t *testing.T) {
	if err := rights(); err != nil { // installs the CRDs and the policy
		t.Fatal(err)
	}
	agent, other := creator(t, "fleet-recovery"), creator(t, "fleet-recovery-2")
	// The server applies new rights and policies after a moment.
	var bare, full, unconcerned error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		bare, full, unconcerned = tryCreate(ctx, agent, without("agent-proof")), tryCreate(ctx, agent, asSent), tryCreate(ctx, other, without("agent-proof"))
		return bare != nil && full == nil && unconcerned == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for the policy: %v; without a proof: %v; complete: %v; not concerned: %v", err, bare, full, unconcerned)
	}
	type modify = func(*fleet.ClusterRegistration)
	for name, test := range map[string]struct {
		modify modify
		want   string // in the error, "" means that it is accepted
	}{
		"as agents send it":          {asSent, ""},
		"without agent-renews":       {without("agent-renews"), ""},
		"the longest ticket":         {annotated("agent-ticket", strings.Repeat("x", 16<<10)), ""},
		"no key":                     {without("agent-key"), "needs the annotations"},
		"no proof":                   {without("agent-proof"), "needs the annotations"},
		"no ticket":                  {without("agent-ticket"), "needs the annotations"},
		"empty ticket":               {annotated("agent-ticket", ""), "needs the annotations"},
		"no annotations":             {func(r *fleet.ClusterRegistration) { r.Annotations = nil }, "needs the annotations"},
		"what the hub records":       {annotated("agent-key-at-grant", "x"), "no annotations except"},
		"the token it records":       {annotated("token-uid-at-grant", "x"), "no annotations except"},
		"the heartbeat it records":   {annotated("last-seen-at-grant", ""), "no annotations except"},
		"any other annotation":       {annotated("a", "b"), "no annotations except"},
		"ticket that is too long":    {annotated("agent-ticket", strings.Repeat("x", 16<<10+1)), "too long"},
		"proof that is too long":     {annotated("agent-proof", strings.Repeat("x", 1025)), "too long"},
		"key that is too long":       {annotated("agent-key", strings.Repeat("x", 257)), "too long"},
		"announcement of a kilobyte": {annotated("agent-renews", strings.Repeat("x", 1<<10)), "too long"},
		"another manager's label":    {labelled(fleet.LabelClusterManagement), "no labels"},
		"any label":                  {labelled("a"), "no labels"},
		"a finalizer":                {func(r *fleet.ClusterRegistration) { r.Finalizers = []string{"example.com/a"} }, "finalizers"},
		"an owner": {func(r *fleet.ClusterRegistration) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "u"}}
		}, "owner references"},
		"large client ID":   {func(r *fleet.ClusterRegistration) { r.Spec.ClientID = strings.Repeat("x", 8193) }, "too large"},
		"large random part": {func(r *fleet.ClusterRegistration) { r.Spec.ClientRandom = strings.Repeat("x", 257) }, "too large"},
		"large label":       {func(r *fleet.ClusterRegistration) { r.Spec.ClusterLabels["a"] = strings.Repeat("x", 32<<10) }, "too large"},
		"many labels": {func(r *fleet.ClusterRegistration) {
			for i := range 1025 {
				r.Spec.ClusterLabels[fmt.Sprint(i)] = ""
			}
		}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := tryCreate(t.Context(), agent, test.modify); {
			case test.want == "" && err != nil:
				t.Errorf("rejected: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// creator is an account of a workspace that may create ClusterRegistrations there.
func creator(t *testing.T, account string) server {
	t.Helper()
	hub, ctx := newServer(t), t.Context()
	hub.namespace(t, "policies")
	cfg := control.Plane(t).Hub.Config()
	admin, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "policies", Name: account}
	_, err = admin.RbacV1().Roles("policies").Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = admin.RbacV1().RoleBindings("policies").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "policies", Name: account}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:policies:" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:policies", "system:authenticated"},
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server{client: client, mapper: hub.mapper}
}

// tryCreate creates a request as an agent sends it, with a change, in a dry run.
func tryCreate(ctx context.Context, s server, modify func(*fleet.ClusterRegistration)) error {
	request := registering.NewRequest(registering.RequestInput{
		Bootstrap: protocol.Bootstrap{ClusterNamespace: "policies"}, Config: config.Agent{ClientID: "client", Labels: map[string]string{"env": "dev"}},
		Random: strings.Repeat("r", 54), Ticket: strings.Repeat("t", 700), Pod: "fleet-agent-6d8c7b5f9-x2x7p",
	})
	annotated("agent-key", strings.Repeat("k", 124))(request)
	annotated("agent-proof", strings.Repeat("p", 400))(request)
	annotated("agent-renews", "true")(request)
	modify(request)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(request)
	if err != nil {
		return err
	}
	delete(fields, "status")
	_, err = s.create(ctx, &unstructured.Unstructured{Object: fields})
	return err
}

func asSent(*fleet.ClusterRegistration) {}

func annotated(name, value string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, "fleet.cattle.io/"+name, value)
	}
}

func without(annotation string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { delete(r.Annotations, "fleet.cattle.io/"+annotation) }
}

func labelled(key string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { metav1.SetMetaDataLabel(&r.ObjectMeta, key, "x") }
}
