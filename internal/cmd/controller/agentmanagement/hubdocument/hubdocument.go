package hubdocument

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// waitDelay is the time until the next attempt while the hub's key or the token of an account does not exist yet.
const waitDelay = 5 * time.Second

// newAccount is the age up to which the token of an account is awaited. An older account without a token may never get one,
// for instance because the last Cluster of its workspace was deleted.
const newAccount = time.Minute

// recheck is the time until the published document is read again: it is not watched, and may be deleted or changed.
const recheck = 5 * time.Minute

// errTaken means that the ConfigMap belongs to another owner.
var errTaken = errors.New("it is not a document of this hub: delete it, so that the hub can publish its own")

type handler struct {
	app *hub.App
	// signed means that this process has published a document.
	signed bool
	// problem is the last problem that was logged.
	problem string
}

// Register watches the configuration and the recovery accounts of the workspaces.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	own := types.NamespacedName{Namespace: a.Namespaces.System, Name: names.ControllerConfig}
	a.ConfigMaps.OnChange(hub.Lasting(ctx), "hubdocument", func(key string, config *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		if key != own.String() {
			return config, nil
		}
		return config, h.publish(ctx)
	})
	return reconcile.Watch(a.ServiceAccounts.Informer(), func(account *corev1.ServiceAccount) []types.NamespacedName {
		if account.Name != names.Recovery {
			return nil
		}
		return []types.NamespacedName{own}
	}, reconcile.Enqueue(a.ConfigMaps))
}

// publish signs and writes the document if it is not as wanted.
func (h *handler) publish(ctx context.Context) error {
	key := h.app.Recoveries.Key()
	if key.Public() == "" {
		h.later()
		return nil
	}
	written, err := reconcile.Optional(h.app.ConfigMaps.Get(metav1.NamespacePublic, names.HubDocument, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading the hub document: %w", err)
	}
	in, err := h.gather(ctx, key, written)
	if err != nil {
		return err
	}
	out := decide(in)
	if out.sign {
		if err := h.write(key, in, out, written); err != nil {
			h.report(err)
			return nil
		}
	}
	h.signed = true
	h.app.SetPublishedAddress(hubaddress.Published{Hash: in.hash, Serial: addressSerial(in, out)})
	h.reportLeftOut(out.leftOut)
	h.app.ConfigMaps.EnqueueAfter(h.app.Namespaces.System, names.ControllerConfig, recheck)
	return nil
}

// addressSerial returns the serial of the first document with the current address.
func addressSerial(in input, out outcome) int64 {
	if !out.sign {
		return in.last.AddressSerial
	}
	return out.document.AddressSerial
}

// later enqueues the next attempt, because no event announces the hub's key or a token.
func (h *handler) later() {
	h.app.ConfigMaps.EnqueueAfter(h.app.Namespaces.System, names.ControllerConfig, waitDelay)
}

// gather reads what the decision needs. A document that another key has signed, as before the hub's key was lost, does
// not count.
func (h *handler) gather(ctx context.Context, key identity.Key, written *corev1.ConfigMap) (input, error) {
	conf := h.app.Config.Get()
	in := input{
		hash: hubaddress.Hash(conf), now: h.app.Clock(), started: h.signed, url: conf.APIServerURL, ca: conf.APIServerCA, lifetime: conf.AgentCredentialLifetime.Duration,
		published: map[string]string{},
	}
	var err error
	if in.clusters, err = h.returning(); err != nil {
		return in, err
	}
	if in.tokens, err = h.recoveryTokens(ctx); err != nil || written == nil {
		return in, err
	}
	last, err := identity.VerifyDocument(key.Public(), written.Data[names.HubDocumentKey])
	if err != nil {
		return in, nil //nolint:nilerr // see above
	}
	in.last = &last
	for workspace := range in.tokens {
		if token, err := last.Token(key.WorkspaceKey(workspace)); err == nil && token != "" {
			in.published[workspace] = token
		}
	}
	return in, nil
}

// returning returns the number of Clusters whose agents can return with their key.
func (h *handler) returning() (count int, err error) {
	all, err := h.app.Clusters.Cache().List(metav1.NamespaceAll, labels.Everything())
	for _, cluster := range all {
		if cluster.Annotations[annotation.AgentKey] != "" {
			count++
		}
	}
	return count, err
}

// recoveryTokens returns the token of each recovery account that has one.
func (h *handler) recoveryTokens(ctx context.Context) (map[string]string, error) {
	accounts, err := h.app.ServiceAccounts.Cache().List("", labels.Everything())
	if err != nil {
		return nil, err
	}
	tokens := map[string]string{}
	for _, account := range accounts {
		if !recoveries.IsAccount(account) {
			continue
		}
		token, err := h.app.Recoveries.Token(ctx, account)
		switch {
		case errors.Is(err, recoveries.ErrPending):
			if h.app.Clock().Sub(account.CreationTimestamp.Time) < newAccount {
				h.later()
			}
		case err != nil:
			return nil, err
		default:
			tokens[account.Namespace] = token
		}
	}
	return tokens, nil
}

// write signs the document and writes it.
func (h *handler) write(key identity.Key, in input, out outcome, written *corev1.ConfigMap) error {
	for _, workspace := range out.workspaces {
		if err := out.document.AddToken(key.WorkspaceKey(workspace), in.tokens[workspace]); err != nil {
			return fmt.Errorf("adding the recovery token of workspace %s: %w", workspace, err)
		}
	}
	text, err := key.SignDocument(out.document)
	if err != nil {
		return fmt.Errorf("signing the hub document: %w", err)
	}
	wanted := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespacePublic, Name: names.HubDocument, Labels: map[string]string{fleet.LabelManaged: "true"},
		},
		Data: map[string]string{names.HubDocumentKey: text},
	}
	switch {
	case written == nil:
		_, err = h.app.ConfigMaps.Create(wanted)
	case written.Labels[fleet.LabelManaged] != "true":
		err = errTaken
	default:
		wanted.UID, wanted.ResourceVersion = written.UID, written.ResourceVersion // another process may have signed a newer one
		_, err = h.app.ConfigMaps.Update(wanted)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	h.app.Log.Info("hub document published", "serial", out.document.Serial, "workspaces", len(out.workspaces))
	return nil
}

// report logs a problem once, and tries again later.
func (h *handler) report(err error) {
	if text := err.Error(); text != h.problem {
		h.problem = text
		h.app.Log.Warn("hub document not published", "error", err)
	}
	h.app.ConfigMaps.EnqueueAfter(h.app.Namespaces.System, names.ControllerConfig, time.Minute)
}

// reportLeftOut logs once that the document cannot contain the tokens of all workspaces.
func (h *handler) reportLeftOut(count int) {
	problem := ""
	if count > 0 {
		problem = fmt.Sprintf("the recovery tokens of %d workspaces do not fit into the hub document, which has room for %d: after the hub's signing key was replaced, their agents need a bootstrap secret", count, maxWorkspaces)
	}
	if problem != "" && problem != h.problem {
		h.app.Log.Warn("hub document is full", "warning", problem)
	}
	h.problem = problem
}
