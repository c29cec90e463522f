package charts_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// TestHubDocument_IsReadWithoutACredential checks that the controllers may publish the document, and that clients
// without a credential may read it and nothing else.
func TestHubDocument_IsReadWithoutACredential(t *testing.T) {
	controllers, err := kubernetes.NewForConfig(asControllers(t))
	if err != nil {
		t.Fatal(err)
	}
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(control.Plane(t).Hub.Config()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{names.HubDocument, "fleet-hub2"} {
		document := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := controllers.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(t.Context(), document, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := controllers.CoreV1().ConfigMaps(metav1.NamespacePublic).Delete(context.Background(), name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
	public := anonymous.CoreV1().ConfigMaps(metav1.NamespacePublic)
	tests := map[string]struct {
		do  func() error
		may bool
	}{
		"reading the document": {may: true, do: func() error {
			_, err := public.Get(t.Context(), names.HubDocument, metav1.GetOptions{})
			return err
		}},
		"reading another ConfigMap": {do: func() error {
			_, err := public.Get(t.Context(), "fleet-hub2", metav1.GetOptions{})
			return err
		}},
		"listing ConfigMaps": {do: func() error {
			_, err := public.List(t.Context(), metav1.ListOptions{})
			return err
		}},
		"writing the document": {do: func() error {
			_, err := public.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names.HubDocument}}, metav1.UpdateOptions{})
			return err
		}},
		"deleting the document": {do: func() error {
			return public.Delete(t.Context(), names.HubDocument, metav1.DeleteOptions{})
		}},
		"reading it in another namespace": {do: func() error {
			_, err := anonymous.CoreV1().ConfigMaps(rightsNamespace).Get(t.Context(), names.HubDocument, metav1.GetOptions{})
			return err
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectRight(t, test.do(), test.may) })
	}
}
