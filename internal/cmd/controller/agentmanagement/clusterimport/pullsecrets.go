package clusterimport

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// errPullSecretGone means that a pull secret was deleted after the decision to copy it.
var errPullSecretGone = errors.New("a pull secret is not there")

// pullSecrets reads the Secrets to copy to the agent.
func (h *handler) pullSecrets(ctx context.Context, deploy *importing.AgentDeployment) ([]*corev1.Secret, error) {
	var secrets []*corev1.Secret
	if deploy.LookOnly {
		return nil, nil
	}
	for _, name := range deploy.PullSecrets {
		secret, err := h.app.Kube.CoreV1().Secrets(h.app.Namespaces.System).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, errPullSecretGone
		case err != nil:
			return nil, fmt.Errorf("reading pull secret %s: %w", name, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// applyPullSecrets copies the type and data of each Secret to the agent's namespace. On the hub's own cluster, the
// Secret there may be the source itself.
func (d *deployment) applyPullSecrets(ctx context.Context) error {
	for _, source := range d.pullSecrets {
		live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: source.Name}}
		found, err := d.downstream.Find(ctx, live)
		switch {
		case err != nil:
			return err
		case found && (live.UID == source.UID || live.Type == source.Type && equality.Semantic.DeepEqual(live.Data, source.Data)):
			continue
		case found && live.Type != source.Type: // the type is immutable
			if err := d.downstream.Remove(ctx, live); err != nil {
				return err
			}
		}
		if err := d.downstream.Apply(ctx, marked(d.SetID, namespaceOf(d.AgentDeployment), copyOf(source, d.Values.Namespace))...); err != nil {
			return err
		}
	}
	return nil
}

// removePullSecrets removes copies from a downstream namespace. A Secret without the marks of the set was not copied
// by an import and stays.
func (d *deployment) removePullSecrets(ctx context.Context, namespace, setID string, secrets []string) error {
	for _, name := range secrets {
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := d.removeMarked(ctx, setID, copied); err != nil {
			return err
		}
	}
	return nil
}

func copyOf(source *corev1.Secret, namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.Name},
		Type:       source.Type, Data: source.Data,
	}
}
