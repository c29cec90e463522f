package credentialexpiry

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const registration = "cattle-fleet-clusters-system"

var errServer = errors.New("the server is upset")

func credential(modifiers ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: registration, Name: "c-1", Labels: map[string]string{fleet.LabelCluster: "c1"},
			Annotations: map[string]string{fleet.AnnotationClusterRegistration: "r1", fleet.AnnotationClusterRegistrationNamespace: "ws"},
		},
		Type: protocol.SecretTypeCredential,
	}
	for _, modify := range modifiers {
		modify(s)
	}
	return s
}

func readerMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: registration, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationClusterRegistrationNamespace: "ws"},
	}
}

func start(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

// TestSameRequestNameInTwoWorkspaces_OnlyOwnReaderIsDeleted expires the credential of the request whose names contain
// its workspace.
func TestSameRequestNameInTwoWorkspaces_OnlyOwnReaderIsDeleted(t *testing.T) {
	other := readerMeta("r1-creds")
	other.Annotations = map[string]string{fleet.AnnotationClusterRegistrationNamespace: "older"}
	own := readerMeta(grant.CredentialAccessNames("ws", "r1")[1])
	hub := start(t, &rbacv1.Role{ObjectMeta: other}, &rbacv1.RoleBinding{ObjectMeta: other},
		&rbacv1.Role{ObjectMeta: own}, &rbacv1.RoleBinding{ObjectMeta: own})
	secret := credential()
	secret.CreationTimestamp = metav1.NewTime(hub.App.Clock().Add(-time.Hour))
	hub.Put(secret)
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "delete RoleBinding "+registration+"/"+own.Name, "delete Role "+registration+"/"+own.Name, "delete Secret "+registration+"/c-1")
}

func TestCredential_ExpiresAfter40Minutes(t *testing.T) {
	deleting := metav1.Now()
	ended := []string{"delete RoleBinding " + registration + "/r1-creds", "delete Role " + registration + "/r1-creds", "delete Secret " + registration + "/c-1"}
	woken := func(in string) []string { return []string{"Secret " + registration + "/c-1 in " + in} }
	tests := map[string]struct {
		modify   func(*corev1.Secret)
		age      time.Duration
		requests []string
		woken    []string
	}{
		"new: requeued for its expiry":               {age: 0, woken: woken("40m0s")},
		"older: requeued for the remaining time":     {age: 39*time.Minute + 59*time.Second, woken: woken("1s")},
		"just before its expiry: stays":              {age: 40*time.Minute - 1, woken: woken("1ns")},
		"expired: deleted with its readers":          {age: 40 * time.Minute, requests: ended},
		"expired long ago: deleted":                  {age: 1000 * time.Hour, requests: ended},
		"created by a clock that is ahead: requeued": {age: -5 * time.Minute, woken: woken("45m0s")},
		"no request named: deleted alone":            {modify: func(s *corev1.Secret) { s.Annotations = nil }, age: time.Hour, requests: ended[2:]},
		"no label of a Cluster: stays":               {modify: func(s *corev1.Secret) { s.Labels = nil }, age: time.Hour},
		"being deleted: no request":                  {modify: func(s *corev1.Secret) { s.DeletionTimestamp = &deleting }, age: time.Hour},
		"another type: stays":                        {modify: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, age: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret := credential()
			if test.modify != nil {
				test.modify(secret)
			}
			hub := start(t, &rbacv1.Role{ObjectMeta: readerMeta("r1-creds")}, &rbacv1.RoleBinding{ObjectMeta: readerMeta("r1-creds")})
			secret.CreationTimestamp = metav1.NewTime(hub.Now().Add(-test.age))
			hub.Put(secret)
			if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
				t.Fatal(err)
			}
			hubtest.ExpectOrder(t, hubtest.ExpectRequests(t, hub, test.requests...), test.requests...)
			hubtest.ExpectWoken(t, hub, test.woken...)
		})
	}
}

func TestExpiry_DeletesOnlyItsReaders(t *testing.T) {
	other := credential(func(s *corev1.Secret) { s.Name, s.Annotations[fleet.AnnotationClusterRegistration] = "c-2", "r2" })
	hub := start(t, credential(),
		&rbacv1.Role{ObjectMeta: readerMeta("r1-creds")}, &rbacv1.RoleBinding{ObjectMeta: readerMeta("r1-creds")},
		&rbacv1.Role{ObjectMeta: readerMeta("r2-creds")}, &rbacv1.RoleBinding{ObjectMeta: readerMeta("r2-creds")}, other)
	hub.Pass(grant.CredentialLife)
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	if hubtest.Get[*corev1.Secret](hub, registration, "c-1") != nil || hubtest.Get[*rbacv1.Role](hub, registration, "r1-creds") != nil ||
		hubtest.Get[*rbacv1.RoleBinding](hub, registration, "r1-creds") != nil {
		t.Error("something of the credential is left")
	}
	hubtest.MustGet[*corev1.Secret](t, hub, registration, "c-2")
	hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r2-creds")
	hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r2-creds")
}

