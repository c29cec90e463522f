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
	// tokenLife is how long a process's token lasts, in seconds; the API server may shorten it.
	tokenLife = 3600
	// tokenRetry is how soon a token is asked for again that could not be had.
	tokenRetry = 250 * time.Millisecond
)

// prepare makes the workload's folder, with a kubeconfig for the pod's account. The token comes
// before the first process starts (token, refreshToken).
func (w *workload) prepare() error {
	for _, dir := range []string{w.dir, w.scratch()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making a folder: %w", err)
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

// token asks for a token of the pod's account, never an admin's, so that what the process does
// proves its rights. It is not bound to the Pod: an unscheduled Pod is gone from the API at the
// moment of its deletion, and its process should still be able to say goodbye.
func (w *workload) token(ctx context.Context) (expires time.Time, err error) {
	life := int64(tokenLife)
	got, err := w.runner.options.Client.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(ctx, accountOf(w.pod),
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for a token of account %s: %w", accountOf(w.pod), err)
	}
	next := w.tokenFile() + ".next"
	if err := os.WriteFile(next, []byte(got.Status.Token), 0o600); err != nil {
		return time.Time{}, err
	}
	// A rename, so that no reader sees half a token.
	return got.Status.ExpirationTimestamp.Time, os.Rename(next, w.tokenFile())
}

func accountOf(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

// refreshToken keeps the token file fresh: a new token when a fifth of the old one's life is left.
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

// tokenMissing shows in the status why no process starts.
func (w *workload) tokenMissing(err error) {
	for i, p := range w.processes {
		if p != nil {
			w.set(i, func(s *containerState) { s.reason, s.message = "CreateContainerConfigError", err.Error() })
		}
	}
}
