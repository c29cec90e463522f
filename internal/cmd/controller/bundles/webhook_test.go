package bundles_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane/ports"
	"github.com/fleet-hub/fleet/e2e/framework/await"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// webhookDown has the API server ask somebody who is not there about all BundleDeployments of a namespace, until up is
// called.
func (w *world) webhookDown(t *testing.T, namespace string) (up func()) {
	t.Helper()
	nobody, err := ports.Hold()
	must(t, err)
	t.Cleanup(nobody.Release)
	url, none, always := "https://"+nobody.Address(), admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hooks := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "policy.example.com", SideEffects: &none, FailurePolicy: &always, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"fleet.cattle.io"}, APIVersions: []string{"*"}, Resources: []string{"bundledeployments"}},
			}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	end := func(ctx context.Context) error { return hooks.Delete(ctx, namespace, metav1.DeleteOptions{}) }
	t.Cleanup(func() { _ = end(context.WithoutCancel(t.Context())) })
	await.Until(t, "the webhook is asked", patience, func(ctx context.Context) error {
		probe := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
		err := w.Fleet.Post().Namespace(namespace).Resource(client.BundleDeployments).Param("dryRun", metav1.DryRunAll).Body(probe).Do(ctx).Error()
		if apierrors.IsInternalError(err) {
			return nil
		}
		return errors.Join(errors.New("a BundleDeployment would be created"), err)
	})
	return func() { must(t, end(t.Context())) }
}

// A webhook without an endpoint is reported on the Bundle, with the cluster it concerns, as long as it lasts.
func TestUnreachableWebhook_IsReportedUntilItWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.cluster(t, "two", nil)
	up := w.webhookDown(t, w.namespaceOf("one"))
	w.bundle(t, "web", everywhere)
	w.deployment(t, "web", "two", "the other goes on", exists)
	isTold := func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "/one: write error: ") && strings.Contains(message, `failed calling webhook "policy.example.com"`)
	}
	w.bundleThat(t, "web", "the reason", isTold)
	up()
	w.deployment(t, "web", "one", "what was refused before", exists)
	w.bundleThat(t, "web", "the end of it", func(b *fleet.Bundle) bool { return !isTold(b) })
}
