package recovery

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// maxDocument is the maximum size in bytes of the ConfigMap with the hub document. Kubernetes limits it to 1 MiB.
const maxDocument = 2 << 20

// errNoDocument means that the hub answered, but not with a hub document.
var errNoDocument = errors.New("no hub document")

// Fetch reads the hub document at a hub's address without sending a credential and without verifying the certificate.
// The text comes from an unknown server: use it only if identity.VerifyDocument accepts it.
func Fetch(ctx context.Context, server string) (string, error) {
	address, err := url.JoinPath(server, "api/v1/namespaces", metav1.NamespacePublic, "configmaps", names.HubDocument)
	if err != nil {
		return "", fmt.Errorf("address of the hub document: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("address of the hub document: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := anonymous().Do(request)
	if err != nil {
		return "", fmt.Errorf("reading the hub document: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("reading the hub document: %s answered %s: %w", server, response.Status, errNoDocument)
	}
	var found corev1.ConfigMap
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(&found); err != nil {
		return "", fmt.Errorf("reading the hub document: the answer of %s is not a ConfigMap: %w", server, errNoDocument)
	}
	return found.Data[names.HubDocumentKey], nil
}

// anonymous returns a client that identifies neither itself nor the server. It follows no redirects.
func anonymous() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // the document is signed, and nothing secret is sent
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
