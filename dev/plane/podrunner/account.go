package podrunner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tokenLife is the lifetime of a process' token in seconds. The API server may shorten it.
	tokenLife = 3600
	// tokenRetry is the pause before a failed token request is repeated.
	tokenRetry = 250 * time.Millisecond
)

// prepare creates the workload's directory with a kubeconfig for the pod's ServiceAccount. The first process
// starts only after the token has been written (token, refreshToken).
func (w *workload) prepare() error {
	for _, dir := range []string{w.dir, w.scratch()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating a directory: %w", err)
		}
	}
	kubeconfig, err := w.runner.options.Kubeconfig(w.tokenFile(), w.pod.Namespace)
	if err != nil {
		return err
	}
	return os.WriteFile(w.kubeconfigFile(), kubeconfig, 0o600)
}

func (w *workload) kubeconfigFile() string { return filepath.Join(w.dir, "kubeconfig") }
func (w *workload) tokenFile() string      { return filepath.Join(w.dir, "token") }
func (w *workload) scratch() string        { return filepath.Join(w.dir, "tmp") }

// token requests a token of the pod's ServiceAccount and writes it. It is never an admin's token, so that the
// process runs with the rights of the chart. The token is not bound to the Pod: an unscheduled Pod is removed
// from the API at once when it is deleted, but its process still needs the API to shut down.
func (w *workload) token(ctx context.Context) (expires time.Time, err error) {
	life := int64(tokenLife)
	got, err := w.runner.options.Client.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(ctx, accountOf(w.pod),
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("requesting a token for ServiceAccount %s: %w", accountOf(w.pod), err)
	}
	next := w.tokenFile() + ".next"
	if err := os.WriteFile(next, []byte(got.Status.Token), 0o600); err != nil {
		return time.Time{}, err
	}
	// Renaming the file makes the update atomic for readers.
	return got.Status.ExpirationTimestamp.Time, os.Rename(next, w.tokenFile())
}

func accountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

// refreshToken writes a new token when a fifth of the old one's lifetime is left.
func (w *workload) refreshToken() {
	for first := true; ; {
		expires, err := w.token(w.ctx)
		pause := tokenRetry
		if err == nil {
			pause = expires.Sub(w.runner.options.Clock()) * 4 / 5
			if first {
				first = false
				close(w.hasToken)
			}
		} else if first {
			w.tokenMissing(err)
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return
		}
	}
}

// tokenMissing reports in the pod's status why no process starts.
func (w *workload) tokenMissing(err error) {
	for i, p := range w.processes {
		if p != nil {
			w.set(i, func(s *containerState) { s.reason, s.message = "CreateContainerConfigError", err.Error() })
		}
	}
}
