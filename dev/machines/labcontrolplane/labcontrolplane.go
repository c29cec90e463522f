package labcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/manager"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// askTimeout limits all requests to an API server.
const askTimeout = 5 * time.Second

type handler struct {
	*manager.Context
	ctx context.Context //nolint:containedctx // lasso's handlers get no context
	// ask asks the API server of a kubeconfig.
	ask func(ctx context.Context, kubeconfig []byte) Server
}

// Register adds the controller of LabControlPlanes. It works until ctx ends.
func Register(ctx context.Context, m *manager.Context) error {
	h := &handler{Context: m, ctx: ctx, ask: ask}
	m.LabControlPlanes.OnChange(context.WithoutCancel(ctx), "labcontrolplane", h.reconcile)
	return h.watch()
}

func (h *handler) reconcile(_ string, controlPlane *api.LabControlPlane) (*api.LabControlPlane, error) {
	if controlPlane == nil {
		return nil, nil
	}
	in, err := h.gather(controlPlane)
	if err != nil {
		return nil, fmt.Errorf("LabControlPlane %s/%s: %w", controlPlane.Namespace, controlPlane.Name, err)
	}
	if err := h.act(in, Decide(in)); err != nil {
		return nil, fmt.Errorf("LabControlPlane %s/%s: %w", controlPlane.Namespace, controlPlane.Name, err)
	}
	return controlPlane, nil
}

func (h *handler) act(in Input, out Outcome) error {
	var err error
	switch out.Stage {
	case Skipping:
		return nil
	case Adopting:
		return h.setFinalizer(in, true)
	case Securing:
		return h.secure(in, out)
	case Running:
		err = h.run(in, out)
	case Deleting:
		if out.RemoveFinalizer {
			return h.setFinalizer(in, false)
		}
		if out.DeleteMachine {
			err = ignoreGone(h.Machines.Delete(in.Machine.Namespace, in.Machine.Name, preconditions(in.Machine)))
		}
	}
	if reported := h.report(in, out); reported != nil || err != nil {
		return errors.Join(err, reported)
	}
	if out.After > 0 {
		h.LabControlPlanes.EnqueueAfter(in.ControlPlane.Namespace, in.ControlPlane.Name, out.After)
	}
	return nil
}

func preconditions(object metav1.Object) *metav1.DeleteOptions {
	uid := object.GetUID()
	return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict means another UID
		return nil
	}
	return err
}

// setFinalizer adds or removes the finalizer.
func (h *handler) setFinalizer(in Input, wanted bool) error {
	_, err := reconcile.Patch(h.LabControlPlanes, in.ControlPlane, func(c *api.LabControlPlane) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == Finalizer })
		if wanted && c.DeletionTimestamp == nil {
			c.Finalizers = append(c.Finalizers, Finalizer)
		}
	})
	return err
}

// secure creates the Secrets with the keys.
func (h *handler) secure(in Input, out Outcome) error {
	secrets := owner(in)
	if out.NewCA {
		ca, err := secrets.NewCA(in.Now)
		if err != nil {
			return err
		}
		if err := h.createSecret(ca); err != nil {
			return err
		}
	}
	if !out.NewAccounts {
		return nil
	}
	accounts, err := secrets.NewAccounts()
	if err != nil {
		return err
	}
	return h.createSecret(accounts)
}

// createSecret creates a Secret. If one exists that the cache does not contain, it has another label, or the cache is old.
func (h *handler) createSecret(secret *corev1.Secret) error {
	_, err := h.Secrets.Create(secret)
	if err == nil {
		h.Log.Info("keys of a cluster written", "namespace", secret.Namespace, "secret", secret.Name)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
	}
	found, err := reconcile.Optional(h.Secrets.Get(secret.Namespace, secret.Name, metav1.GetOptions{}))
	if err == nil && found != nil && found.Labels[clusterv1.ClusterNameLabel] != secret.Labels[clusterv1.ClusterNameLabel] {
		err = fmt.Errorf("the Secret %s/%s exists without label %s: delete it, then it is created again", secret.Namespace, secret.Name, clusterv1.ClusterNameLabel)
	}
	return err
}

// run writes the kubeconfig, creates the objects of the Machine and changes them in place.
func (h *handler) run(in Input, out Outcome) error {
	if out.NewKubeconfig {
		if err := h.writeKubeconfig(in, out); err != nil {
			return err
		}
	}
	for _, object := range out.Create {
		if err := h.create(object); err != nil {
			return err
		}
	}
	return h.change(in)
}

// writeKubeconfig creates the kubeconfig or replaces its content. Readers always see a complete one.
func (h *handler) writeKubeconfig(in Input, out Outcome) error {
	wanted, err := owner(in).NewKubeconfig(out.Authority, clustersecrets.URL(in.Cluster.Spec.ControlPlaneEndpoint), in.Now)
	if err != nil {
		return err
	}
	if in.Kubeconfig == nil {
		return h.createSecret(wanted)
	}
	renewed := in.Kubeconfig.DeepCopy()
	renewed.Data = wanted.Data
	if _, err = h.Secrets.Update(renewed); err != nil {
		return fmt.Errorf("renewing Secret %s: %w", wanted.Name, err)
	}
	h.Log.Info("kubeconfig renewed", "namespace", wanted.Namespace, "secret", wanted.Name)
	return nil
}

// create creates an object. One that exists already is checked by the next decision.
func (h *handler) create(object metav1.Object) error {
	var err error
	switch object := object.(type) {
	case *api.LabMachine:
		_, err = h.LabMachines.Create(object)
	case *api.LabConfig:
		_, err = h.LabConfigs.Create(object)
	case *clusterv1.Machine:
		_, err = h.Machines.Create(object)
	default:
		err = fmt.Errorf("unsupported object type %T", object)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// change brings labels, annotations and timeouts of existing objects up to date.
func (h *handler) change(in Input) error {
	var problems []error
	if in.Machine != nil && in.Machine.DeletionTimestamp == nil {
		_, err := reconcile.Patch(h.Machines, in.Machine, func(m *clusterv1.Machine) {
			propagate(in, m)
			setDeletion(in.ControlPlane, m)
		})
		problems = append(problems, err)
	}
	if in.LabMachine != nil && in.LabMachine.DeletionTimestamp == nil {
		_, err := reconcile.Patch(h.LabMachines, in.LabMachine, func(m *api.LabMachine) { propagate(in, m) })
		problems = append(problems, err)
	}
	if in.LabConfig != nil && in.LabConfig.DeletionTimestamp == nil {
		_, err := reconcile.Patch(h.LabConfigs, in.LabConfig, func(c *api.LabConfig) { propagate(in, c) })
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// report writes the status of the LabControlPlane, and the condition of its Machine.
func (h *handler) report(in Input, out Outcome) error {
	_, err := reconcile.WriteStatus(h.LabControlPlanes, in.ControlPlane, func(c *api.LabControlPlane) { setStatus(in, out, c) })
	if err == nil && !isInitialized(in.ControlPlane) && in.Server.Asked && in.Server.Err == nil {
		h.Log.Info("control plane initialized", "namespace", in.ControlPlane.Namespace, "labcontrolplane", in.ControlPlane.Name, "version", in.Server.Version)
	}
	if out.Stage != Running || in.Machine == nil {
		return err
	}
	_, machineErr := reconcile.WriteStatus(h.Machines, in.Machine, func(m *clusterv1.Machine) { setUpToDate(in, m) })
	return errors.Join(err, machineErr)
}
