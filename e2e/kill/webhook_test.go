package kill_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook is a validating admission webhook.
type webhook struct {
	*httptest.Server
	hub  *hub
	name string
	over chan struct{}
}

// refuse registers a webhook that rejects all creations of a resource, or, if silent, never answers.
func (h *hub) refuse(ctx context.Context, group, resource string, silent bool) (*webhook, error) {
	w := &webhook{hub: h, name: "refuses-" + resource + ".example.com", over: make(chan struct{})}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if silent {
			<-w.over
			return
		}
		var review admissionv1.AdmissionReview
		_ = json.NewDecoder(r.Body).Decode(&review) // sent by the API server
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "not here", Code: http.StatusForbidden}}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(review) // the API server may have disconnected
	}))
	version := "v1"
	if group != "" {
		version = "v1alpha1"
	}
	none, second, always := admissionregistrationv1.SideEffectClassNone, int32(1), admissionregistrationv1.Fail
	_, err := h.Hub.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: w.name, SideEffects: &none, TimeoutSeconds: &second, FailurePolicy: &always, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &w.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
			}},
		}},
	}, metav1.CreateOptions{})
	return w, err
}

// end removes the webhook.
func (w *webhook) end(ctx context.Context) error {
	err := w.hub.Hub.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, w.name, metav1.DeleteOptions{})
	close(w.over)
	w.Close()
	return err
}
