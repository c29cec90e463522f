package charts_test

import (
	"context"
	"fmt"
	"maps"
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

// TestRequestPolicy_IsForAccountsOfTheWorkspaceOnly checks whom the policy concerns.
func TestRequestPolicy_IsForAccountsOfTheWorkspaceOnly(t *testing.T) {
	objects := objectsOf(t, map[string]string{"p.yaml": mustRender(t, controllers(""))["requests.yaml"]})
	if len(objects) != 2 {
		t.Fatalf("%d objects, want the policy and its binding", len(objects))
	}
	conditions, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "matchConditions")
	if err != nil || len(conditions) != 1 {
		t.Fatalf("conditions %v, %v", conditions, err)
	}
	condition, _ := conditions[0].(map[string]any)
	if text, _ := condition["expression"].(string); text != `request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')` {
		t.Errorf("the policy concerns %q", text)
	}
}

// modify changes a request.
type modify = func(*fleet.ClusterRegistration)

// awaitPolicy waits until the API server applies the policy and the rights of accounts: it refuses the first request, and
// accepts the others.
func awaitPolicy(t *testing.T, agent server, refused modify, accepted ...func(context.Context) error) {
	t.Helper()
	var problem error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if problem = tryCreate(ctx, agent, refused); problem == nil {
			return false, nil
		}
		for _, try := range accepted {
			if problem = try(ctx); problem != nil {
				return false, nil //nolint:nilerr // reported below
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("waiting for the policy: %v; last error: %v", err, problem)
	}
}

type policyTest struct {
	modify modify
	want   string // in the error, "" means that it is accepted
}

func expectPolicy(t *testing.T, agent server, tests map[string]policyTest) {
	t.Helper()
	for name, test := range tests {
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

// tooLarge are requests that no account of the workspace may create.
func tooLarge() map[string]policyTest {
	return map[string]policyTest{
		"a finalizer": {func(r *fleet.ClusterRegistration) { r.Finalizers = []string{"example.com/a"} }, "finalizers"},
		"an owner": {func(r *fleet.ClusterRegistration) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "u"}}
		}, "owner references"},
		"large client ID":   {func(r *fleet.ClusterRegistration) { r.Spec.ClientID = strings.Repeat("x", 8193) }, "spec.clientID is too long, the maximum is 8192"},
		"large random part": {func(r *fleet.ClusterRegistration) { r.Spec.ClientRandom = strings.Repeat("x", 257) }, "spec.clientRandom is too long, the maximum is 256"},
		"large label":       {func(r *fleet.ClusterRegistration) { r.Spec.ClusterLabels["a"] = strings.Repeat("x", 32<<10) }, "spec.clusterLabels is too large"},
		"megabyte of a label": {func(r *fleet.ClusterRegistration) {
			r.Spec.ClusterLabels["a"] = strings.Repeat("x", 1400<<10)
		}, "spec.clusterLabels is too large"},
		"many labels":          {clusterLabels(1025, ""), "spec.clusterLabels is too large"},
		"labels of a megabyte": {clusterLabels(50_000, "12345678901234567890"), "spec.clusterLabels is too large"},
		"invented field owner": {fieldOwners(`{"f:spec":{"f:` + strings.Repeat("x", 1<<20) + `":{}}}`), "metadata.managedFields"},
		"deep field owner":     {fieldOwners(`{"f:spec":{"f:clusterLabels":{"f:a":{"f:b":{}}}}}`), "metadata.managedFields"},
		"several field owners": {fieldOwners(`{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`), "metadata.managedFields"},
	}
}

