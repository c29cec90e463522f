package join

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// written is what is known of a Secret: its version, a hash of what its manifest is made of, and the problem with it.
type written struct {
	version string
	madeOf  [sha256.Size]byte
	problem Result
}

// writeSecret writes the Secret, unless it is known to be as it has to be. It returns the problem that a person has to
// resolve, if there is one.
func (j *Joiner) writeSecret(ctx context.Context, r Request, out joining.Outcome) (Result, error) {
	name := types.NamespacedName{Namespace: r.From.Namespace, Name: joining.SecretName(r.From.Name)}
	version := j.version(name)
	if out.Content == joining.Unchanged || version == "" && out.Content == joining.NothingIfExists {
		return Result{}, nil
	}
	madeOf, err := j.ingredients(r, out)
	if err != nil {
		return Result{}, err
	}
	if known := j.known(r.key()); version != "" && known.version == version && known.madeOf == madeOf {
		return known.problem, nil
	}
	now, err := j.update(ctx, r, out)
	if err != nil {
		return Result{}, fmt.Errorf("secret %s: %w", name, err)
	}
	now.madeOf = madeOf
	j.mu.Lock()
	j.written[r.key()] = now
	j.mu.Unlock()
	return now.problem, nil
}

func (j *Joiner) known(key types.NamespacedName) written {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.written[key]
}

// ingredients returns a hash of what a manifest is made of, so that it is only rendered if something has changed.
func (j *Joiner) ingredients(r Request, out joining.Outcome) ([sha256.Size]byte, error) {
	secrets := make([]string, 0, len(out.Deploy.PullSecrets))
	for _, name := range out.Deploy.PullSecrets {
		secrets = append(secrets, name+"="+j.version(types.NamespacedName{Namespace: j.app.Namespaces.System, Name: name}))
	}
	document, err := json.Marshal([]any{out.Content, out.Deploy.SetID, out.Deploy.Values, secrets, r.From.UID, r.Version})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding the agent's settings: %w", err)
	}
	return sha256.Sum256(document), nil
}

// update compares the Secret on the server with what it has to be.
func (j *Joiner) update(ctx context.Context, r Request, out joining.Outcome) (written, error) {
	secrets := j.app.Kube.CoreV1().Secrets(r.From.Namespace)
	live, err := reconcile.Optional(secrets.Get(ctx, joining.SecretName(r.From.Name), metav1.GetOptions{}))
	switch {
	case err != nil:
		return written{}, err
	case live == nil && out.Content == joining.NothingIfExists, live != nil && live.DeletionTimestamp != nil:
		return written{}, nil // its deletion is an event
	case live != nil && !joining.IsForCluster(live, r.key()):
		return written{version: live.ResourceVersion, problem: taken(live, out)}, nil
	}
	manifest, problem, err := j.manifest(ctx, out)
	if err != nil || problem.Reason != "" {
		return written{version: versionOf(live), problem: problem}, err
	}
	return j.put(ctx, live, joining.NewSecret(r.From, r.Version, manifest))
}

// put writes a Secret in place of the live one, which is nil if there is none.
func (j *Joiner) put(ctx context.Context, live, want *corev1.Secret) (written, error) {
	secrets := j.app.Kube.CoreV1().Secrets(want.Namespace)
	switch {
	case live == nil:
		created, err := secrets.Create(ctx, want, metav1.CreateOptions{})
		if err != nil {
			return written{}, err
		}
		j.app.Log.Info("manifest of an agent written", "secret", want.Namespace+"/"+want.Name)
		return written{version: created.ResourceVersion}, nil
	case joining.IsFixed(live):
		return written{}, reconcile.IgnoreGone(secrets.Delete(ctx, live.Name, *reconcile.Exactly(live))) // an event
	}
	merged, differs := joining.Merge(live, want)
	if !differs {
		return written{version: live.ResourceVersion}, nil
	}
	updated, err := secrets.Update(ctx, merged, metav1.UpdateOptions{})
	return written{version: versionOf(updated)}, err
}

func versionOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	return secret.ResourceVersion
}

// taken returns the problem with a Secret that the hub did not create. It does not matter if none is needed.
func taken(secret *corev1.Secret, out joining.Outcome) Result {
	if out.Content != joining.Agent {
		return Result{}
	}
	return Result{
		Reason: conditions.ReasonNameTaken,
		Message: fmt.Sprintf("Secret %s/%s exists and was not created for this cluster, and the hub writes the manifest of the agent there: delete it",
			secret.Namespace, secret.Name),
	}
}

// manifest returns the content of the Secret, or the problem with it.
func (j *Joiner) manifest(ctx context.Context, out joining.Outcome) ([]byte, Result, error) {
	if out.Content != joining.Agent {
		manifest, err := install.EmptyManifest(out.Deploy)
		return manifest, Result{}, err
	}
	pullSecrets := make([]*corev1.Secret, 0, len(out.Deploy.PullSecrets))
	for _, name := range out.Deploy.PullSecrets {
		secret, err := j.app.Kube.CoreV1().Secrets(j.app.Namespaces.System).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, Result{}, fmt.Errorf("reading pull secret %s: %w", name, err)
		}
		pullSecrets = append(pullSecrets, secret)
	}
	own, err := j.app.Identities.Own(ctx)
	if err != nil {
		return nil, Result{}, err
	}
	manifest, err := install.Manifest(out.Deploy, pullSecrets, own)
	switch {
	case errors.Is(err, install.ErrSettings):
		return nil, Result{Reason: conditions.ReasonSettingsInvalid, Message: err.Error()}, nil // the chart's message, which is constant
	case err == nil && len(manifest) > joining.MaxBytes:
		return nil, Result{
			Reason:  conditions.ReasonSettingsInvalid,
			Message: fmt.Sprintf("the manifest of the agent has more than %d bytes and does not fit into a Secret: shorten the agent's settings, or the pull Secrets in imagePullSecrets of the fleet chart", joining.MaxBytes),
		}, nil
	}
	return manifest, Result{}, err
}

// Remove deletes the Secret of a cluster that is being deleted, so that a later cluster of the same name does not boot with
// its manifest.
func (j *Joiner) Remove(ctx context.Context, cluster *fleet.Cluster) error {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	j.Forget(key)
	name := types.NamespacedName{Namespace: key.Namespace, Name: joining.SecretName(key.Name)}
	if j.version(name) == "" {
		return nil
	}
	secrets := j.app.Kube.CoreV1().Secrets(name.Namespace)
	live, err := reconcile.Optional(secrets.Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || live == nil || !joining.IsForCluster(live, key) || live.DeletionTimestamp != nil {
		return err
	}
	return reconcile.IgnoreGone(secrets.Delete(ctx, live.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion}}))
}

// Forget drops what is remembered about a cluster that is gone.
func (j *Joiner) Forget(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.written, key)
}