// A request that is granted again gets objects of the same names, which the caches may not have yet.
func TestObjectsCreatedAgain_Stay(t *testing.T) {
	hub := start(t, credential(), &rbacv1.Role{ObjectMeta: readerMeta("r1-creds")}, &rbacv1.RoleBinding{ObjectMeta: readerMeta("r1-creds")})
	hub.Pass(grant.CredentialLife)
	again := readerMeta("r1-creds")
	again.UID = "again"
	hub.Have(credential(func(s *corev1.Secret) { s.UID = "again" }), &rbacv1.Role{ObjectMeta: again}, &rbacv1.RoleBinding{ObjectMeta: again})
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	hubtest.MustGet[*corev1.Secret](t, hub, registration, "c-1")
	hubtest.MustGet[*rbacv1.Role](t, hub, registration, "r1-creds")
	hubtest.MustGet[*rbacv1.RoleBinding](t, hub, registration, "r1-creds")
}

func TestReaderOfAnotherWorkspace_Stays(t *testing.T) {
	elsewhere := readerMeta("r1-creds")
	elsewhere.Annotations = map[string]string{fleet.AnnotationClusterRegistrationNamespace: "ws2"}
	hub := start(t, credential(), &rbacv1.Role{ObjectMeta: elsewhere}, &rbacv1.RoleBinding{ObjectMeta: elsewhere})
	hub.Pass(grant.CredentialLife)
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "delete Secret "+registration+"/c-1")
}

func TestFailedDeletion_IsRetried(t *testing.T) {
	for _, fail := range []string{"delete RoleBinding " + registration + "/r1-creds", "delete Role " + registration + "/r1-creds", "delete Secret " + registration + "/c-1"} {
		t.Run(fail, func(t *testing.T) {
			hub := start(t, credential(), &rbacv1.Role{ObjectMeta: readerMeta("r1-creds")}, &rbacv1.RoleBinding{ObjectMeta: readerMeta("r1-creds")})
			hub.Pass(time.Hour)
			hub.Fail(fail, errServer)
			if err := hub.Handle("Secret", registration+"/c-1"); !errors.Is(err, errServer) {
				t.Errorf("error %v, want the server's", err)
			}
			hub.Fail(fail, nil)
			hub.Sync()
			if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
				t.Fatal(err)
			}
			if hubtest.Get[*corev1.Secret](hub, registration, "c-1") != nil || hubtest.Get[*rbacv1.Role](hub, registration, "r1-creds") != nil ||
				hubtest.Get[*rbacv1.RoleBinding](hub, registration, "r1-creds") != nil {
				t.Error("something of the credential is left")
			}
		})
	}
}

func TestFailedRead_IsRetried(t *testing.T) {
	for name, spoil := range map[string]hubtest.Object{
		"the Role": &rbacv1.Role{ObjectMeta: readerMeta("r1-creds")}, "the RoleBinding": &rbacv1.RoleBinding{ObjectMeta: readerMeta("r1-creds")},
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, credential())
			hub.Pass(time.Hour)
			hub.Spoil(spoil)
			if err := hub.Handle("Secret", registration+"/c-1"); err == nil {
				t.Error("no error")
			}
			hubtest.ExpectRequests(t, hub)
		})
	}
}

func TestDeletedSecret_IsNoError(t *testing.T) {
	hub := start(t)
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub)
	hubtest.ExpectWoken(t, hub)
}

// Rancher Fleet marks the credential and its readers as members of one set.
func TestCredentialOfRancherFleet_ExpiresWithItsReaders(t *testing.T) {
	member := func(name, hash string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: registration, Name: name, Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: hash}}
	}
	theirs := credential(func(s *corev1.Secret) { s.Annotations, s.Labels[fleet.LabelSetHash] = nil, "set-1" })
	hub := start(t, theirs,
		&rbacv1.Role{ObjectMeta: member("import-token-c1-uid-creds", "set-1")}, &rbacv1.RoleBinding{ObjectMeta: member("import-token-c1-uid-creds", "set-1")},
		&rbacv1.Role{ObjectMeta: member("r2-creds", "set-2")}, &rbacv1.RoleBinding{ObjectMeta: member("r2-creds", "set-2")})
	hub.Pass(grant.CredentialLife)
	if err := hub.Handle("Secret", registration+"/c-1"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"delete RoleBinding " + registration + "/import-token-c1-uid-creds", "delete Role " + registration + "/import-token-c1-uid-creds",
		"delete Secret " + registration + "/c-1",
	}
	hubtest.ExpectOrder(t, hubtest.ExpectRequests(t, hub, want...), want...)
}