// TestRequestPolicy_BoundsRequestsOfImportAccounts tries requests of the account of a token on an API server.
func TestRequestPolicy_BoundsRequestsOfImportAccounts(t *testing.T) {
	if err := rights(); err != nil { // installs the CRDs and the policy
		t.Fatal(err)
	}
	agent, foreign, admin := creator(t, "policies", "west-0123abcd"), creator(t, "elsewhere", "restore"), newServer(t)
	finalizer := tooLarge()["a finalizer"].modify
	awaitPolicy(t, agent, finalizer,
		func(ctx context.Context) error { return tryCreate(ctx, agent, ofToken) },
		func(ctx context.Context) error { return tryCreate(ctx, foreign, finalizer) },
		func(ctx context.Context) error { return tryCreate(ctx, admin, finalizer) },
	)
	tests := tooLarge()
	maps.Copy(tests, map[string]policyTest{
		"as agents send it":                 {ofToken, ""},
		"as agents of Rancher Fleet do":     {func(r *fleet.ClusterRegistration) { ofToken(r); r.Annotations = nil }, ""},
		"no label of a token":               {func(r *fleet.ClusterRegistration) { r.Annotations = nil }, ""},
		"100 labels":                        {clusterLabels(100, "value"), ""},
		"invalid label":                     {func(r *fleet.ClusterRegistration) { r.Spec.ClusterLabels["a b"] = strings.Repeat("x", 1<<10) }, ""},
		"client ID that the hub refuses":    {func(r *fleet.ClusterRegistration) { r.Spec.ClientID = strings.Repeat("x", 1025) }, ""},
		"the largest request":               {largest, ""},
		"other annotations":                 {annotated("a", "b"), ""},
		"annotations of 33 KiB":             {annotated("a", strings.Repeat("x", 33<<10)), "annotations of the ClusterRegistration are too large, the maximum is 1024 annotations with 32768"},
		"annotations that are large in sum": {manyAnnotations(40, 1<<10), "annotations of the ClusterRegistration are too large"},
		"many annotations":                  {manyAnnotations(20_000, 0), "annotations of the ClusterRegistration are too large"},
		"16 labels of the object":           {manyLabels(16), ""},
		"17 labels of the object":           {manyLabels(17), "too many labels in its metadata, the maximum is 16"},
	})
	expectPolicy(t, agent, tests)
}

// TestRequestPolicy_AcceptsOnlyWhatAgentsSendToRecover tries requests of the recovery account on an API server.
func TestRequestPolicy_AcceptsOnlyWhatAgentsSendToRecover(t *testing.T) {
	if err := rights(); err != nil { // installs the CRDs and the policy
		t.Fatal(err)
	}
	agent, other := creator(t, "policies", "fleet-recovery"), creator(t, "policies", "fleet-recovery-2")
	awaitPolicy(t, agent, without("agent-proof"),
		func(ctx context.Context) error { return tryCreate(ctx, agent, asSent) },
		func(ctx context.Context) error { return tryCreate(ctx, other, without("agent-proof")) },
	)
	tests := tooLarge()
	maps.Copy(tests, map[string]policyTest{
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
	})
	expectPolicy(t, agent, tests)
}

// creator is an account of a namespace that may create ClusterRegistrations in workspace policies.
func creator(t *testing.T, namespace, account string) server {
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
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server{client: client, mapper: hub.mapper}
}

// tryCreate creates a request as an agent sends it, with a change, in a dry run.
func tryCreate(ctx context.Context, s server, modify modify) error {
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

// ofToken makes it a request with the token of a bootstrap secret.
func ofToken(r *fleet.ClusterRegistration) {
	without("agent-ticket")(r)
	labelled(fleet.LabelRegistrationToken)(r)
}

// largest makes each part of a request as large as the policy allows.
func largest(r *fleet.ClusterRegistration) {
	r.Annotations = nil
	manyAnnotations(1024, 32-8)(r)
	manyLabels(16)(r)
	r.Spec.ClientID, r.Spec.ClientRandom, r.Spec.ClusterLabels = strings.Repeat("x", 8192), strings.Repeat("x", 256), map[string]string{}
	for i := range 1024 {
		r.Spec.ClusterLabels[fmt.Sprintf("%032d", i)] = ""
	}
}

func clusterLabels(count int, value string) modify {
	return func(r *fleet.ClusterRegistration) {
		r.Spec.ClusterLabels = map[string]string{}
		for i := range count {
			r.Spec.ClusterLabels[fmt.Sprint(i)] = value
		}
	}
}

func manyAnnotations(count, size int) modify {
	return func(r *fleet.ClusterRegistration) {
		for i := range count {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, fmt.Sprintf("%08d", i), strings.Repeat("x", size))
		}
	}
}

func manyLabels(count int) modify {
	return func(r *fleet.ClusterRegistration) {
		for i := range count {
			labelled(fmt.Sprint(i))(r)
		}
	}
}

// fieldOwners are entries of metadata.managedFields that a client sends.
func fieldOwners(fields ...string) modify {
	return func(r *fleet.ClusterRegistration) {
		for i, text := range fields {
			r.ManagedFields = append(r.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: fmt.Sprint("m", i), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: fleet.SchemeGroupVersion.String(),
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text),
			})
		}
	}
}

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
