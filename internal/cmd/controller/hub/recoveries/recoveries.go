package recoveries

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrKeyUnusable means that the Secret with the hub's key has another type or is damaged. It is never overwritten.
var ErrKeyUnusable = errors.New("the Secret does not contain a key of the hub")

// ErrPending means that the hub has no key yet, or that the recovery account or its token does not exist yet.
var ErrPending = errors.New("the hub's key or the recovery token of the workspace does not exist yet")

// Recoveries holds the hub's key and the recovery tokens. Create it with New.
type Recoveries struct {
	kube   func() kubernetes.Interface
	system string
	clock  func() time.Time

	mu     sync.Mutex
	key    identity.Key
	tokens map[string]token // by workspace

	// reads are the reads of token Secrets. At the start, each worker has a Cluster that needs the same Secret.
	reads    singleflight.Group
	blocking sync.Mutex // serializes the writes of blocked tickets
}

// token is the token of the recovery account with a UID.
type token struct {
	account, bearer string
	ours            bool // the hub has created the Secret
}

// New returns a Recoveries without a key. kube is called at each use. system is the hub's system namespace.
func New(kube func() kubernetes.Interface, system string, clock func() time.Time) *Recoveries {
	return &Recoveries{kube: kube, system: system, clock: clock, tokens: map[string]token{}}
}

// LoadKey reads the hub's key. If its Secret does not exist, it creates it with a new key.
func (r *Recoveries) LoadKey(ctx context.Context) error {
	secrets := r.kube().CoreV1().Secrets(r.system)
	found, err := reconcile.Optional(secrets.Get(ctx, names.HubKey, metav1.GetOptions{}))
	if err == nil && found == nil {
		if found, err = r.newKey(); err == nil {
			found, err = secrets.Create(ctx, found, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("loading the hub's key from Secret %s/%s: %w", r.system, names.HubKey, err)
	}
	key, err := keyOf(found)
	if err != nil {
		return fmt.Errorf("loading the hub's key from Secret %s/%s: %w", r.system, names.HubKey, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = key
	return nil
}

func (r *Recoveries) newKey() (*corev1.Secret, error) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	document, err := key.Encode()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.system, Name: names.HubKey, Labels: map[string]string{fleet.LabelManaged: "true"}},
		Type:       protocol.SecretTypeHubKey, Data: map[string][]byte{protocol.RecoveryKeyKey: document},
	}, nil
}

func keyOf(secret *corev1.Secret) (identity.Key, error) {
	if secret.Type != protocol.SecretTypeHubKey {
		return identity.Key{}, fmt.Errorf("type %q: %w", secret.Type, ErrKeyUnusable)
	}
	key, err := identity.ParseKey(secret.Data[protocol.RecoveryKeyKey])
	if err != nil {
		return identity.Key{}, fmt.Errorf("key %q: %w: %w", protocol.RecoveryKeyKey, ErrKeyUnusable, err)
	}
	return key, nil
}

// Key returns the hub's key, or the zero Key if it is not loaded.
func (r *Recoveries) Key() identity.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key
}

// Data returns what the agent of a Cluster needs to return after a loss. key is the public key of the agent, and account
// the recovery account of the workspace, or nil. It returns ErrPending if something does not exist yet.
func (r *Recoveries) Data(ctx context.Context, cluster *fleet.Cluster, key string, account *corev1.ServiceAccount) (protocol.Recovery, error) {
	hub := r.Key()
	if hub.Public() == "" {
		return protocol.Recovery{}, ErrPending
	}
	bearer, err := r.Token(ctx, account)
	if err != nil {
		return protocol.Recovery{}, err
	}
	ticket := TicketOf(cluster, key)
	ticket.Time = r.clock()
	text, err := hub.SignTicket(ticket)
	if errors.Is(err, identity.ErrTicket) && len(ticket.Labels) > 0 { // the labels are too large: the name matters more
		ticket.Labels = nil
		text, err = hub.SignTicket(ticket)
	}
	if err != nil {
		return protocol.Recovery{}, fmt.Errorf("signing the ticket of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return protocol.Recovery{Token: bearer, Ticket: text, HubKey: hub.Public(), WorkspaceKey: hub.WorkspaceKey(cluster.Namespace)}, nil
}

// TicketOf returns the ticket of a Cluster without its time.
func TicketOf(cluster *fleet.Cluster, key string) identity.Ticket {
	return identity.Ticket{
		Workspace: cluster.Namespace, Cluster: cluster.Name, Labels: maps.Clone(cluster.Labels), ClientID: cluster.Spec.ClientID,
		Key: identity.Thumbprint(key), Paused: cluster.Spec.Paused,
	}
}

// Token returns the lasting token of a recovery account, which may be nil. It reads each token once. It returns ErrPending
// if the token does not exist yet.
func (r *Recoveries) Token(ctx context.Context, account *corev1.ServiceAccount) (string, error) {
	if account == nil {
		return "", ErrPending
	}
	if known := r.known(account); known.bearer != "" {
		return known.bearer, nil
	}
	secret, err := r.ReadToken(ctx, account)
	if err != nil {
		return "", err
	}
	bearer := TokenIn(secret, account)
	if bearer == "" {
		return "", ErrPending
	}
	return bearer, nil
}

// known returns the token of an account that was read before, or the zero token.
func (r *Recoveries) known(account *corev1.ServiceAccount) token {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.tokens[account.Namespace]; known.account == string(account.UID) {
		return known
	}
	return token{}
}

// ReadToken reads the token Secret of a recovery account and remembers the token. It returns nil if the Secret does not
// exist.
func (r *Recoveries) ReadToken(ctx context.Context, account *corev1.ServiceAccount) (*corev1.Secret, error) {
	found, err, _ := r.reads.Do("read "+account.Namespace+" "+string(account.UID), func() (any, error) { return r.readToken(ctx, account) })
	secret, _ := found.(*corev1.Secret)
	return secret, err
}

func (r *Recoveries) readToken(ctx context.Context, account *corev1.ServiceAccount) (*corev1.Secret, error) {
	secret, err := reconcile.Optional(r.kube().CoreV1().Secrets(account.Namespace).Get(ctx, names.RecoveryToken, metav1.GetOptions{}))
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", account.Namespace, names.RecoveryToken, err)
	}
	if bearer := TokenIn(secret, account); bearer != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tokens[account.Namespace] = token{string(account.UID), bearer, secret.Labels[fleet.LabelManaged] == "true"}
	}
	return secret, nil
}

