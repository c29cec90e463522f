package labconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/manager"
	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

const (
	// tokenInterval is the interval at which the token of a worker is extended. It is shorter than half of the lifetime.
	tokenInterval = workload.TokenLifetime / 3
	// requestTimeout limits each request.
	requestTimeout = 10 * time.Second
)

type handler struct {
	*manager.Context
	ctx context.Context //nolint:containedctx // lasso's handlers get no context
	// ensureToken writes a bootstrap token to the cluster of a kubeconfig.
	ensureToken func(ctx context.Context, kubeconfig []byte, token workload.Token, now time.Time) error
}

// Register adds the controller of LabConfigs. It works until ctx ends.
func Register(ctx context.Context, m *manager.Context) error {
	h := &handler{Context: m, ctx: ctx, ensureToken: ensureToken}
	m.LabConfigs.OnChange(context.WithoutCancel(ctx), "labconfig", h.reconcile)
	return h.watch()
}

func ensureToken(ctx context.Context, kubeconfig []byte, token workload.Token, now time.Time) error {
	client, err := workload.New(kubeconfig)
	if err != nil {
		return err
	}
	return client.EnsureToken(ctx, token, now)
}

func (h *handler) reconcile(_ string, config *api.LabConfig) (*api.LabConfig, error) {
	if config == nil {
		return nil, nil
	}
	in, err := h.gather(config)
	if err != nil {
		return nil, fmt.Errorf("LabConfig %s/%s: %w", config.Namespace, config.Name, err)
	}
	if err := h.act(in, Decide(in)); err != nil {
		return nil, fmt.Errorf("LabConfig %s/%s: %w", config.Namespace, config.Name, err)
	}
	return config, nil
}

func (h *handler) act(in Input, out Outcome) error {
	switch out.Stage {
	case Waiting:
		return h.report(in, out.Reason, out.Message, nil)
	case Keeping:
		if err := h.extend(in, out); err != nil {
			return err
		}
		return h.reportCreated(in)
	case Generating:
		return h.generate(in, out)
	default:
		return nil
	}
}

// generate writes the token, if the machine needs one, then the Secret, then the status.
func (h *handler) generate(in Input, out Outcome) error {
	files, err := h.files(in)
	if err != nil {
		return err
	}
	chosen, err := collectFiles(in.Config.Spec, files)
	if err != nil {
		return h.report(in, ReasonFilesInvalid, err.Error(), err) // repeated, because other Secrets are not watched
	}
	if err := h.extend(in, out); err != nil {
		return err
	}
	text, err := render(in, out, chosen)
	if err != nil {
		return h.report(in, ReasonFilesInvalid, err.Error(), err)
	}
	if err := h.create(newSecret(in, text)); err != nil {
		return h.report(in, ReasonSecretConflict, err.Error(), err)
	}
	h.Log.Info("bootstrap data written", "namespace", in.Config.Namespace, "labconfig", in.Config.Name, "secret", DataSecret(in.Config))
	return h.reportCreated(in)
}

func render(in Input, out Outcome, files []file) ([]byte, error) {
	m := machineIn{cluster: in.Cluster.Name, endpoint: in.Cluster.Spec.ControlPlaneEndpoint, node: in.Machine.Name, now: in.Now}
	if IsControlPlane(in.Machine) {
		c, err := m.controlPlane(out.Keys, files)
		if err != nil {
			return nil, err
		}
		return c.Render()
	}
	w, err := m.worker(out.Keys, in.Config.UID, files)
	if err != nil {
		return nil, err
	}
	return w.Render()
}

func newSecret(in Input, text []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Config.Namespace, Name: DataSecret(in.Config),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: in.Cluster.Name},
			OwnerReferences: []metav1.OwnerReference{contract.Controller(in.Config, "LabConfig")},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{clustersecrets.KeyValue: text},
	}
}

// create creates the Secret. One that exists already is kept if it is ours: the cache may be older.
func (h *handler) create(secret *corev1.Secret) error {
	_, err := h.Secrets.Create(secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, err := h.Secrets.Get(secret.Namespace, secret.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	config := &api.LabConfig{ObjectMeta: metav1.ObjectMeta{UID: secret.OwnerReferences[0].UID}}
	if !isOurs(found, config) {
		return fmt.Errorf("%s", conflict(found).Message)
	}
	return nil
}

// extend writes or extends the bootstrap token of a worker that has not joined.
func (h *handler) extend(in Input, out Outcome) error {
	if !out.Token {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	if err := h.ensureToken(ctx, out.Keys.Kubeconfig, workload.NewToken(out.Keys.CA, in.Config.UID), in.Now); err != nil {
		return h.report(in, ReasonTokenNotWritten, err.Error(), err)
	}
	h.LabConfigs.EnqueueAfter(in.Config.Namespace, in.Config.Name, tokenInterval)
	return nil
}

// report writes the condition Ready and returns cause, so that the LabConfig is reconciled again if there is one.
func (h *handler) report(in Input, reason, message string, cause error) error {
	_, err := reconcile.WriteStatus(h.LabConfigs, in.Config, func(c *api.LabConfig) {
		setReady(c, in.Now, metav1.ConditionFalse, reason, message)
	})
	if err != nil {
		return err
	}
	return cause
}

func (h *handler) reportCreated(in Input) error {
	_, err := reconcile.WriteStatus(h.LabConfigs, in.Config, func(c *api.LabConfig) {
		created := true
		c.Status.DataSecretName = DataSecret(c)
		c.Status.Initialization.DataSecretCreated = &created
		setReady(c, in.Now, metav1.ConditionTrue, clusterv1.ReadyReason, "")
	})
	return err
}

func setReady(config *api.LabConfig, now time.Time, status metav1.ConditionStatus, reason, message string) {
	contract.SetCondition(&config.Status.Conditions, now, metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: config.Generation,
	})
}