// Forget drops the token of a workspace that has gone.
func (r *Recoveries) Forget(workspace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tokens, workspace)
}

// IsTokenOf reports whether a Secret is the token Secret of an account: the API server has filled it for this account.
func IsTokenOf(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	return secret != nil && secret.Type == corev1.SecretTypeServiceAccountToken &&
		secret.Annotations[corev1.ServiceAccountNameKey] == account.Name && secret.Annotations[corev1.ServiceAccountUIDKey] == string(account.UID)
}

// TokenIn returns the token of an account in its token Secret, which may be nil. It returns "" if the Secret is not filled,
// or contains anything else: users of the workspace may write Secrets there, and all its agents get the token.
func TokenIn(secret *corev1.Secret, account *corev1.ServiceAccount) string {
	if !IsTokenOf(secret, account) {
		return ""
	}
	bearer := string(secret.Data[corev1.ServiceAccountTokenKey])
	if parsed, err := protocol.ParseAccountToken(bearer); err != nil || parsed.AccountUID != string(account.UID) {
		return ""
	}
	return bearer
}

// EnsureToken creates the token Secret of a recovery account, which the controller-manager fills. It replaces the Secret
// of an earlier account, which would be deleted with that account. A Secret that the hub did not create stays as it is,
// and no recovery token is handed out.
func (r *Recoveries) EnsureToken(ctx context.Context, account *corev1.ServiceAccount) error {
	_, err, _ := r.reads.Do("ensure "+account.Namespace+" "+string(account.UID), func() (any, error) { return nil, r.ensureToken(ctx, account) })
	return err
}

func (r *Recoveries) ensureToken(ctx context.Context, account *corev1.ServiceAccount) error {
	if r.known(account).ours {
		return nil
	}
	found, err := r.ReadToken(ctx, account)
	if err != nil {
		return err
	}
	if found != nil && (found.Type != corev1.SecretTypeServiceAccountToken || found.Labels[fleet.LabelManaged] != "true") {
		return fmt.Errorf("token Secret %s/%s %w", account.Namespace, names.RecoveryToken, ErrTaken)
	}
	if found != nil && belongsTo(found, account) {
		return nil
	}
	if found != nil {
		if err := r.dropToken(ctx, found, account); err != nil {
			return err
		}
	}
	wanted := accounts.TokenSecret(account, names.RecoveryToken)
	wanted.Labels = map[string]string{fleet.LabelManaged: "true"}
	if _, err = r.kube().CoreV1().Secrets(account.Namespace).Create(ctx, wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s/%s: %w", account.Namespace, names.RecoveryToken, err)
	}
	return nil
}

// belongsTo reports whether a token Secret was filled, or created to be filled, for an account.
func belongsTo(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	return IsTokenOf(secret, account) || secret.Annotations[corev1.ServiceAccountUIDKey] == "" &&
		slices.ContainsFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == account.UID })
}

// dropToken deletes the token Secret of an earlier account, unless the account that the caller knows is the earlier one.
func (r *Recoveries) dropToken(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	current, err := reconcile.Optional(r.kube().CoreV1().ServiceAccounts(account.Namespace).Get(ctx, account.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	if current == nil || current.UID != account.UID {
		return fmt.Errorf("ServiceAccount %s/%s was replaced: %w", account.Namespace, account.Name, ErrPending)
	}
	err = r.kube().CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, *reconcile.Exactly(secret))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Secret %s/%s of an earlier account: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// ErrTaken means that an object of another owner has the name of an object of the recovery.
var ErrTaken = errors.New("was not created by the hub; delete it, so that agents can recover")

// SetID identifies the objects of the recovery of a workspace. Changing it orphans them.
const SetID = "fleet-recovery"

// IsAccount reports whether the hub has created an account as the recovery account of its workspace.
func IsAccount(account *corev1.ServiceAccount) bool {
	if account == nil {
		return false
	}
	owner := names.Owner{GVK: corev1.SchemeGroupVersion.WithKind("Namespace").String(), Name: account.Namespace}
	return account.Name == names.Recovery && account.DeletionTimestamp == nil && account.Labels[fleet.LabelSetHash] == names.SetHash(SetID, owner)
}
